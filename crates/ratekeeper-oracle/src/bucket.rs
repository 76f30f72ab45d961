//! The exact oracle of one bucket, a direct transcription of the definition.

use std::fmt;

use num_bigint::BigInt;

use crate::terms::{Terms, ceil_div};

/// No bucket holds more tokens, and so none can owe more; where it looks so, time stepped back.
const BURST_MAX: u64 = 1 << 32;

/// What a bucket answers.
///
/// Lengths of time are the exact value rounded up to whole nanoseconds, so waiting that long is
/// enough and one nanosecond less is not; `remaining` is rounded down and never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Spend and check: whether there is room. Refund: whether it was applied.
    pub allowed: bool,
    /// Whole tokens left.
    pub remaining: u64,
    /// Nanoseconds until an identical request would succeed.
    pub retry_in: u128,
    /// Nanoseconds until the bucket is full.
    pub reset_in: u128,
}

impl Answer {
    fn full(terms: Terms, allowed: bool) -> Self {
        Self { allowed, remaining: terms.burst, retry_in: 0, reset_in: 0 }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, remaining, retry_in, reset_in } = self;
        let word = if *allowed { "yes" } else { "no" };
        write!(f, "{word}, remaining {remaining}, retry in {retry_in} ns, reset in {reset_in} ns")
    }
}

/// A caller's error, never a denial; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// The cost can never be met, because the bucket does not hold that much.
    CostAboveBurst,
    /// A transaction names the same bucket twice.
    SameBucketTwice,
    /// A transaction asks nothing.
    NoAsks,
}

/// One bucket: its terms and its theoretical arrival time, where it has one.
#[derive(Debug, Clone)]
pub struct Bucket {
    terms: Terms,
    /// In ticks of `1/count` ns; `None` where nothing is stored, which is a full bucket.
    tat: Option<BigInt>,
    /// Whole tokens that are owed besides, since terms came into force under which the bucket holds
    /// less than it owed. They come back one by one, at the rate in force, from the arrival time on.
    hidden: BigInt,
}

impl Bucket {
    /// A full bucket, with nothing stored.
    ///
    /// # Panics
    /// Where a field of `terms` is zero.
    pub fn new(terms: Terms) -> Self {
        assert!(terms.are_valid(), "a limit has no zero in it: {terms}");
        Self { terms, tat: None, hidden: BigInt::ZERO }
    }

    /// A bucket whose stored theoretical arrival time is a whole nanosecond.
    pub fn with_tat(terms: Terms, tat_ns: u64) -> Self {
        Self { tat: Some(terms.ticks(tat_ns)), ..Self::new(terms) }
    }

    /// The terms in force.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The stored theoretical arrival time in ticks of `1/count` ns, where one is stored.
    pub fn tat(&self) -> Option<&BigInt> {
        self.tat.as_ref()
    }

    /// Whole tokens that are owed besides what the answers tell of, as of the last write.
    pub fn hidden(&self) -> &BigInt {
        &self.hidden
    }

    /// Spends `cost` if there is room; a cost of 0 stores nothing. Refuses a cost above the burst.
    pub fn spend(&mut self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        let (answer, new) = self.weigh(cost, now)?;
        if answer.allowed && cost > 0 {
            self.settle(&self.terms.ticks(now));
            self.tat = Some(new);
        }
        Ok(answer)
    }

    /// What `spend` would answer; stores nothing. Refuses a cost above the burst.
    pub fn check(&self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        self.weigh(cost, now).map(|(answer, _)| answer)
    }

    /// Gives `cost` back, up to full: first what the answers tell of, then what is hidden. Refuses a
    /// cost above the burst.
    pub fn refund(&mut self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        self.refuse_above_burst(cost)?;
        let terms = self.terms;
        let now = terms.ticks(now);
        let mut before = self.clone();
        before.settle(&now);
        let Some(tat) = before.tat.take() else { return Ok(Answer::full(terms, false)) };
        let mut after = Self { tat: Some(&tat - terms.price(cost)), ..before.clone() };
        after.settle(&now);
        let new = after.tat.take().unwrap_or_default();
        // Nobody has more than a full bucket, nor was anything given back before there was time.
        let new = if after.hidden == BigInt::ZERO { new.max(now.clone()) } else { new };
        let shown = new.clone().max(now.clone());
        let answer = Answer {
            allowed: shown != tat.max(now.clone()) || after.hidden != before.hidden,
            remaining: terms.tokens_floor(&(&now - &shown + terms.price(terms.burst))),
            retry_in: 0,
            reset_in: terms.ns_ceil(&(&shown - &now)),
        };
        if answer.allowed {
            *self = Self { tat: Some(new.max(BigInt::ZERO)), ..after };
        }
        Ok(answer)
    }

