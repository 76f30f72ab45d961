//! A second writing of the definition, in reduced fractions of 128 bits, agrees with the first.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper_testkit::compare::{Observed, Subject, compare};
use ratekeeper_testkit::oracle::{Answer, Mistake};
use ratekeeper_testkit::terms::Terms;
use ratekeeper_testkit::traffic::Step;
use ratekeeper_testkit::transaction::{Mode, Verdict, strictest};

/// Debt counted down instead of a time counted up: `owed` steps of 1/count ns at the moment `at`, and
/// so many tokens besides, of which the first comes back once nothing else is owed. What of it has
/// come back already is `owed` below zero.
#[derive(Clone, Copy)]
struct Debtor {
    burst: i128,
    count: i128,
    period: i128,
    owed: i128,
    hidden: i128,
    at: i128,
    stored: bool,
}

impl Debtor {
    fn new(terms: Terms) -> Self {
        let step = i128::from(terms.ticks_per_step());
        let [burst, count, period] = [terms.burst, terms.count, terms.period_ns].map(i128::from);
        let (count, period) = (count / step, period / step);
        Self { burst, count, period, owed: 0, hidden: 0, at: 0, stored: false }
    }

    /// What is owed at another moment, which may be earlier; never less than nothing.
    fn owed_at(&self, now: i128) -> i128 {
        self.both_at(now).0.max(0)
    }

    /// The same and what is hidden; what has come back of a hidden token is below zero.
    fn both_at(&self, now: i128) -> (i128, i128) {
        if self.stored { self.unhidden(self.owed - (now - self.at) * self.count) } else { (0, 0) }
    }

    fn unhidden(&self, owed: i128) -> (i128, i128) {
        let back = (-owed).max(0).div_euclid(self.period).min(self.hidden);
        (owed + back * self.period, self.hidden - back)
    }

    fn store(&mut self, (owed, hidden): (i128, i128), now: i128) {
        (self.owed, self.hidden, self.at, self.stored) = (owed, hidden, now, true);
    }

    /// As many tokens as this no bucket can hide: it has 96 bits for them and for its times, of which
    /// those reach to 2^63 ns and its burst.
    fn hidden_end(&self) -> i128 {
        let last = ((1_i128 << 63) - 1) * self.count + self.burst * self.period;
        1 << (96 - (128 - last.leading_zeros()))
    }

    fn ns(&self, owed: i128) -> u128 {
        u128::try_from(owed.max(0)).unwrap().div_ceil(u128::try_from(self.count).unwrap())
    }

    fn left(&self, owed: i128) -> u64 {
        u64::try_from((self.burst * self.period - owed).max(0) / self.period).unwrap()
    }

    fn check(&self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        let (cost, now) = (i128::from(cost), i128::from(now));
        if cost > self.burst {
            return Err(Mistake::CostAboveBurst);
        }
        let before = self.owed_at(now);
        let after = before + cost * self.period;
        let brim = self.burst * self.period;
        let allowed = after <= brim;
        let settled = if allowed { after } else { before };
        Ok(Answer {
            allowed,
            remaining: self.left(settled),
            // The next identical request needs the debt to be down to `brim - cost` by then.
            retry_in: self.ns(settled + cost * self.period - brim),
            reset_in: self.ns(settled),
        })
    }

    fn spend(&mut self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        let answer = self.check(cost, now)?;
        if answer.allowed && cost > 0 {
            let now = i128::from(now);
            let (owed, hidden) = self.both_at(now);
            self.store((owed.max(0) + i128::from(cost) * self.period, hidden), now);
        }
        Ok(answer)
    }

