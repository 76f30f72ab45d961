//! What one response says about limits, whatever dialect it says it in.

use ratekeeper_time::Nanos;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// How many budgets are read from one response, and kept of one bucket. Of a longer list the
/// strictest are read. Where a bucket turns out to have more, those that are full make way; and if
/// none is, then only one request is sent at a time until the reset of those not kept, and none
/// once nothing is left of one of them.
pub const BUDGETS_MAX: usize = 16;
/// The longest that anybody is told to wait. What a response says beyond it is kept, as text for
/// a person, in [`Wait::truly_secs`].
pub const WAIT_MAX: Nanos = Nanos::from_secs(7 * 86_400);

/// What one response says about limits. Times are relative to when the response was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said<'h> {
    /// The budgets it speaks of, each once.
    pub budgets: SmallVec<[Told<'h>; 2]>,
    /// `Retry-After`, which beats everything else.
    pub retry_after: Option<Wait>,
    /// What the server calls the bucket: `X-RateLimit-Bucket`.
    pub bucket: Option<&'h str>,
    /// Which of the server's resources it counts against: `X-RateLimit-Resource`. Like the name of a
    /// bucket, but the server never gives another name to the same budget.
    pub resource: Option<&'h str>,
    /// `X-RateLimit-Global`: the fields are about the limit on all requests.
    pub global: bool,
    /// `X-RateLimit-Scope`.
    pub scope: Option<Scope>,
    /// `Date`: the whole second since 1970 in which it was made, by the server's clock. Only read
    /// where a budget has a [`Rounded::Point`].
    pub date_secs: Option<u64>,
    /// It is what a cache remembered. Nothing else is said then, and nobody knows whether there are
    /// limits.
    pub cached: bool,
}

/// What is said of one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told<'h> {
    /// The name of its policy; empty where the dialect has but one.
    pub name: &'h str,
    /// What is counted.
    pub unit: Unit,
    /// How much there is when it is full.
    pub limit: Option<u64>,
    /// How much is left.
    pub remaining: Option<u64>,
    /// When there is more.
    pub reset_in: Option<Wait>,
    /// Set where it was told in whole seconds, so that nobody knows which part of one it is.
    pub rounded: Option<Rounded>,
    /// Whether `reset_in` is not when it is full: then only one more is sure, as with `t` of `RateLimit`.
    pub only_more: bool,
    /// How long it takes from empty to full, where that is said; at most [`WAIT_MAX`].
    pub window: Option<Nanos>,
}

/// How a reset was told in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounded {
    /// As a length.
    Length,
    /// As that second since 1970, by the server's clock.
    Point(u64),
}

/// What a budget counts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Unit {
    /// Requests.
    #[default]
    Requests,
    /// Tokens of a language model, read and written.
    Tokens,
    /// Tokens that the model reads.
    InputTokens,
    /// Tokens that the model writes.
    OutputTokens,
    /// Bytes of content.
    Bytes,
    /// Requests at the same time.
    Concurrent,
}

/// Whose limit was hit: `X-RateLimit-Scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The caller's own, on this route.
    User,
    /// The caller's own, on everything.
    Global,
    /// One that others share, so that hitting it is nobody's fault.
    Shared,
}

/// A length of time as a response gave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// How long to wait: never negative, at most [`WAIT_MAX`].
    pub length: Nanos,
    /// What was said, in seconds, where it was more than [`WAIT_MAX`].
    pub truly_secs: Option<f64>,
}

impl Wait {
    /// What was said, in seconds, where it was more than the longest that is believed.
    #[inline]
    pub fn truly_secs_beyond(&self, longest: Nanos) -> Option<f64> {
        let is_beyond = self.length > longest;
        if is_beyond { self.truly_secs.or_else(|| Some(self.secs())) } else { self.truly_secs }
    }

    /// Kept apart because hardly any wait is so long, and the conversion takes dozens of instructions.
    #[cold]
    #[expect(clippy::cast_precision_loss, reason = "it is told to a person")]
    fn secs(&self) -> f64 {
        self.length.get() as f64 / 1e9
    }
}
