//! An exact rate limiter to embed.
//!
//! You name your limits in a small file, ask "may this id do one more?", and get an answer: yes,
//! or no and how long to wait. The arithmetic is GCRA over whole numbers, so three per second is
//! three per second for ever, and a wait is never a nanosecond too short or too long. Memory has
//! a cap that you choose.
//!
//! # Quick start
//!
//! ```
//! use ratekeeper::limits::{Limits, Source};
//! use ratekeeper::{Clock, Limiter};
//!
//! let text = "SearchesPerUser: {burst: 2, count: 1, period: 1h}";
//! let limits = Limits::parse(&Source { name: "limits.yaml", text }, None)?;
//! let limiter = Limiter::new(limits)?;
//! let clock = Clock::start();
//!
//! assert!(limiter.spend("SearchesPerUser", "ada", 1, clock.now())?.allowed);
//! assert!(limiter.spend("SearchesPerUser", "ada", 1, clock.now())?.allowed);
//! let denied = limiter.spend("SearchesPerUser", "ada", 1, clock.now())?;
//! assert!(!denied.allowed);
//! println!("try again in {}", denied.retry_in.brief());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A denial is an answer, in [`Decision::allowed`]. A [`Mistake`] is an error: a name that no
//! limit has, an id of the wrong format, a cost that no bucket could ever hold.
//!
//! # What is where
//!
//! | module | what it has |
//! |---|---|
//! | [`limiter`] | [`Limiter`]: spend, check, refund, reset, transactions, batches, witnesses, reload, explain |
//! | [`limits`] | [`Limits`]: the files, their faults, id formats, what a new file changes |
//! | [`store`] | where buckets are kept: the memory store and its cap, and how it is saved |
//! | [`algorithm`] | the arithmetic, as pure functions |
//!
//! [`Moment`] is a point in time and [`Nanos`] a length. Nothing in here reads a clock: every ask
//! says what time it is, and [`Clock`] is there for callers who have none. So a test that needs an
//! hour to pass adds an hour to a number.
#![cfg_attr(
    doc,
    doc = "
# Guides

- [The engine](guide::engine): the arithmetic, transactions, reload, saving and memory, with examples.
- [Limits files](guide::limits): every field, and what is refused.
- [Coming from governor](guide::coming_from_governor): the same ideas, side by side."
)]

pub mod algorithm;
mod keyed;
pub mod limiter;
pub mod limits;
pub mod store;

pub use keyed::Keyed;
pub use limiter::{
    Answers, Batch, Decision, Explanation, Limiter, Merged, Mistake, Mode, Request, Witness,
};
pub use limits::Limits;
pub use ratekeeper_time::{Brief, Clock, Moment, Nanos};

/// The pages of the `docs` folder, whose examples are tests.
///
/// They exist in the documentation only. Each begins with what its links mean here; in the folder
/// they lead from file to file.
#[cfg(doc)]
pub mod guide {
    /// [the engine]: self::engine
    /// [limits files]: self::limits
    /// [coming from governor]: self::coming_from_governor
    #[doc = include_str!("../../../docs/engine.md")]
    pub mod engine {}

    /// [the engine]: self::engine
    /// [limits files]: self::limits
    /// [coming from governor]: self::coming_from_governor
    #[doc = include_str!("../../../docs/limits.md")]
    pub mod limits {}

    /// [the engine]: self::engine
    /// [limits files]: self::limits
    /// [coming from governor]: self::coming_from_governor
    #[doc = include_str!("../../../docs/coming-from-governor.md")]
    pub mod coming_from_governor {}
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
