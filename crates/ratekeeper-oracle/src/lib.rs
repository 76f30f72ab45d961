//! The exact oracle: what a limiter should have answered.
//!
//! It is written from the definitions alone and shares no code with the limiter it judges.
//! [`Bucket`](bucket::Bucket) answers for one bucket, with big integers, where every time is known.
//! [`trace`] judges answers that were seen from outside, where each was decided at a time that
//! nobody knows exactly.

pub mod bucket;
pub mod terms;
pub mod trace;
