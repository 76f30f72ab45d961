//! What stands in Redis under a key, as text and as numbers; the form in which it is moved.

use std::fmt;
use std::str::FromStr;

use ratekeeper::algorithm::gcra;
use ratekeeper::limiter::Owed;
use ratekeeper::{Moment, Nanos};

use crate::key::Kind;
use crate::rule::{Rule, TICKS_MAX, TooSlow};

const NANOS_PER_MICRO: u64 = 1_000;
/// The units that the lifetime of a quota is counted in.
const UNITS: [&str; 3] = ["ns", "ms", "s"];
/// The digits of a number of nanoseconds below a second.
const FRACTION_DIGITS: usize = 9;
/// The longest period of an average, in seconds: all of a moment's.
const PERIOD_SECS_MAX: f64 = 9_223_372_036.0;
/// The last second that a moment can be in.
const SECONDS_MAX: u64 = 9_223_372_036;

/// One key with its value, for moving it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it is called, without what stands around it in a key.
    pub name: Vec<u8>,
    /// What is kept under that name.
    pub value: Value,
}

/// What is kept under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// What a bucket owes.
    Bucket(BucketValue),
    /// A decaying average.
    Average(AverageValue),
    /// A quota with a lifetime.
    Quota(QuotaValue),
}

/// The text is not a value of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `{expected}`")]
pub struct NotAValue {
    /// What it should look like.
    pub expected: &'static str,
}

impl Value {
    /// Reads the value of a key. What a transaction holds at the moment counts as spent.
    pub fn read(kind: Kind, text: &str) -> Result<Self, NotAValue> {
        match kind {
            Kind::Bucket => text.parse().map(Self::Bucket),
            Kind::Average => text.parse().map(Self::Average),
            Kind::Quota => text.parse().map(Self::Quota),
        }
    }

    /// Whether it is what a bucket owes.
    pub const fn is_bucket(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }

    /// What it is the value of.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Bucket(_) => Kind::Bucket,
            Self::Average(_) => Kind::Average,
            Self::Quota(_) => Kind::Quota,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(value) => value.fmt(f),
            Self::Average(value) => value.fmt(f),
            Self::Quota(value) => value.fmt(f),
        }
    }
}

/// `at debt step/rate burst`: so many ticks were owed at that microsecond; and ` +tokens` if more was
/// owed than the bucket could show, because its limit was lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketValue {
    pub(crate) at_micros: u64,
    pub(crate) debt: u64,
    pub(crate) step: u64,
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) hidden: u64,
}

impl BucketValue {
    /// The value of a bucket that was found to owe this `at` a moment; none if it is full. What is owed
    /// is rounded up to the next tick. Refuses rules that Redis cannot count.
    pub fn of(rule: &gcra::Rule, owed: Owed, at: Moment) -> Result<Option<Self>, TooSlow> {
        let Owed { full_in, hidden } = owed;
        if full_in.is_zero() && hidden == 0 {
            return Ok(None);
        }
        let kept = Rule::new(rule)?;
        let (step, rate) = kept.emission_interval();
        let (nanos, per_nanos) = rule.emission_interval();
        // As of the microsecond that `at` is in.
        let at_micros = at.as_nanos() / NANOS_PER_MICRO;
        let since = u128::from(at.as_nanos() % NANOS_PER_MICRO);
        let ticks = full_in.get().saturating_add(since).saturating_mul(per_nanos.into());
        let tokens = ticks / u128::from(nanos);
        let part = ticks % u128::from(nanos);
        // Below 2^62 times at most 2^53.
        let part = (part * u128::from(step)).div_ceil(nanos.into());
        let debt = tokens.saturating_mul(step.into()).saturating_add(part);
        let debt = u64::try_from(debt).unwrap_or(u64::MAX).min(kept.depth());
        Ok(Some(Self { at_micros, debt, step, rate, burst: kept.burst(), hidden }))
    }

    /// What a bucket of `rule` owes that owes as many tokens at `now`, rounded up to whole nanoseconds.
    /// `now` counts in whole microseconds. Under another rule than that of the value, so many tokens
    /// are hidden that the rest fits.
    pub fn owed(&self, rule: &gcra::Rule, now: Moment) -> Owed {
        let passed = (now.as_nanos() / NANOS_PER_MICRO).saturating_sub(self.at_micros);
        let passed = u128::from(passed) * u128::from(self.rate);
        let (step, debt) = (u128::from(self.step), u128::from(self.debt));
        let back = passed.saturating_sub(debt) / step;
        let hidden = u128::from(self.hidden).saturating_sub(back);
        let debt = debt.saturating_sub(passed);
        let is_same = Rule::new(rule).is_ok_and(|kept| {
            (kept.emission_interval(), kept.burst()) == ((self.step, self.rate), self.burst)
        });
        let fits = hidden == 0 && debt <= u128::from(rule.burst()) * step;
        let (debt, hidden) = if is_same || fits {
            (debt, hidden)
        } else {
            let tokens = debt.div_ceil(step) + hidden;
            let beyond = tokens.saturating_sub(rule.burst().into());
            (debt + hidden * step - beyond * step, beyond)
        };
        let (nanos, per_nanos) = rule.emission_interval();
        // At most 2^32 tokens of a rule that Redis counts, each of at most 2^53: with 2^62 too much.
        let (tokens, part) = (debt / step, debt % step);
        let part = (part * u128::from(nanos)).div_ceil(step * u128::from(per_nanos));
        let length = (tokens * u128::from(nanos)).div_ceil(per_nanos.into()) + part;
        let exact = debt.checked_mul(nanos.into());
        let length = exact.map_or(length, |ticks| ticks.div_ceil(step * u128::from(per_nanos)));
        let depth = (u128::from(rule.burst()) * u128::from(nanos)).div_ceil(per_nanos.into());
        let hidden = u64::try_from(hidden).unwrap_or(u64::MAX);
        Owed { full_in: Nanos::new(length.min(depth)), hidden }
    }
}

