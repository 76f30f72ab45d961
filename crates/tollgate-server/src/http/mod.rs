//! HTTP: what is said in header fields, who may ask, and TLS.
#![cfg_attr(not(test), expect(dead_code, reason = "the door that calls all of this comes next"))]

pub(crate) mod access;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod tls;
pub(crate) mod tokens;
