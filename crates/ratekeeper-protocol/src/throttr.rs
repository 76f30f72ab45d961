//! Throttr: quotas with a lifetime, in a binary protocol over TCP.
//!
#![doc = include_str!("throttr/README.md")]

mod codec;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod named;
mod session;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_one;
pub use session::{Door, Options, Session};
