//! An exact rate limiter to embed.

mod time;

pub mod algorithm;
pub mod limits;
pub mod store;

pub use time::{Clock, Moment, Nanos};
