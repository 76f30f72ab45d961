//! The decaying average: how many uses per period a key has made of late.
//!
//! The formula is kept to the letter, in doubles, because clients compare the numbers it prints
//! with those of the server it came from; a more accurate one gives other answers.

use super::{Algorithm, Cell, Change, EvictionRank, Owner, Share};
use crate::{Moment, Nanos};

/// A clock that stands still or steps back counts as having moved this far, in seconds.
const INTERVAL_MIN_SECS: f64 = 1e-9;
/// Rates below this are printed as 0.0: such a key may as well be new.
const RATE_IDLE: f64 = 0.05;

/// How many uses per period are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    limit: f64,
    period_secs: f64,
    strict: bool,
    owner: Owner,
}

/// Why there is no such rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum RuleError {
    #[error("limit must be a number from 0 to 1e12")]
    Limit,
    #[error("period must be a number of seconds above 0, up to 1e9")]
    Period,
}

impl Rule {
    /// The most uses per period a rule can allow.
    pub const LIMIT_MAX: f64 = 1e12;
    /// The longest period: 31 years.
    pub const PERIOD_SECS_MAX: f64 = 1e9;

    /// A rule of `limit` uses per `period_secs` seconds. Where it is `strict`, refused uses count
    /// too, so that a client that keeps hammering stays refused; otherwise (leaky) a refusal
    /// changes nothing. Refuses what is not a number or beyond the bounds.
    pub fn new(limit: f64, period_secs: f64, strict: bool) -> Result<Self, RuleError> {
        if !(0.0..=Self::LIMIT_MAX).contains(&limit) {
            return Err(RuleError::Limit);
        }
        if !(f64::MIN_POSITIVE..=Self::PERIOD_SECS_MAX).contains(&period_secs) {
            return Err(RuleError::Period);
        }
        Ok(Self { limit, period_secs, strict, owner: Owner::NOBODY })
    }

    /// The same rule, whose keys have a share of a full store of their own.
    #[must_use]
    pub const fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// How many uses per period are allowed.
    pub const fn limit(&self) -> f64 {
        self.limit
    }

    /// The period, in seconds.
    pub const fn period_secs(&self) -> f64 {
        self.period_secs
    }

    /// Whether refused uses count too.
    pub const fn is_strict(&self) -> bool {
        self.strict
    }
}

/// What is kept of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AverageCell {
    time: Moment,
    rate: f64,
    period_secs: f64,
    owner: Owner,
    /// A use was refused, or the next one would have been, or half of the limit was used, since the key
    /// was last idle.
    is_at_limit: bool,
}

impl AverageCell {
    /// The key of which a use was answered so at `at`.
    pub fn answered(rule: &Rule, outcome: Outcome, at: Moment) -> Self {
        Self::new(rule, outcome.rate, None, at)
    }

    /// The key that has this rate at `time`, and was `before` until then.
    fn new(rule: &Rule, rate: f64, before: Option<Self>, time: Moment) -> Self {
        let was_at_limit = before.is_some_and(|cell| cell.is_at_limit) && rate >= RATE_IDLE;
        // A use at once would add one. And if only keys at their limit were protected, a key a little
        // below it could have a flood give all back.
        let is_at_limit = was_at_limit || rate + 1.0 >= rule.limit || rate * 2.0 >= rule.limit;
        // A key stays with the owner it is counted for, whatever new rules say.
        let owner = before.map_or(rule.owner, |cell| cell.owner);
        Self { time, rate, period_secs: rule.period_secs, owner, is_at_limit }
    }

    /// Whether uses can lead to it.
    pub(crate) fn is_sound(&self) -> bool {
        let periods = f64::MIN_POSITIVE..=Rule::PERIOD_SECS_MAX;
        self.rate.is_finite() && self.rate >= 0.0 && periods.contains(&self.period_secs)
    }
}

/// The answer to one use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Whether the key is over its limit: this use is refused.
    pub over: bool,
    /// Its rate, in uses per period.
    pub rate: f64,
}

