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
//! A bucket whose limit was lowered below what it owes keeps all of it: see [`Debt`].
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
    /// The rule with the least of everything.
    pub(crate) const SMALLEST: Self = Self {
        burst: 1,
        step: NonZeroU64::MIN,
        rate: NonZeroU64::MIN,
        depth: 1,
        short_depth: Some(NonZeroU64::MIN),
    };

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

    /// How many bits the time of a bucket takes that owes no more than it holds, at whatever moment.
    pub(super) fn tat_bits(&self) -> u32 {
        let last = self.ticks(Moment::MAX).saturating_add(self.depth);
        u128::BITS.saturating_sub(last.leading_zeros())
    }

    /// Whether a cell has room for so many hidden tokens, besides a time of this rule.
    pub(super) fn can_hide(&self, hidden: u64) -> bool {
        let room = TAT_BITS.saturating_sub(self.tat_bits());
        u128::from(hidden).checked_shr(room).unwrap_or(0) == 0
    }

    #[inline]
    fn ticks(&self, now: Moment) -> u128 {
        widen(now.as_nanos(), self.rate)
    }

    /// How many of so many tokens come back in a time, and how much of the time is left for the next.
    fn come_back(&self, ticks: u128, tokens: u64) -> (u64, u128) {
        let back = divide(ticks, self.step);
        match u64::try_from(back) {
            Ok(back) if back < tokens => (back, ticks.saturating_sub(self.price(back))),
            _ => (tokens, 0),
        }
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

/// What a bucket owes.
///
/// A bucket owes more than it holds if its limit was lowered after more was spent. It answers as an
/// empty one that fills at the new rate, and the rest is *hidden*, in whole tokens, until the limit
/// changes again: then it counts like all that was spent. So no change of a limit, there and back,
/// gives anybody a token.
///
/// Hidden tokens come back like others, one after the other, at the rate in force, but only after
/// those that are shown: while the bucket is full and nobody spends. A spend begins the token anew
/// that was on its way back, and so loses its part of it, which is never in the client's favour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// What the answers tell of. Where something is hidden, this may be a moment that has passed:
    /// since then hidden tokens come back.
    pub shown: Tat,
    /// How many tokens are owed besides. Together with the burst they are at most the largest burst
    /// that the bucket ever had.
    pub hidden: u64,
}

impl Debt {
    /// Nothing is owed.
    pub const NONE: Self = Self { shown: Tat::FULL, hidden: 0 };

    /// When nothing will be owed any more if nobody spends.
    pub fn over_at(&self, rule: &Rule) -> Tat {
        Tat(self.shown.0.saturating_add(rule.price(self.hidden)))
    }

    /// The same debt without the hidden tokens that have come back by `now`.
    #[must_use]
    pub fn settled(self, rule: &Rule, now: Moment) -> Self {
        if self.hidden == 0 {
            return self;
        }
        let idle = rule.ticks(now).saturating_sub(self.shown.0);
        let (back, _) = rule.come_back(idle, self.hidden);
        let shown = Tat(self.shown.0.saturating_add(rule.price(back)));
        Self { shown, hidden: self.hidden.saturating_sub(back) }
    }
}

impl From<Tat> for Debt {
    fn from(shown: Tat) -> Self {
        Self { shown, hidden: 0 }
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

/// [`refund`] of a bucket that may owe more than it shows: first what is shown, then what is hidden.
pub fn refund_debt(rule: &Rule, debt: Debt, cost: u64, now: Moment) -> (Debt, Outcome) {
    let (shown, outcome) = refund(rule, debt.shown, cost, now);
    if debt.hidden == 0 || outcome.verdict == Verdict::Never {
        return (Debt { shown, ..debt }, outcome);
    }
    let clock = rule.ticks(now);
    let missing = debt.shown.0.saturating_sub(clock);
    let price = rule.price(cost);
    if price <= missing {
        return (Debt { shown, ..debt }, outcome);
    }
    // As if so much more time had passed since the bucket was full.
    let idle = clock.saturating_sub(debt.shown.0).saturating_add(price).saturating_sub(missing);
    let (back, rest) = rule.come_back(idle, debt.hidden);
    let after = Debt {
        // What came back of a token before there was time is nobody's.
        shown: Tat(clock.saturating_sub(rest)),
        hidden: debt.hidden.saturating_sub(back),
    };
    (after, Outcome { verdict: Verdict::Allow, ..outcome })
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

/// The same debt, of which no more is shown than the bucket holds: what is more is hidden, in whole
/// tokens. A cell may have no room for that, and shows all.
pub fn within_depth(rule: &Rule, debt: Debt, now: Moment) -> Debt {
    let beyond = debt.shown.0.saturating_sub(rule.ticks(now)).saturating_sub(rule.depth);
    let tokens = u64::try_from(divide_up(beyond, rule.step)).unwrap_or(u64::MAX);
    let shown = Tat(debt.shown.0.saturating_sub(rule.price(tokens)));
    Debt { shown, hidden: debt.hidden.saturating_add(tokens) }
}

/// Whether the bucket is full: then it answers like one that was never used.
#[inline]
pub fn is_full(rule: &Rule, tat: Tat, now: Moment) -> bool {
    tat.0 <= rule.ticks(now)
}

/// The first moment at which the bucket is full.
#[inline]
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

/// What a bucket owes when its rule is replaced by another at `at`. Every token that was spent stays
/// spent, and comes back at the new rate from then on. If more was spent than the new burst, the
/// smallest number of whole tokens is hidden with which the rest fits into it: see [`Debt`].
///
/// Where tokens are hidden, the bucket shows a debt above `burst - 1` tokens and up to `burst`: none is
/// left, and the new rule by itself can come to the same state, so nobody gets more than it allows.
///
/// The debt is rounded up to a whole tick of the new rule. No ask by that rule can tell, and each further
/// change of the rule adds less than one tick.
///
/// If the cell has no room for the hidden tokens, all of the debt is shown: the bucket denies until it owes
/// no more than it holds, which is longer than the new rule alone would. A debt above [`BURST_MAX`] tokens
/// is cut to that: only a time that stepped back can make it look so large.
pub fn carry_over(old: &Rule, new: &Rule, debt: Debt, at: Moment) -> Debt {
    if old == new {
        return debt;
    }
    let Debt { shown, hidden } = debt.settled(old, at);
    let ticks = shown.0.saturating_sub(old.ticks(at));
    let part = ticks % NonZeroU128::from(old.step);
    let part = divide_up(part.saturating_mul(new.step.get().into()), old.step);
    let whole = divide(ticks, old.step).saturating_add(hidden.into());
    let (whole, part) =
        if whole < BURST_MAX.into() { (whole, part) } else { (BURST_MAX.into(), 0) };
    // In tokens and rounded up, so that a token of which a part is shown is not hidden as well.
    let beyond = whole.saturating_add((part > 0).into()).saturating_sub(new.burst.into());
    let hidden = u64::try_from(beyond).unwrap_or(BURST_MAX);
    let left = whole.saturating_sub(hidden.into()).saturating_mul(new.step.get().into());
    let shown = Tat(new.ticks(at).saturating_add(left.saturating_add(part)));
    let debt = Debt { shown, hidden };
    if new.can_hide(hidden) { debt } else { debt.over_at(new).into() }
}

/// Rounds up, so that no part of a debt is forgiven.
fn divide_up(ticks: u128, by: NonZeroU64) -> u128 {
    divide(ticks.saturating_add(u128::from(by.get()).saturating_sub(1)), by)
}
