//! What the tests share: the exact oracle and seeded traffic.
