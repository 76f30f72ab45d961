//! GCRA, exactly: tokens that come back one by one, up to a burst.
//!
//! A bucket is one number, the moment at which it will be full again (its *theoretical arrival
//! time*). That moment is rarely a whole nanosecond: three tokens per second come back every
//! 333,333,333⅓ ns. So each rule counts time in *ticks* of its own, chosen so that both a
//! nanosecond and a token are whole numbers of ticks: with `period / count` in lowest terms
//! `step / rate`, a tick is `1 / rate` ns, a nanosecond is `rate` ticks and a token `step` ticks.
//! Every comparison below is then between whole numbers, and nothing is ever rounded except the
//! answers, which round up: a caller told to wait 333,333,334 ns is not refused again.
//!
//! The widths make overflow impossible: moments are below 2^63 ns, `rate` at most 2^32, `step` at
//! most 2^62 and `burst` at most 2^32, so every stored time fits in [`TAT_BITS`] bits.

use std::num::{NonZeroU64, NonZeroU128};

use crate::{Moment, Nanos};

/// The largest burst a rule can have.
pub const BURST_MAX: u64 = 1 << 32;
/// The largest count a rule can have once `count / period` is in lowest terms.
pub const RATE_MAX: u64 = 1 << 32;
/// The longest period a rule can have: 146 years.
pub const PERIOD_MAX: Nanos = Nanos::new(1 << 62);
/// How many bits a [`Tat`] takes at most.
pub const TAT_BITS: u32 = 96;

/// How many tokens a bucket holds, and how fast they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    burst: u64,
    /// Ticks per token.
    step: NonZeroU64,
    /// Ticks per nanosecond.
    rate: NonZeroU64,
    /// Ticks from empty to full.
    depth: u128,
    /// The same, if it is below 2^63: then 64 bits hold what any ask of this rule comes to.
    short_depth: Option<NonZeroU64>,
}

/// Why there is no such rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum RuleError {
    #[error("burst must be from 1 to {BURST_MAX}")]
    Burst,
    #[error("count must be at least 1")]
    Count,
    #[error("count is too fine for this period: in lowest terms at most {RATE_MAX}")]
    TooFine,
    #[error("period must be from 1ns to {PERIOD_MAX}")]
    Period,
}

impl Rule {
    /// A rule of `count` tokens per `period`, up to `burst` at once. Refuses zeros and what lies
    /// beyond the bounds of this module.
    pub fn new(burst: u64, count: u64, period: Nanos) -> Result<Self, RuleError> {
        if burst == 0 || burst > BURST_MAX {
            return Err(RuleError::Burst);
        }
        let count = NonZeroU64::new(count).ok_or(RuleError::Count)?;
        let period = match u64::try_from(period.get()).map(NonZeroU64::new) {
            Ok(Some(nanos)) if Nanos::new(nanos.get().into()) <= PERIOD_MAX => nanos,
            _ => return Err(RuleError::Period),
        };
        let common = greatest_common_divisor(count, period);
        let (rate, step) = (count.get() / common, period.get() / common);
        let (Some(rate), Some(step)) = (NonZeroU64::new(rate), NonZeroU64::new(step)) else {
            return Err(RuleError::Count);
        };
        if rate.get() > RATE_MAX {
            return Err(RuleError::TooFine);
        }
        Ok(Self::in_ticks(burst, step, rate))
    }

    /// The rule of this burst whose tokens come back every `step / rate` nanoseconds, which are in
    /// lowest terms and within the bounds, because they were another rule's.
    #[inline]
    pub(super) fn in_ticks(burst: u64, step: NonZeroU64, rate: NonZeroU64) -> Self {
        let depth = widen(burst, step);
        let short_depth = i64::try_from(depth).ok().map(i64::unsigned_abs);
        let short_depth = short_depth.and_then(NonZeroU64::new);
        Self { burst, step, rate, depth, short_depth }
    }

    /// How many tokens a full bucket holds.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// How long one token takes to come back, in nanoseconds, as a fraction in lowest terms.
    pub const fn emission_interval(&self) -> (u64, u64) {
        (self.step.get(), self.rate.get())
    }

    /// Whether tokens come back more slowly than under `other`.
    pub(crate) fn is_slower_than(&self, other: &Self) -> bool {
        widen(self.step.get(), other.rate) > widen(other.step.get(), self.rate)
    }

    #[inline]
    fn ticks(&self, now: Moment) -> u128 {
        widen(now.as_nanos(), self.rate)
    }

    #[inline]
    fn price(&self, cost: u64) -> u128 {
        widen(cost, self.step)
    }

    /// How many whole tokens are left when `debt` ticks are owed.
    #[inline]
    fn tokens_left(&self, debt: u128) -> u64 {
        let left = divide(self.depth.saturating_sub(debt), self.step);
        // At most `burst`, which fits.
        u64::try_from(left).unwrap_or(self.burst)
    }

