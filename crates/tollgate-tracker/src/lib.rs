//! Obeying other people's limits.
//!
//! An API that limits its callers says so in the header fields of its answers. This crate reads
//! them, keeps account of what is left, and says before each request whether it may be sent now,
//! and if not, when.

pub mod headers;