    /// Forgets everything spent.
    pub fn reset(&mut self) -> Answer {
        self.tat = None;
        self.hidden = BigInt::ZERO;
        Answer::full(self.terms, true)
    }

    /// Puts new terms in force at `at`: what was spent stays spent, in tokens, and flows back at
    /// the new rate from then on.
    ///
    /// A bucket does not tell that it owes more than it holds: as many whole tokens are hidden as it
    /// takes. Where they are more than a bucket can hide, none is, and the arrival time is that of all.
    /// The new arrival time is rounded up to the finest step the new terms can tell apart. Terms that
    /// only say the same in other words change nothing.
    pub fn change(&mut self, terms: Terms, at: u64) {
        if self.terms.mean_the_same_as(terms) {
            let (old, new) = (self.terms.ticks_per_step(), terms.ticks_per_step());
            self.tat = self.tat.take().map(|tat| tat / old * new);
            self.terms = terms;
            return;
        }
        self.settle(&self.terms.ticks(at));
        let new = Self::new(terms);
        let old = std::mem::replace(self, new);
        let Some(tat) = old.tat else { return };
        // The debt in tokens is `owed / old.period`; only the fraction is exact, so it stays one.
        let owed = (tat - old.terms.ticks(at)).max(BigInt::ZERO);
        let owed = owed + old.hidden * old.terms.period_ns;
        let owed = owed.min(old.terms.price(BURST_MAX));
        let beyond = (&owed - old.terms.price(terms.burst)).max(BigInt::ZERO);
        let mut hidden = ceil_div(&beyond, old.terms.period_ns);
        if hidden >= terms.hidden_end() {
            hidden = BigInt::ZERO;
        }
        let owed = owed - &hidden * old.terms.period_ns;
        // debt * E' = owed / old.period * period' / count'; in steps of 1/count' ns the divisor
        // count' falls away, which leaves one division.
        let step = terms.ticks_per_step();
        let steps = ceil_div(&(owed * (terms.period_ns / step)), old.terms.period_ns);
        self.tat = Some(terms.ticks(at) + steps * step);
        self.hidden = hidden;
    }

    /// Gives back the hidden tokens that have come back by `now`, in ticks.
    fn settle(&mut self, now: &BigInt) {
        let Some(tat) = &mut self.tat else { return };
        let idle = (now - &*tat).max(BigInt::ZERO);
        let back = (idle / self.terms.period_ns).min(self.hidden.clone());
        *tat += &back * self.terms.period_ns;
        self.hidden -= back;
    }

    /// The decision and the arrival time it leads to, which is only meant where it allows.
    fn weigh(&self, cost: u64, now: u64) -> Result<(Answer, BigInt), Mistake> {
        self.refuse_above_burst(cost)?;
        let terms = self.terms;
        let now = terms.ticks(now);
        let t = self.tat.as_ref().unwrap_or(&now).max(&now);
        let price = terms.price(cost);
        let new = t + &price;
        // now - (new - B)
        let slack = &now - &new + terms.price(terms.burst);
        let answer = if slack < BigInt::ZERO {
            Answer {
                allowed: false,
                remaining: terms.tokens_floor(&(&slack + &price)),
                retry_in: terms.ns_ceil(&-&slack),
                reset_in: terms.ns_ceil(&(t - &now)),
            }
        } else {
            Answer {
                allowed: true,
                remaining: terms.tokens_floor(&slack),
                retry_in: terms.ns_ceil(&(price - &slack)),
                reset_in: terms.ns_ceil(&(&new - &now)),
            }
        };
        Ok((answer, new))
    }

    fn refuse_above_burst(&self, cost: u64) -> Result<(), Mistake> {
        if cost > self.terms.burst { Err(Mistake::CostAboveBurst) } else { Ok(()) }
    }
}