    /// Rounds up: at the end of what it says, the ticks have passed.
    #[inline]
    fn nanos(&self, ticks: u128) -> Nanos {
        if self.rate.get() == 1 {
            return Nanos::new(ticks);
        }
        Nanos::new(divide(
            ticks.saturating_add(u128::from(self.rate.get()).saturating_sub(1)),
            self.rate,
        ))
    }

    /// Rounds up, as [`Self::nanos`] does.
    #[inline]
    fn short_nanos(&self, ticks: u64) -> Nanos {
        // Either is common, and a division takes longer than all the rest.
        if self.rate.get() == 1 || ticks == 0 {
            return Nanos::new(ticks.into());
        }
        Nanos::new((ticks.wrapping_sub(1) / self.rate).wrapping_add(1).into())
    }
}

/// The largest number that divides both.
pub(crate) fn greatest_common_divisor(a: NonZeroU64, b: NonZeroU64) -> NonZeroU64 {
    let (mut divisor, mut rest) = (a, b.get() % a);
    while let Some(next) = NonZeroU64::new(rest) {
        (divisor, rest) = (next, divisor.get() % next);
    }
    divisor
}

/// The product of two 64-bit numbers, which fits in 128 bits and so does not wrap.
#[inline]
fn widen(a: u64, b: NonZeroU64) -> u128 {
    u128::from(a).wrapping_mul(b.get().into())
}

/// Most bursts last less than 2^64 ticks, and dividing 64 bits is several times as fast as 128.
#[inline]
fn divide(ticks: u128, by: NonZeroU64) -> u128 {
    match u64::try_from(ticks) {
        Ok(ticks) => (ticks / by).into(),
        Err(_) => ticks / NonZeroU128::from(by),
    }
}

/// When a bucket will be full again, in the ticks of its rule. A bucket that was never used is
/// full since [`Tat::FULL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tat(u128);

impl Tat {
    /// Full since the beginning of time.
    pub const FULL: Self = Self(0);

    /// The arrival time that is `ticks` of its rule after the epoch.
    pub const fn from_ticks(ticks: u128) -> Self {
        Self(ticks)
    }

    /// Ticks of its rule since the epoch.
    pub const fn as_ticks(self) -> u128 {
        self.0
    }
}

/// Whether an ask passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It does not pass yet.
    #[default]
    Deny,
    /// It costs more than the bucket ever holds. This is the caller's mistake, not a denial.
    Never,
}

/// What an ask was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it passes. For a refund: whether anything was given back.
    pub verdict: Verdict,
    /// How many tokens are left after it.
    pub remaining: u64,
    /// How long until the same ask, repeated, would pass.
    pub retry_in: Nanos,
    /// How long until the bucket is full.
    pub reset_in: Nanos,
}

/// Takes `cost` tokens if they are there. Returns the bucket after it, which is the bucket before
/// it unless the verdict is [`Verdict::Allow`] and the cost above zero.
#[inline]
pub fn spend(rule: &Rule, tat: Tat, cost: u64, now: Moment) -> (Tat, Outcome) {
    spend_short(rule, tat, cost, now).unwrap_or_else(|| spend_long(rule, tat, cost, now))
}

/// [`spend`] in 64 bits, which is most of what is ever asked. Nothing if they may not be enough, or
/// if the ask can never pass.
#[inline(always)]
#[expect(clippy::inline_always, reason = "returned through memory it takes half as long again")]
pub(super) fn spend_short(rule: &Rule, tat: Tat, cost: u64, now: Moment) -> Option<(Tat, Outcome)> {
    let clock = rule.ticks(now);
    let depth = rule.short_depth?.get();
    let debt = u64::try_from(tat.0.saturating_sub(clock)).ok()?;
    if cost > rule.burst || debt > depth {
        return None;
    }
    // None of these is above `depth`, which is below 2^63: no sum of two of them wraps.
    let price = cost.wrapping_mul(rule.step.get());
    let owed = debt.wrapping_add(price);
    let told = |verdict, left: u64, again: u64| Outcome {
        verdict,
        remaining: depth.wrapping_sub(left) / rule.step,
        retry_in: rule.short_nanos(again.saturating_sub(depth)),
        reset_in: rule.short_nanos(left),
    };
    if owed > depth {
        return Some((tat, told(Verdict::Deny, debt, owed)));
    }
    let after = if cost == 0 { tat } else { Tat(clock.saturating_add(owed.into())) };
    Some((after, told(Verdict::Allow, owed, owed.wrapping_add(price))))
}

