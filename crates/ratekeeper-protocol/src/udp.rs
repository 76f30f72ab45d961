#![doc = include_str!("udp/README.md")]

mod asks;
mod check;
pub mod codec;
mod door;
mod fuzz;
mod guide;
mod named;
mod owners;
mod pattern;
mod reader;
mod rules;
mod statistics;
#[cfg(test)]
mod tests;

pub use door::Door;
#[doc(hidden)]
pub use fuzz::fuzz_one;
pub use guide::{Governed, Guide};
pub use pattern::{GROUPS_MAX, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, TEMPLATE_PARTS_MAX};
pub use rules::{KEY_BYTES_MAX, RULES_MAX, Rules};
pub use statistics::{BUCKET_SECS, STATISTICS_KEYS_MAX};

use ratekeeper::limits::Source;

/// Rules to begin with, for the limits that the command line begins with.
pub const STARTER: Source<'static> =
    Source { name: "the starter rules", text: include_str!("udp/starter.yaml") };
