//! Throttr: quotas with a lifetime, in a binary protocol over TCP.