    fn refund(&mut self, cost: u64, now: u64) -> Result<Answer, Mistake> {
        let (cost, now) = (i128::from(cost), i128::from(now));
        if cost > self.burst {
            return Err(Mistake::CostAboveBurst);
        }
        let (before, hidden) = self.both_at(now);
        let settled = Self { hidden, ..*self };
        let (mut after, left) = settled.unhidden(before - cost * self.period);
        if left == 0 {
            after = after.max(0);
        }
        let shown = after.max(0);
        let allowed = shown != before.max(0) || left != hidden;
        if allowed {
            // What was before there was time is nobody's.
            self.store((after.max(-now * self.count), left), now);
        }
        let (remaining, reset_in) = (self.left(shown), self.ns(shown));
        Ok(Answer { allowed, remaining, retry_in: 0, reset_in })
    }

    fn reset(&mut self) -> Answer {
        (self.stored, self.hidden) = (false, 0);
        Answer { allowed: true, remaining: self.left(0), retry_in: 0, reset_in: 0 }
    }

    fn change(&mut self, terms: Terms, at: u64) {
        let old = std::mem::replace(self, Self::new(terms));
        if (old.burst, old.count, old.period) == (self.burst, self.count, self.period) {
            *self = old;
        } else if old.stored {
            let at = i128::from(at);
            let (owed, hidden) = old.both_at(at);
            let owed = (owed.max(0) + hidden * old.period).min((1 << 32) * old.period);
            // Whole tokens and the rest apart, or the product would not fit.
            let (mut tokens, rest) = (owed / old.period, owed % old.period);
            let beyond = (tokens + i128::from(rest > 0) - self.burst).max(0);
            let hidden = if beyond < self.hidden_end() { beyond } else { 0 };
            tokens -= hidden;
            let rest = (rest * self.period + old.period - 1) / old.period;
            self.store((tokens * self.period + rest, hidden), at);
        }
    }
}

#[derive(Default)]
struct SecondOpinion {
    debtors: Vec<Debtor>,
}

impl SecondOpinion {
    fn transaction(&mut self, asks: &[(usize, u64, Mode)], at: u64) -> Result<Verdict, Mistake> {
        let mut named: Vec<_> = asks.iter().map(|ask| ask.0).collect();
        named.sort_unstable();
        if named.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Mistake::SameBucketTwice);
        }
        let own = asks.iter().map(|&(bucket, cost, _)| self.debtors[bucket].check(cost, at));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let checked: Vec<_> = (0..asks.len()).filter(|&i| asks[i].2 != Mode::SpendOnly).collect();
        let nothing_checked = checked.is_empty();
        let places = if nothing_checked { (0..asks.len()).collect() } else { checked };
        let decided_by = strictest(&own, places).ok_or(Mistake::NoAsks)?;
        let mut merged = own[decided_by];
        merged.allowed |= nothing_checked;
        for &(bucket, cost, mode) in asks {
            if merged.allowed && mode != Mode::CheckOnly {
                self.debtors[bucket].spend(cost, at)?;
            }
        }
        Ok(Verdict { merged, decided_by, own })
    }
}

impl Subject for SecondOpinion {
    fn apply(&mut self, step: &Step, at: u64) -> Observed {
        match *step {
            Step::Spend { bucket, cost } => self.debtors[bucket].spend(cost, at).into(),
            Step::Check { bucket, cost } => self.debtors[bucket].check(cost, at).into(),
            Step::Refund { bucket, cost } => self.debtors[bucket].refund(cost, at).into(),
            Step::Reset { bucket } => Observed::Answer(self.debtors[bucket].reset()),
            Step::Change { bucket, terms } => {
                match self.debtors.get_mut(bucket) {
                    Some(known) => known.change(terms, at),
                    None => self.debtors.push(Debtor::new(terms)),
                }
                Observed::Changed
            }
            Step::Transaction { ref asks } => self.transaction(asks, at).into(),
        }
    }
}

#[test]
fn two_writings_of_the_definition_agree() {
    for (seed, buckets) in (100..140).zip([1, 2, 3, 8].into_iter().cycle()) {
        let outcome = compare(&mut SecondOpinion::default(), seed, 50_000, buckets);
        if let Err(mismatch) = outcome {
            panic!("{mismatch}");
        }
    }
}
