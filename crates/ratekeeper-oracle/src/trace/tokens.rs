//! What a bucket of tokens cannot have denied.
//!
//! Time is counted as in [`Terms`]: in ticks of `1/count` ns, where all of this is whole.

use super::{Counted, Findings, Said, Seen, Why, answered};
use crate::terms::Terms;

/// Finds the asks that were denied although tokens for them were there whatever happened.
///
/// The arrival time cannot have been later than this: the bucket was empty at the start; every ask
/// that was received before the denied one was sent took its tokens as late as it can have, because
/// later is worse; and every other ask that was sent before the denied one was received was decided
/// just before it. Those may also have been stamped as late as the denied one was received, where a
/// server looks at its clock before it comes to the bucket. If there is room even so, there was.
pub(super) fn judge(terms: Terms, cost: u64, start: u64, asks: &[Seen], findings: &mut Findings) {
    let counted = Counted::new(asks.iter().filter(|ask| ask.said != Said::Denied).copied());
    let mut denied = answered(asks, Said::Denied);
    denied.sort_unstable_by_key(|ask| ask.sent);
    let mut late = Late::new(terms, cost, start);
    for ask in &denied {
        let before = counted.before(ask.sent);
        while late.spent < before {
            late.spend(counted.received[late.spent]);
        }
        let overlapping = counted.during(ask.sent, ask.received);
        if let Some(least) = late.room(ask, overlapping) {
            findings.wrong(ask, Why::Room { least, cost });
        }
    }
}

/// A bucket that is as empty as it can be.
struct Late {
    price: i128,
    rate: i128,
    burst: i128,
    period: i128,
    tat: i128,
    /// How many asks have spent.
    spent: usize,
}

impl Late {
    fn new(terms: Terms, cost: u64, start: u64) -> Self {
        let (rate, period) = (i128::from(terms.count), i128::from(terms.period_ns));
        let burst = i128::from(terms.burst) * period;
        let price = i128::from(cost) * period;
        Self { price, rate, burst, period, tat: i128::from(start) * rate + burst, spent: 0 }
    }

    fn spend(&mut self, at: u64) {
        let now = i128::from(at) * self.rate;
        // No bucket owes more than it holds.
        self.tat = (self.tat.max(now) + self.price).min(now + self.burst);
        self.spent += 1;
    }

    /// The whole tokens that are there, if they are enough.
    fn room(&self, ask: &Seen, overlapping: usize) -> Option<u64> {
        let now = i128::from(ask.sent) * self.rate;
        let tat = match overlapping {
            0 => self.tat.max(now),
            count => {
                let stamp = i128::from(ask.received) * self.rate;
                self.tat.max(stamp) + i128::try_from(count).ok()? * self.price
            }
        };
        let slack = now + self.burst - tat;
        (slack >= self.price).then(|| u64::try_from(slack / self.period).unwrap_or(u64::MAX))
    }
}
