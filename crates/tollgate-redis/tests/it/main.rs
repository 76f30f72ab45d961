//! Tollgate on real servers: started here, on free ports, and killed at the end.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod conformance;
mod differential;
mod differential_others;
mod servers;