impl fmt::Display for BucketValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_micros, debt, step, rate, burst, hidden } = self;
        write!(f, "{at_micros} {debt} {step}/{rate} {burst}")?;
        if *hidden > 0 { write!(f, " +{hidden}") } else { Ok(()) }
    }
}

impl FromStr for BucketValue {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let wrong = NotAValue {
            expected: "AT DEBT STEP/RATE BURST, all whole numbers: microseconds since 1970, ticks \
                       that are owed, ticks per token and per microsecond, tokens; +TOKENS that are \
                       owed besides may follow",
        };
        let mut words = text.split(' ').peekable();
        let mut next = || words.next().ok_or(wrong);
        let (at, debt, emission, burst) = (next()?, next()?, next()?, next()?);
        let (step, rate) = emission.split_once('/').ok_or(wrong)?;
        let number = |text| whole(text).filter(|&number| number <= TICKS_MAX).ok_or(wrong);
        let hidden = words.next_if(|word| word.starts_with('+'));
        let hidden = hidden.map(|word| number(&word[1..])).transpose()?;
        // What has come back of the next token of these is a debt below zero. It is not told.
        let back = debt.strip_prefix('-').filter(|_| hidden.is_some());
        let debt = back.map_or_else(|| number(debt), |back| number(back).map(|_| 0))?;
        let hidden = hidden.unwrap_or_default();
        let value = Self {
            at_micros: number(at)?,
            debt,
            step: number(step)?,
            rate: number(rate)?,
            burst: number(burst)?,
            hidden,
        };
        // Three words if a transaction holds something.
        let is_whole = matches!(words.count(), 0 | 3);
        let depth = value.step.checked_mul(value.burst).filter(|depth| *depth <= TICKS_MAX);
        let is_sound = value.rate > 0
            && u128::from(value.at_micros) * 1_000 < 1 << 63
            && depth.is_some_and(|depth| depth > 0 && value.debt <= depth)
            && value.hidden <= gcra::BURST_MAX;
        if is_whole && is_sound { Ok(value) } else { Err(wrong) }
    }
}

/// `at rate period`: so many uses per period at that microsecond; the period in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct AverageValue {
    pub(crate) at_micros: u64,
    /// As they are written: the digits lose nothing.
    pub(crate) rate: Box<str>,
    pub(crate) period: Box<str>,
}

impl fmt::Display for AverageValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at_micros, self.rate, self.period)
    }
}

impl FromStr for AverageValue {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let wrong = NotAValue {
            expected: "AT RATE PERIOD: microseconds since 1970, uses per period, seconds",
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [at, rate, period] = words[..] else { return Err(wrong) };
        let at_micros = whole(at).filter(|&at| at <= TICKS_MAX).ok_or(wrong)?;
        let number = |text: &str| text.parse().ok().filter(|it: &f64| it.is_finite());
        let is_rate = number(rate).is_some_and(|rate| rate >= 0.0);
        let is_period = number(period).is_some_and(|it| it > 0.0 && it <= PERIOD_SECS_MAX);
        if is_rate && is_period {
            Ok(Self { at_micros, rate: rate.into(), period: period.into() })
        } else {
            Err(wrong)
        }
    }
}

/// `remaining expires unit`: so many uses are left until that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaValue {
    pub(crate) remaining: u64,
    pub(crate) expires_secs: u64,
    pub(crate) expires_nanos: u64,
    pub(crate) unit: &'static str,
}

impl fmt::Display for QuotaValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remaining, expires_secs, expires_nanos, unit } = self;
        write!(f, "{remaining} {expires_secs}.{expires_nanos:09} {unit}")
    }
}

impl FromStr for QuotaValue {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let wrong = NotAValue {
            expected: "REMAINING EXPIRES UNIT: uses that are left, seconds since 1970 with nine \
                       decimals, and ns, ms or s",
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [remaining, expires, unit] = words[..] else { return Err(wrong) };
        let (secs, nanos) = expires.split_once('.').ok_or(wrong)?;
        let nanos = Some(nanos).filter(|nanos| nanos.len() == FRACTION_DIGITS).ok_or(wrong)?;
        Ok(Self {
            remaining: whole(remaining).ok_or(wrong)?,
            expires_secs: whole(secs).filter(|secs| *secs <= SECONDS_MAX).ok_or(wrong)?,
            expires_nanos: whole(nanos).ok_or(wrong)?,
            unit: UNITS.into_iter().find(|known| *known == unit).ok_or(wrong)?,
        })
    }
}

/// A whole number in digits only: no sign, no blank.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
