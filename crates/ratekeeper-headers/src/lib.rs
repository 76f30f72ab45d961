//! Header fields that speak of limits: read as clients find them, formatted as servers send them.
//!
//! [`read`] knows the dialects and needs no configuration:
//!
//! - `X-RateLimit-Limit`, `-Remaining`, `-Used`, `-Reset`, `-Reset-After`, `-Bucket`, `-Global`,
//!   `-Scope`, `-Resource`, also spelt `X-Rate-Limit-` or `RateLimit-`, and the same for each of
//!   several budgets: `x-ratelimit-limit-tokens`, `anthropic-ratelimit-tokens-limit`,
//!   `X-RateLimit-Remaining-Minute`.
//! - `RateLimit` and `RateLimit-Policy` of the IETF's drafts, the newest and the older ones.
//! - `Retry-After` in seconds or as a date, and `retry-after-ms`.
//!
//! What a number means is told by its size. A reset below 10^9 is a length in seconds, below 10^11
//! a point in seconds since 1970, and from there on a point in milliseconds. Everything else is
//! told by its shape: `1m30s`, `2026-11-16T10:00:00Z`, `Mon, 16 Nov 2026 10:00:00 GMT`.
//!
//! What is called `-Resource` is [`Said::resource`], and no budget's name: of the budgets of several
//! resources a response tells one.
//!
//! What is malformed is ignored, a field at a time; so is what is negative, which some servers
//! send for a limit that there is not. Where a response says a thing twice, the stricter counts:
//! the smaller number, the longer wait. Points in time are compared with the response's own
//! `Date`, not with the caller's clock. On a response with an `Age` above zero nothing counts, as
//! it is what a cache remembered.

#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

mod draft;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod list;
mod name;
mod number;
mod policies;
mod read;
mod said;
mod span;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_one;
pub use ratekeeper_time::{Moment, Nanos};
pub use read::{read, read_into};
pub use said::{BUDGETS_MAX, Rounded, Said, Scope, Told, Unit, WAIT_MAX, Wait};
