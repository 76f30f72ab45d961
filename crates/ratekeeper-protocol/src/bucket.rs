//! The token-bucket server: lines over TCP, `get bucket_name`.
//!
#![doc = include_str!("bucket/README.md")]

mod codec;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod session;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_one;
pub use session::{Door, LINE_BYTES_MAX, Session};

use ratekeeper::limits::Source;

/// The buckets of a first run, before there is a file.
pub const STARTER: Source<'static> =
    Source { name: "the starter buckets", text: include_str!("bucket/starter.conf") };
