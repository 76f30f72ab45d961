//! An exact rate limiter to embed.

mod time;

pub mod algorithm;
pub mod limiter;
pub mod limits;
pub mod store;

pub use limiter::{Decision, Limiter, Mistake, Mode, Request};
pub use limits::Limits;
pub use time::{Clock, Moment, Nanos};
