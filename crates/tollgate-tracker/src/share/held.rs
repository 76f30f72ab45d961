//! Tokens that are held until the API has forgotten their requests, and then given back.
//!
//! A process that dies gives nothing back. So buckets are used for a term only: each term has its
//! own, and what is missing from the last one is missing no more. Around the end of a term a
//! request takes a token of both, because the API counts what was sent before and after it in one
//! window. It does so for a while before and after, as what processes know of the server's clock
//! may differ.

use std::collections::VecDeque;

use tollgate::{Moment, Nanos};

/// The shortest term, and how many windows one has at least.
const TERM_MIN: Nanos = Nanos::from_secs(60);
const TERM_WINDOWS: u128 = 20;
/// How much what two processes know of the server's clock may differ: a second and the time that
/// an answer takes. A term has 20 windows more than this.
pub(super) const SKEW_MAX: Nanos = Nanos::from_secs(2);
/// The most tokens that are given back at once.
const REFUND_MAX: usize = 256;

/// The terms that a request is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) current: u64,
    /// The one before or after, near the end of a term.
    pub(crate) other: Option<u64>,
}

impl Terms {
    /// The terms of what is sent at `now`, on the server's clock, to an API that counts in such windows.
    pub(crate) fn at(now: Moment, window: Nanos) -> Self {
        let length = TERM_MIN.get().max(window.get().saturating_mul(TERM_WINDOWS));
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let (current, into) = (now.as_nanos() / length, now.as_nanos() % length);
        let is_begun = u128::from(into) < window.get() + SKEW_MAX.get();
        let is_ending = u128::from(length - into) <= SKEW_MAX.get();
        let other = match (is_begun, is_ending) {
            (true, _) => current.checked_sub(1),
            (_, true) => Some(current + 1),
            _ => None,
        };
        Self { current, other }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u64> {
        [self.current].into_iter().chain(self.other)
    }
}

/// How many tokens go back to which term.
pub(crate) type Refunds = Vec<(u64, u32)>;

/// The tokens held, by when they go back.
#[derive(Debug, Default)]
pub(crate) struct Held(VecDeque<(Moment, Terms)>);

impl Held {
    /// Holds a token until a moment. One that is later than those before may be it too late, which
    /// does no harm.
    pub(crate) fn until(&mut self, at: Moment, terms: Terms) {
        let at = self.0.back().map_or(at, |&(last, _)| last.max(at));
        self.0.push_back((at, terms));
    }

    /// Gives a token back at once.
    pub(crate) fn release(&mut self, terms: Terms) {
        self.0.push_front((Moment::EPOCH, terms));
    }

    /// When the next one goes back.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.0.front().map(|&(at, _)| at)
    }

    /// Those that go back now. If that goes wrong, their term's end brings them back.
    pub(crate) fn due(&mut self, now: Moment) -> Refunds {
        let mut refunds = Refunds::new();
        for _ in 0..REFUND_MAX {
            let Some(&(_, terms)) = self.0.front().filter(|(at, _)| *at <= now) else { break };
            self.0.pop_front();
            for term in terms.iter() {
                match refunds.iter_mut().find(|(known, _)| *known == term) {
                    Some((_, count)) => *count += 1,
                    None => refunds.push((term, 1)),
                }
            }
        }
        refunds
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
