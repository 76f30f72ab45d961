#![doc = include_str!("README.md")]

mod check;
pub mod codec;
mod door;
mod pattern;
mod reader;
mod rules;
mod statistics;

pub use door::Door;
pub use pattern::{GROUPS_MAX, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, TEMPLATE_PARTS_MAX};
pub use rules::{KEY_BYTES_MAX, RULES_MAX, Rules};
pub use statistics::{BUCKET_SECS, STATISTICS_KEYS_MAX};
