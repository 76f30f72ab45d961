//! How much sooner than the clock says something may be sent, because it has a way to go.
//!
//! What a server says was true when it said so, which was a while before it was heard; and what
//! is sent now is counted when it arrives. Both together are at least as long as the shortest
//! round trip there can be. So somebody told to wait for a second may send that much sooner and
//! still arrives in time. How short a round trip can be nobody knows, but a part of the shortest
//! that was seen lately is a careful guess; and where round trips differ a lot, a smaller part.

use ratekeeper_time::{Moment, Nanos};

use crate::budget::Trip;
use crate::length::Length;

/// Round trips that must have been seen lately before any credit is given.
const SAMPLES_MIN: u32 = 16;
/// With as many as this, what they differ by is all the doubt there is.
const SAMPLES_MANY: u64 = 512;
/// With more than this, doubt is not less.
const SAMPLES_ENOUGH: u64 = 2 * SAMPLES_MANY;
/// For how long a round trip is remembered, at least; at most twice as long.
const MEMORY: Nanos = Nanos::from_secs(60);
/// The most that is given of the shortest round trip, in percent.
const PERCENT_MAX: u64 = 75;
/// The most that is ever given.
const CREDIT_MAX: Length = Length::from_nanos(1_000_000_000);
/// How long an answer takes before any was seen.
const ANSWER_UNSEEN: u64 = 100_000_000;

/// How long an answer that others wait for is waited for, at least.
const PATIENCE: Nanos = Nanos::new(500_000_000);

/// The round trips seen lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    latest: Stretch,
    before: Stretch,
    /// When the latest stretch began.
    since: Moment,
    /// A decaying mean, also to say when an answer is likely.
    usual: u64,
    given: Length,
}

/// The round trips of some time.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    shortest: u64,
    samples: u32,
}

impl Credit {
    pub(crate) const fn new() -> Self {
        let none = Stretch { shortest: u64::MAX, samples: 0 };
        Self {
            latest: none,
            before: none,
            since: Moment::EPOCH,
            usual: ANSWER_UNSEEN,
            given: Length::ZERO,
        }
    }

    /// Learns from a request sent at `sent` and answered at `now`.
    pub(crate) fn learn(&mut self, sent: Moment, now: Moment) {
        let took = now.as_nanos().saturating_sub(sent.as_nanos());
        if now >= self.since.after(MEMORY) {
            self.before = std::mem::replace(&mut self.latest, Self::new().latest);
            self.since = now;
        }
        self.latest.shortest = self.latest.shortest.min(took);
        self.latest.samples = self.latest.samples.saturating_add(1);
        self.usual = self.usual - self.usual / 8 + took / 8;
        self.given = self.earned();
    }

    /// How much sooner something may be sent.
    pub(crate) const fn given(&self) -> Length {
        self.given
    }

    pub(crate) fn trip(&self) -> Trip {
        Trip { credit: self.given, usual: self.usual() }
    }

    /// How long an answer usually takes; never zero, or who waits for one would ask at once.
    pub(crate) fn usual(&self) -> Nanos {
        Nanos::new(u128::from(self.usual.max(1_000_000)))
    }

    /// How long an answer that others wait for is waited for, before one more is sent.
    pub(crate) fn patience(&self) -> Nanos {
        PATIENCE.max(Nanos::new(self.usual.saturating_add(self.usual / 2).into()))
    }

    fn earned(&self) -> Length {
        let samples = self.latest.samples.saturating_add(self.before.samples);
        if samples < SAMPLES_MIN {
            return Length::ZERO;
        }
        let shortest = self.latest.shortest.min(self.before.shortest);
        // The more they differ, and the fewer were seen, the more likely is one that is shorter
        // than all of them.
        let spread = self.usual.saturating_sub(shortest);
        let doubt = match u64::from(samples) {
            few @ ..SAMPLES_ENOUGH => spread.saturating_mul(SAMPLES_MANY) / few,
            SAMPLES_ENOUGH.. => spread / 2,
        };
        let careful = shortest.saturating_sub(doubt).min(shortest / 100 * PERCENT_MAX);
        Length::from_nanos(careful).min(CREDIT_MAX)
    }
}

#[cfg(test)]
mod tests;
