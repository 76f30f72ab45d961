//! Rules as Redis can keep them.
//!
//! A script counts in doubles, which are whole up to 2^53, and Redis tells the time in
//! microseconds. So a rule is brought into ticks of `1 / rate` µs, where `step / rate` is the time
//! that a token takes to come back, in microseconds and lowest terms. Then a microsecond and a
//! token are whole numbers of ticks, and every decision is exact, as long as a whole burst is at
//! most [`TICKS_MAX`] ticks.
//!
//! A burst that is longer gets coarser ticks: the finest that fit, with `step` rounded **up**. A
//! token then takes less than one such tick longer to come back than it should, and never less.

use std::fmt;

use ratekeeper::Nanos;
use ratekeeper::algorithm::gcra;

/// Doubles hold every whole number up to this one.
pub const TICKS_MAX: u64 = (1 << 53) - 1;

const NANOS_PER_MICRO: u64 = 1_000;

/// How many tokens a bucket holds and how fast they come back, in what Redis can count exactly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    burst: u64,
    step: u64,
    rate: u64,
    is_exact: bool,
    /// As it stands in the values of buckets.
    text: Box<str>,
    rate_text: Box<str>,
    depth_text: Box<str>,
}

/// The bucket takes so long to fill that Redis cannot count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a bucket of {burst} tokens at this rate takes more than 285 years (2^53 microseconds) to \
     fill, which Redis cannot count: lower the burst or shorten the period"
)]
pub struct TooSlow {
    /// How many tokens it would hold.
    pub burst: u64,
}

impl Rule {
    /// The rule in the ticks of Redis. Refuses one whose bucket takes more than 2^53 µs to fill.
    pub fn new(rule: &gcra::Rule) -> Result<Self, TooSlow> {
        let burst = rule.burst();
        let (nanos, per_nanos) = rule.emission_interval();
        // At most 2^32 * 1000.
        let per_micros = per_nanos.saturating_mul(NANOS_PER_MICRO);
        let common = greatest_common_divisor(nanos, per_micros);
        let (step, rate) = (nanos / common, per_micros / common);
        let step_max = TICKS_MAX / burst;
        if step <= step_max {
            return Ok(Self::of(burst, step, rate, true));
        }
        // The finest ticks whose step, rounded up, is still at most `step_max`.
        let finest = u128::from(step_max) * u128::from(rate) / u128::from(step);
        let coarse = u64::try_from(finest).unwrap_or(rate);
        if coarse == 0 {
            return Err(TooSlow { burst });
        }
        let rounded = (u128::from(step) * u128::from(coarse)).div_ceil(u128::from(rate));
        let rounded = u64::try_from(rounded).unwrap_or(step_max);
        let common = greatest_common_divisor(rounded, coarse);
        Ok(Self::of(burst, rounded / common, coarse / common, false))
    }

    fn of(burst: u64, step: u64, rate: u64, is_exact: bool) -> Self {
        Self {
            burst,
            step,
            rate,
            is_exact,
            text: format!("{step}/{rate} {burst}").into(),
            rate_text: rate.to_string().into(),
            depth_text: (burst * step).to_string().into(),
        }
    }

    /// How many tokens a full bucket holds.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// How long a token takes to come back, in microseconds, as ticks and ticks per microsecond.
    pub const fn emission_interval(&self) -> (u64, u64) {
        (self.step, self.rate)
    }

    /// Whether tokens come back exactly as fast as the rule it was made of says; otherwise each
    /// comes back less than `1 / rate` microseconds late.
    pub const fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Ticks from empty to full; at most [`TICKS_MAX`].
    pub const fn depth(&self) -> u64 {
        self.burst * self.step
    }

    /// What so many tokens cost, in ticks; no more than all.
    pub(crate) fn price(&self, cost: u64) -> u64 {
        cost.min(self.burst) * self.step
    }

    /// How many whole tokens are left when so many ticks are owed.
    pub(crate) fn tokens_left(&self, debt: u64) -> u64 {
        self.depth().saturating_sub(debt) / self.step
    }

    /// How long so many ticks take, in whole microseconds, rounded up: who waits as long as told
    /// must pass.
    pub(crate) fn length(&self, ticks: u64) -> Nanos {
        Nanos::new(u128::from(ticks.div_ceil(self.rate)) * u128::from(NANOS_PER_MICRO))
    }

    pub(crate) fn rate_text(&self) -> &str {
        &self.rate_text
    }

    pub(crate) fn depth_text(&self) -> &str {
        &self.depth_text
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// As it stands in the values of buckets: `step/rate burst`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The largest number that divides both; `b` is not zero.
fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    divisor.max(1)
}

#[cfg(test)]
mod tests;
