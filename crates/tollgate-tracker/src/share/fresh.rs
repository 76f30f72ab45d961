//! Whether a token that was spent may still be used when its answer comes.
//!
//! A token is counted by the server when it is given, and its request by the API when it arrives.
//! Say a limit of burst `b` gives one token every `e`, or less often. Then at most `b + t / e` are
//! given in a time `t`; and if that is as many as the API allows when `t` is a window and `late`,
//! each may arrive up to `late` after it was given. Some of that is for the way to the API. The
//! rest, [`ANSWER_LATE_MAX`], is for the answer: one that took so much longer than they do is too late.
//!
//! But that is for a bucket that was full. Mostly it was not: one that lacked `n` tokens a moment
//! ago, of which one may be back already in part, gives `n - 1` fewer from then on. So until
//! `e * (n - 1)` after this moment a token may be used however late it comes, and all of `late` is
//! for the way to the API. On a busy machine answers are read late now and then; but mostly
//! somebody was denied just before, and nothing is lost.

use tollgate::{Moment, Nanos};

use super::till::Answer;

/// How much later than usual an answer may come.
const ANSWER_LATE_MAX: Nanos = Nanos::new(8_000_000);

#[derive(Debug)]
pub(super) struct Freshness {
    /// How often a token comes, at most.
    spacing: Nanos,
    /// The shortest round trip to the server lately.
    shortest: Nanos,
    /// Until when tokens may be used whenever they were given, by the last answer.
    until: Moment,
}

impl Freshness {
    pub(super) const fn new(spacing: Nanos) -> Self {
        Self { spacing, shortest: Nanos::new(u128::MAX), until: Moment::EPOCH }
    }

    /// Whether the tokens of an answer may be used now.
    pub(super) fn judge(&mut self, answer: &Answer, asked: Moment, now: Moment) -> bool {
        let took = now.since(asked);
        // It rises slowly, so that a way that has become longer is not taken for delay for ever.
        let risen = self.shortest.get().saturating_add(self.shortest.get() / 64);
        self.shortest = Nanos::new(risen).min(took);
        let in_time = took.get() <= self.shortest.get().saturating_add(ANSWER_LATE_MAX.get());
        let is_fresh = in_time || now <= self.until;
        // The server looked after it was asked; so counted from there it is rather too early.
        let fewer = u128::from(answer.lacks.saturating_sub(1));
        let spared = Nanos::new(self.spacing.get().saturating_mul(fewer));
        self.until = asked.after(spared);
        is_fresh
    }
}

#[cfg(test)]
mod tests;
