//! How long tokens are good for: a token is of a few terms, and each term has a bucket of its own.
//!
//! A process that dies gives nothing back. So a bucket is used for a short time only, and what is
//! missing in it is missing no longer than that. A token is one of the current term and of
//! [`TERMS_HELD`] - 1 terms before it, taken of all their buckets at once. Whoever holds it when a
//! term begins takes one of that too. So any two processes have a term in common at any time, and
//! its bucket keeps what they hold together within the limit.

use std::ops::RangeInclusive;

use ratekeeper_time::{Moment, Nanos};

/// How many terms a token is of.
const TERMS_HELD: u64 = 3;
/// For how much longer than a window the tokens of a process that died are kept. Its last requests
/// may be on their way to the API for half of that; the other half is what processes may differ in
/// what they know of the server's clock, and how late they may hear that a term has begun.
const MARGIN: Nanos = Nanos::from_secs(2);

/// For how long the tokens of a process that died are kept at least.
pub(super) fn kept_min(window: Nanos) -> Nanos {
    Nanos::new(window.get().saturating_add(MARGIN.get()))
}

/// For how long at most, which is also how long a bucket is used.
pub(super) fn kept_max(window: Nanos) -> Nanos {
    Nanos::new(length(window).get().saturating_mul(u128::from(TERMS_HELD)))
}

fn length(window: Nanos) -> Nanos {
    Nanos::new((kept_min(window).get() / u128::from(TERMS_HELD - 1)).max(1))
}

/// A few terms, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms(RangeInclusive<u64>);

impl Terms {
    /// Those of a token that is taken at a moment on the server's clock, where the API counts in
    /// such windows.
    pub(crate) fn at(there: Moment, window: Nanos) -> Self {
        let current = u128::from(there.as_nanos()) / length(window).get();
        Self::ending(u64::try_from(current).unwrap_or(u64::MAX))
    }

    /// Those of a token of which this is the last.
    pub(crate) fn ending(last: u64) -> Self {
        Self(last.saturating_sub(TERMS_HELD - 1)..=last)
    }

    /// Those that others lack. None if the others are as late, or later.
    pub(crate) fn beyond(&self, others: &Self) -> Option<Self> {
        let first = (others.current() + 1).max(*self.0.start());
        (first <= self.current()).then(|| Self(first..=self.current()))
    }

    /// Whether a token of both is one of some term twice.
    pub(crate) fn overlaps(&self, others: &Self) -> bool {
        self.0.start() <= others.0.end() && others.0.start() <= self.0.end()
    }

    pub(crate) fn current(&self) -> u64 {
        *self.0.end()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        self.0.clone()
    }

    /// When the next one begins, on the server's clock.
    pub(crate) fn end(&self, window: Nanos) -> Moment {
        let end = length(window).get().saturating_mul(u128::from(self.current()) + 1);
        Moment::from_nanos(u64::try_from(end).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