/// [`spend`] for every rule, debt and cost.
#[inline(never)]
fn spend_long(rule: &Rule, tat: Tat, cost: u64, now: Moment) -> (Tat, Outcome) {
    let clock = rule.ticks(now);
    let debt = tat.0.saturating_sub(clock);
    let price = rule.price(cost);
    let owed = debt.saturating_add(price);
    if owed > rule.depth {
        return (tat, denial(rule, debt, owed, cost));
    }
    let outcome = Outcome {
        verdict: Verdict::Allow,
        remaining: rule.tokens_left(owed),
        retry_in: rule.nanos(owed.saturating_add(price).saturating_sub(rule.depth)),
        reset_in: rule.nanos(owed),
    };
    let after = if cost == 0 { tat } else { Tat(clock.saturating_add(owed)) };
    (after, outcome)
}

fn denial(rule: &Rule, debt: u128, owed: u128, cost: u64) -> Outcome {
    let (verdict, retry_in) = if cost > rule.burst {
        (Verdict::Never, Nanos::ZERO)
    } else {
        (Verdict::Deny, rule.nanos(owed.saturating_sub(rule.depth)))
    };
    Outcome { verdict, remaining: rule.tokens_left(debt), retry_in, reset_in: rule.nanos(debt) }
}

/// Gives `cost` tokens back, at most as many as are missing. Returns the bucket after it.
pub fn refund(rule: &Rule, tat: Tat, cost: u64, now: Moment) -> (Tat, Outcome) {
    let clock = rule.ticks(now);
    let debt = tat.0.saturating_sub(clock);
    let left = debt.saturating_sub(rule.price(cost));
    let verdict = match (cost > rule.burst, left < debt) {
        (true, _) => Verdict::Never,
        (false, true) => Verdict::Allow,
        (false, false) => Verdict::Deny,
    };
    let (after, left) = if verdict == Verdict::Allow {
        (Tat(clock.saturating_add(left)), left)
    } else {
        (tat, debt)
    };
    let outcome = Outcome {
        verdict,
        remaining: rule.tokens_left(left),
        retry_in: Nanos::ZERO,
        reset_in: rule.nanos(left),
    };
    (after, outcome)
}

/// The answer to a reset: a full bucket.
pub fn reset(rule: &Rule) -> (Tat, Outcome) {
    let outcome = Outcome {
        verdict: Verdict::Allow,
        remaining: rule.burst,
        retry_in: Nanos::ZERO,
        reset_in: Nanos::ZERO,
    };
    (Tat::FULL, outcome)
}

/// The bucket that was found `at` to be full after `full_in`; it owes no more than it holds.
pub fn filling(rule: &Rule, full_in: Nanos, at: Moment) -> Tat {
    let debt = full_in.get().saturating_mul(rule.rate.get().into());
    Tat(rule.ticks(at).saturating_add(debt.min(rule.depth)))
}

/// Whether the bucket is full: then it answers like one that was never used.
#[inline]
pub fn is_full(rule: &Rule, tat: Tat, now: Moment) -> bool {
    tat.0 <= rule.ticks(now)
}

/// The first moment at which the bucket is full.
pub fn full_at(rule: &Rule, tat: Tat) -> Moment {
    Moment::EPOCH.after(rule.nanos(tat.0))
}

/// What part of the bucket is missing, up to 1.0 (empty); none if it is full.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "a rank among buckets, not a decision")]
pub fn missing_part(rule: &Rule, tat: Tat, now: Moment) -> Option<f64> {
    let debt = tat.0.saturating_sub(rule.ticks(now));
    // Converting 64 bits takes a fraction of the time of 128.
    let part = match (u64::try_from(debt), rule.short_depth) {
        (Ok(debt), Some(depth)) => debt as f64 / depth.get() as f64,
        _ => debt as f64 / rule.depth as f64,
    };
    (debt > 0).then_some(part)
}

/// The bucket under a rule that replaces another at `at`: what was spent stays spent, token for
/// token, and comes back at the new rate from then on. A bucket cannot owe more than it holds, so
/// one that shrinks below what was spent is empty.
///
/// What is owed is rounded up to a whole tick of the new rule, and no ask by that rule can tell. One
/// tick is all that a further change can make of it.
pub fn carry_over(old: &Rule, new: &Rule, tat: Tat, at: Moment) -> Tat {
    if old == new {
        return tat;
    }
    let debt = tat.0.saturating_sub(old.ticks(at));
    let whole = divide(debt, old.step);
    let debt = if whole >= new.burst.into() {
        new.depth
    } else {
        let part = debt % NonZeroU128::from(old.step);
        let part = divide_up(part.saturating_mul(new.step.get().into()), old.step);
        whole.saturating_mul(new.step.get().into()).saturating_add(part)
    };
    Tat(new.ticks(at).saturating_add(debt))
}

/// Rounds up, which loses nothing: under the new rule only whole ticks can be told apart.
fn divide_up(ticks: u128, by: NonZeroU64) -> u128 {
    divide(ticks.saturating_add(u128::from(by.get()).saturating_sub(1)), by)
}
