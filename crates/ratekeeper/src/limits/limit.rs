//! One limit: a rule together with the way its author wrote it.

use std::fmt;

use crate::Nanos;
use crate::algorithm::gcra::{Rule, RuleError};

/// `count` tokens per `period`, up to `burst` at once. There is none that the arithmetic cannot
/// apply: what it could not is refused when the limit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    count: u64,
    period: Nanos,
    rule: Rule,
}

impl Limit {
    /// A limit of `count` tokens per `period`, up to `burst` at once. Refuses zeros and what lies
    /// beyond the bounds of [`crate::algorithm::gcra`].
    pub fn new(burst: u64, count: u64, period: Nanos) -> Result<Self, RuleError> {
        Ok(Self { count, period, rule: Rule::new(burst, count, period)? })
    }

    /// How many tokens a full bucket holds.
    pub const fn burst(&self) -> u64 {
        self.rule.burst()
    }

    /// How many tokens come back in a period.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How long it takes for [`count`](Self::count) tokens to come back.
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// What the arithmetic makes of it.
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Whether no caller could tell the two apart: 2 per 2s is 1 per 1s if the burst is the same.
    pub fn has_effect_of(&self, other: &Self) -> bool {
        self.rule == other.rule
    }

    /// Whether somebody could be denied under this limit who is allowed under `other`: it holds
    /// fewer tokens, or they come back more slowly.
    ///
    /// ```
    /// use ratekeeper::Nanos;
    /// use ratekeeper::limits::Limit;
    ///
    /// let limit = |burst, count, secs| Limit::new(burst, count, Nanos::from_secs(secs));
    /// assert!(limit(9, 10, 1)?.is_lower_than(&limit(10, 10, 1)?));
    /// assert!(limit(99, 1, 7)?.is_lower_than(&limit(10, 1, 6)?));
    /// assert!(!limit(10, 20, 2)?.is_lower_than(&limit(10, 10, 1)?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_lower_than(&self, other: &Self) -> bool {
        self.burst() < other.burst() || self.rule.is_slower_than(&other.rule)
    }
}

/// Written as people say it: `300 per 3h`, `40 per 1s, burst 20`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.count, self.period)?;
        if self.burst() == self.count { Ok(()) } else { write!(f, ", burst {}", self.burst()) }
    }
}
