//! The token-bucket server: lines over TCP, `get bucket_name`.
