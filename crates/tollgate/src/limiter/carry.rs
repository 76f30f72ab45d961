//! Asks that bring their rule along.

use super::{Limiter, Mode, Request};
use crate::algorithm::carried::{Carried, TooManyRules};
use crate::algorithm::gcra::Rule;

/// The name under which all asks are told of that bring their rule along: that of the command which
/// made them known.
pub const CARRIED: &str = "CL.THROTTLE";

impl Limiter {
    /// Makes a rule known, for asks that bring their rule along instead of naming a limit. A rule
    /// always comes to the same; one that is known takes no lock and allocates nothing. Refuses one
    /// more than [`CARRIED_RULES_MAX`](crate::algorithm::carried::CARRIED_RULES_MAX).
    ///
    /// What it returns is for this limiter and all over the same limits. Saved state has the rules
    /// that some bucket was last asked by; a limiter that was restored knows those, and forgot the
    /// others.
    ///
    /// ```
    /// use tollgate::algorithm::gcra::Rule;
    /// use tollgate::{Batch, Limiter, Limits, Moment, Nanos, Request};
    ///
    /// let limiter = Limiter::new(Limits::new())?;
    /// let slow = limiter.carry(Rule::new(3, 3, Nanos::from_secs(60))?)?;
    /// let (mut batch, now) = (Batch::default(), Moment::from_nanos(0));
    /// let asks = [Request::carried(slow, "ada", 3), Request::carried(slow, "ada", 1)];
    /// let answers: Vec<_> = limiter.batch(&mut batch, &asks, now).decisions().flatten().collect();
    /// assert!(answers[0].allowed);
    /// assert_eq!(answers[1].retry_in, Nanos::from_secs(20));
    ///
    /// // The same key under another rule: what was spent stays spent.
    /// let more = limiter.carry(Rule::new(5, 3, Nanos::from_secs(60))?)?;
    /// let answer = limiter.transaction(&[Request::carried(more, "ada", 1)], now)?.decision;
    /// assert_eq!((answer.allowed, answer.remaining), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn carry(&self, rule: Rule) -> Result<Carried, TooManyRules> {
        self.core.carried.carry(rule)
    }
}

impl<'a> Request<'a> {
    /// An ask for `cost` tokens of a key, by a rule that comes with it. All such asks of a key share
    /// a bucket, whatever their rules: with each new one, what was spent stays spent and comes back
    /// as that one says.
    ///
    /// The rule is one that the limiter that is asked made known; by one of another's, nobody knows
    /// what it is decided. A key is any text of up to [`ID_BYTES_MAX`](crate::limits::ID_BYTES_MAX)
    /// bytes.
    pub const fn carried(carried: Carried, key: &'a str, cost: u64) -> Self {
        let (limit, mode) = (CARRIED, Mode::CheckAndSpend);
        Self { limit, id: key, cost, mode, carried: Some(carried) }
    }
}