/// Counts one use. Returns the answer and what becomes of the cell.
pub fn use_once(
    rule: &Rule,
    cell: Option<AverageCell>,
    now: Moment,
) -> (Outcome, Change<AverageCell>) {
    let rate = cell.map_or(0.0, |cell| rate_at(rule.period_secs, &cell, now));
    let over = rate >= rule.limit;
    let change = match cell {
        Some(cell) if over && !rule.strict => {
            let period_secs = rule.period_secs;
            Change::Mark(AverageCell { period_secs, is_at_limit: true, ..cell })
        }
        _ => Change::Put(AverageCell::new(rule, rate, cell, now)),
    };
    (Outcome { over, rate }, change)
}

fn rate_at(period_secs: f64, cell: &AverageCell, now: Moment) -> f64 {
    let mut interval = now.as_secs_f64() - cell.time.as_secs_f64();
    if interval <= 0.0 {
        interval = INTERVAL_MIN_SECS;
    }
    let periods = interval / period_secs;
    let decay = (-periods).exp();
    (1.0 - decay) / periods + decay * cell.rate
}

/// The decaying average as a store keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Average;

impl Algorithm for Average {
    type Cell = AverageCell;
    type Ask = Rule;
    type Outcome = Outcome;
    type Book = ();

    fn decide(
        (): &(),
        cell: Option<AverageCell>,
        rule: &Rule,
        now: Moment,
    ) -> (Outcome, Change<AverageCell>) {
        use_once(rule, cell, now)
    }

    fn vetoes(_: &Rule, _: &Outcome) -> bool {
        false
    }

    fn turn_away((): &(), rule: &Rule, _: Nanos) -> Outcome {
        Outcome { over: true, rate: rule.limit }
    }

    /// The first whole period after which the rate is printed as 0.0 for ever after.
    fn idle_at((): &(), cell: &AverageCell) -> Moment {
        let mut periods = 1.0 / RATE_IDLE;
        while rate_after(cell, periods) >= RATE_IDLE {
            periods += 1.0;
        }
        let secs = std::time::Duration::try_from_secs_f64(periods * cell.period_secs);
        cell.time.after(secs.map_or(Nanos::new(u128::MAX), Nanos::from))
    }

    fn is_idle((): &(), cell: &AverageCell, now: Moment) -> bool {
        rate_at(cell.period_secs, cell, now) < RATE_IDLE
    }

    fn eviction_rank((): &(), cell: &AverageCell, now: Moment) -> Option<EvictionRank> {
        let rank = rate_at(cell.period_secs, cell, now);
        (rank >= RATE_IDLE).then_some(EvictionRank { rank, is_protected: cell.is_at_limit })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is a number of uses, never negative, far below 2^63"
    )]
    fn owed((): &(), cell: &AverageCell, now: Moment) -> u64 {
        let rate = rate_at(cell.period_secs, cell, now);
        if rate < RATE_IDLE { 0 } else { rate.ceil() as u64 }
    }

    fn owner((): &(), cell: &AverageCell) -> Owner {
        cell.owner
    }

    fn asker((): &(), rule: &Rule) -> Owner {
        rule.owner
    }

    fn share((): &(), _: Owner) -> Share {
        Share::default()
    }

    fn differ((): &(), (): &()) -> bool {
        false
    }

    fn carry_over((): &(), cell: AverageCell, _: Option<&Rule>, _: Moment) -> AverageCell {
        cell
    }
}

fn rate_after(cell: &AverageCell, periods: f64) -> f64 {
    let decay = (-periods).exp();
    (1.0 - decay) / periods + decay * cell.rate
}

const AT_LIMIT_BIT: u64 = 1;

impl Cell for AverageCell {
    const WORDS: usize = 4;

    #[inline]
    fn read(word: impl Fn(usize) -> u64) -> Self {
        let last = word(3);
        Self {
            time: Moment::from_nanos(word(0)),
            rate: f64::from_bits(word(1)),
            period_secs: f64::from_bits(word(2)),
            owner: Owner::new(u32::try_from(last >> 1).unwrap_or_default()),
            is_at_limit: last & AT_LIMIT_BIT != 0,
        }
    }

    #[inline]
    fn write(self, mut put: impl FnMut(usize, u64)) {
        put(0, self.time.as_nanos());
        put(1, self.rate.to_bits());
        put(2, self.period_secs.to_bits());
        put(3, u64::from(self.owner.number()) << 1 | u64::from(self.is_at_limit));
    }
}
