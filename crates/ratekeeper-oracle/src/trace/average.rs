//! What a decaying average cannot have answered.
//!
//! A use at `t` finds the rate `(1 - a) / x + a * old`, with `x` the periods since the last use that
//! counted and `a = exp(-x)`. The first term is the mean of `exp(-(t - u) / period)` over all `u`
//! since that use. So the rate is the sum of such means, one for each gap between uses that counted,
//! and it lies between the decayed number of uses before this one and one more than that.
//!
//! Several workers of a server may look at their clocks before they come to the average. Then a use
//! may be stamped earlier than the one before it, and the time in between passes twice: from the
//! earlier stamp on, uses decay once more. So stamps that go back make rates lower, never higher.

use std::collections::BinaryHeap;

use super::{Counted, Findings, NEVER, Said, Seen, Why, answered};

/// A server may forget a key whose rate is printed as 0.0; and doubles are not exact.
const SLACK: f64 = 0.05 + 1e-6;
/// The same, as a part of the limit.
const SLACK_PART: f64 = 1e-9;

pub(super) struct Average {
    pub(super) limit: f64,
    pub(super) period_secs: f64,
    pub(super) strict: bool,
}

/// A number of uses that decays.
struct Decayed {
    sum: f64,
    at: u64,
}

impl Average {
    /// Counts those that were allowed beyond what the limit has room for.
    ///
    /// Of all that were allowed and received by some time, one was the last. All others came before
    /// it, each no earlier than it was sent; so did every refused use, where those count, that was
    /// received before the last can have been decided. If their number, decayed until then, has
    /// reached the limit, that last one was over it. Which one it was nobody knows; the one that was
    /// sent last is left out, because it weighs most.
    pub(super) fn judge_allowed(&self, asks: &[Seen], findings: &mut Findings) {
        let allowed = answered(asks, Said::Allowed);
        let denied = if self.strict { answered(asks, Said::Denied) } else { Vec::new() };
        let twice = self.twice(asks);
        let mut sum = Decayed { sum: 0.0, at: 0 };
        // When each was sent that was not left out, the last first.
        let mut kept = BinaryHeap::new();
        let mut refused = 0;
        for ask in &allowed {
            let until = twice.latest(ask.received);
            let weight = |sent: u64| self.weight(twice.earliest(sent), until);
            sum.decay(until, self);
            sum.sum += weight(ask.sent);
            kept.push(ask.sent);
            let newest = kept.peek().copied().unwrap_or(ask.sent);
            while let Some(before) = denied.get(refused).filter(|it| it.received < newest) {
                sum.sum += weight(before.sent);
                refused += 1;
            }
            let least = sum.sum - weight(newest);
            if least < self.limit + self.slack() {
                continue;
            }
            findings.over(ask, Why::Over { least, limit: self.limit });
            kept.pop();
            sum.sum -= weight(newest);
            let newest = kept.peek().copied().unwrap_or(0);
            while refused > 0 && denied[refused - 1].received >= newest {
                refused -= 1;
                sum.sum -= weight(denied[refused].sent);
            }
        }
    }

    /// What time may have passed twice: before each use that counts, at most as long as it took, and
    /// only if others came meanwhile. One that was not answered is assumed to have taken no longer
    /// than any that was, though nobody knows when.
    fn twice(&self, asks: &[Seen]) -> Twice {
        let counted = Counted::new(self.counting(asks));
        let answered = asks.iter().filter(|ask| ask.said != Said::Nothing);
        let longest = answered.map(|ask| ask.received.saturating_sub(ask.sent)).max().unwrap_or(0);
        let spans = self.counting(asks).filter_map(|ask| {
            let is_alone = counted.during(ask.sent, ask.received) <= 1;
            let long = if ask.received == NEVER { longest } else { ask.received - ask.sent };
            (!is_alone).then_some((ask.sent, ask.received, long))
        });
        Twice::new(spans)
    }

    /// Those that may have counted.
    fn counting<'a>(&self, asks: &'a [Seen]) -> impl Iterator<Item = Seen> + Clone + use<'a> {
        let strict = self.strict;
        asks.iter().filter(move |ask| strict || ask.said != Said::Denied).copied()
    }

    /// Finds those that were denied although the rate was below the limit whatever happened.
    ///
    /// Every use that may have counted before it did, as late as it can have; and whatever was there
    /// before had not reached the limit when it was last known: where refused uses do not count it
    /// never does, and where they do, the first use that was allowed says so.
    pub(super) fn judge_denied(&self, start: u64, asks: &[Seen], findings: &mut Findings) {
        let first =
            asks.iter().filter(|ask| ask.said == Said::Allowed).min_by_key(|it| it.received);
        let known = if self.strict { first.map(|ask| ask.received) } else { Some(start) };
        let Some(known) = known else { return };
        let counted = Counted::new(self.counting(asks));
        let mut denied = answered(asks, Said::Denied);
        denied.sort_unstable_by_key(|ask| ask.sent);
        let (mut sum, mut passed) = (Decayed { sum: 0.0, at: 0 }, 0);
        for ask in denied.iter().filter(|ask| ask.sent >= known) {
            sum.decay(ask.sent, self);
            let before = counted.before(ask.sent);
            for received in &counted.received[passed..before] {
                sum.sum += self.weight(*received, ask.sent);
            }
            passed = before;
            // Where refused uses count, it is among those itself.
            let overlapping = counted.during(ask.sent, ask.received) - usize::from(self.strict);
            let prior = self.limit * self.weight(known, ask.sent);
            let most = 1.0 + prior + sum.sum + as_f64(overlapping);
            if most < self.limit - self.slack() {
                findings.wrong(ask, Why::Under { most, limit: self.limit });
            }
        }
    }

    fn slack(&self) -> f64 {
        SLACK + SLACK_PART * self.limit
    }

    /// What is left at `until` of a use at `from`.
    fn weight(&self, from: u64, until: u64) -> f64 {
        debug_assert!(until < NEVER, "nobody asks when there was no answer");
        let secs = as_secs(until.saturating_sub(from));
        (-secs / self.period_secs).exp()
    }
}

/// Time that may have passed twice, summed up: by when those uses were sent that may have turned the
/// clock back, and by when they were received.
struct Twice {
    sent: Vec<(u64, u64)>,
    received: Vec<(u64, u64)>,
}

impl Twice {
    fn new(spans: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let (mut sent, mut received): (Vec<_>, Vec<_>) =
            spans.map(|(sent, received, long)| ((sent, long), (received, long))).unzip();
        for sums in [&mut sent, &mut received] {
            sums.sort_unstable();
            let mut sum = 0_u64;
            for (_, long) in sums {
                sum = sum.saturating_add(*long);
                *long = sum;
            }
        }
        Self { sent, received }
    }

    /// A moment, as late as it can be: everyone sent by then may have turned the clock back.
    fn latest(&self, moment: u64) -> u64 {
        moment.saturating_add(before(&self.sent, moment.saturating_add(1))).min(NEVER - 1)
    }

    /// A moment, as early as it can be: only those received before certainly did before.
    fn earliest(&self, moment: u64) -> u64 {
        moment.saturating_add(before(&self.received, moment)).min(NEVER - 1)
    }
}

fn before(sums: &[(u64, u64)], moment: u64) -> u64 {
    let count = sums.partition_point(|(at, _)| *at < moment);
    count.checked_sub(1).map_or(0, |last| sums[last].1)
}

impl Decayed {
    fn decay(&mut self, at: u64, average: &Average) {
        self.sum *= average.weight(self.at, at);
        self.at = at;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a run takes hours, which is far below 2^53 ns")]
fn as_secs(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 asks")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
