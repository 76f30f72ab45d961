//! Asks that bring their rule along.

use super::{Core, Limiter, Mode, Request};
use crate::Moment;
use crate::algorithm::book::BucketCell;
use crate::algorithm::carried::{Carried, TooManyRules};
use crate::algorithm::gcra::Rule;

/// The name under which all asks are told of that bring their rule along: that of the command which
/// made them known.
pub const CARRIED: &str = "CL.THROTTLE";

impl Limiter {
    /// Makes a rule known, for asks that bring their rule along instead of naming a limit. A rule that
    /// is known takes no lock and allocates nothing. Refuses a rule where there are
    /// [`CARRIED_RULES_MAX`](crate::limiter::CARRIED_RULES_MAX) others.
    ///
    /// What it returns is for asks of this limiter, and of all over the same limits, that begin within
    /// [`ERA`](crate::limiter::ERA): carry a rule again rather than keep what it came to. When there are
    /// many, those are forgotten that no bucket is under and nobody carried for twice as long; and whoever
    /// asks by what a rule came to so long ago makes a [`Mistake`](crate::Mistake::RuleForgotten). Saved
    /// state has the rules that some bucket was last asked by.
    ///
    /// ```
    /// use ratekeeper::algorithm::gcra::Rule;
    /// use ratekeeper::{Batch, Limiter, Limits, Moment, Nanos, Request};
    ///
    /// let limiter = Limiter::new(Limits::new())?;
    /// let (mut batch, now) = (Batch::default(), Moment::from_nanos(0));
    /// let slow = limiter.carry(Rule::new(3, 3, Nanos::from_secs(60))?, now)?;
    /// let asks = [Request::carried(slow, "ada", 3), Request::carried(slow, "ada", 1)];
    /// let answers: Vec<_> = limiter.batch(&mut batch, &asks, now).decisions().flatten().collect();
    /// assert!(answers[0].allowed);
    /// assert_eq!(answers[1].retry_in, Nanos::from_secs(20));
    ///
    /// // The same key under another rule: what was spent stays spent.
    /// let more = limiter.carry(Rule::new(5, 3, Nanos::from_secs(60))?, now)?;
    /// let answer = limiter.transaction(&[Request::carried(more, "ada", 1)], now)?.decision;
    /// assert_eq!((answer.allowed, answer.remaining), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn carry(&self, rule: Rule, now: Moment) -> Result<Carried, TooManyRules> {
        match self.core.carried.find(&rule) {
            Some(known) => Ok(known),
            None => self.carry_new(&rule, now),
        }
    }

    /// Whether a rule would come to the same if it were carried again now: then it need not be.
    #[inline]
    pub fn still_carries(&self, carried: Carried) -> bool {
        self.core.carried.is_of_this_era(carried)
    }

    #[cold]
    fn carry_new(&self, rule: &Rule, now: Moment) -> Result<Carried, TooManyRules> {
        self.forget_rules(now);
        self.core.carried.find_or_add(rule)
    }

    /// Forgets rules that nobody needs, if there are many. All buckets are looked at for that, which takes
    /// some 10 ms for a million, at most once in an era.
    fn forget_rules(&self, now: Moment) {
        let Core { store, carried, shared, registry, .. } = &*self.core;
        // A save has the numbers of rules in hand, and may take long; so may a reload. And nobody waits
        // here who keeps a reload waiting.
        let Some(_registry) = registry.try_lock() else { return };
        let Some(mut survey) = carried.turn(now) else { return };
        store.rewrite(now, |cell, is_forgotten| {
            cell.rule().carried()?;
            if is_forgotten() {
                // Under a number that may soon be another rule's it would be something else.
                return Some(BucketCell::FULL);
            }
            survey.keep(cell.rule());
            None
        });
        // First: as long as a rule is known, nobody asks by another under its number.
        if let Some(shared) = shared.get() {
            shared.forget_carried();
        }
        carried.forget(&survey);
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
