//! The replies to what was gathered, in order.

use ratekeeper::limiter::{Answers, Asking, Merged};
use ratekeeper::{Decision, Limiter, Mistake, Moment, Request};

use super::codec::Fault;
use super::gather::{Gathered, Step};
use super::reply::{self, Five, Retry};
use crate::{Counts, Flow, spare};

/// Where replies go, and what is counted of them.
pub(super) struct Replies<'a> {
    pub(super) now: Moment,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) counts: &'a mut Counts,
}

impl Replies<'_> {
    /// Decides what was gathered, by names that are held, and replies in order.
    pub(super) fn decide(&mut self, gathered: &Gathered<'_>, asking: &Asking<'_>) {
        let mut batch = spare::take();
        let action = |place| gathered.action(place);
        let answers = asking.batch_with(&mut batch, &gathered.asks, action, self.now);
        self.add(gathered, answers);
        spare::put_back(batch);
    }

    pub(super) fn add(&mut self, gathered: &Gathered<'_>, answers: Answers<'_>) {
        let mut asked = gathered.asks.iter().zip(answers.decisions()).enumerate();
        let mut said = gathered.said.as_slice();
        for step in &gathered.steps {
            match *step {
                Step::Spend { burst, times } => {
                    self.add_spent(burst, asked.by_ref().take(times), answers);
                }
                Step::Refund { burst } => {
                    let Some((place, (_, decision))) = asked.next() else { return };
                    match decision {
                        Some(it) => reply::five(&it, burst, Retry::Passed, self.out),
                        None => self.blame(place, answers),
                    }
                }
                Step::Reset => {
                    let (Some((place, (_, before))), after) = (asked.next(), asked.next()) else {
                        return;
                    };
                    let Some(before) = before else {
                        self.blame(place, answers);
                        continue;
                    };
                    let is_reset =
                        after.is_some_and(|(_, (_, it))| it.is_some_and(|it| it.allowed));
                    let was_there = !before.reset_in.is_zero();
                    reply::integer((is_reset && was_there).into(), self.out);
                }
                Step::Said(length) => {
                    let (text, behind) = said.split_at_checked(length).unwrap_or((said, &[]));
                    self.out.extend_from_slice(text);
                    said = behind;
                }
            }
        }
    }

    /// Replies to asks of one burst.
    #[inline]
    fn add_spent<'r>(
        &mut self,
        burst: u64,
        asked: impl Iterator<Item = (usize, (&'r Request<'r>, Option<Decision>))>,
        answers: Answers<'_>,
    ) {
        let five = Five::new(burst);
        for (place, (ask, decision)) in asked {
            match decision {
                Some(decision) => {
                    let retry = self.judge(decision.allowed, ask.cost > burst);
                    five.write(&decision, retry, self.out);
                }
                None => self.blame(place, answers),
            }
        }
    }

    /// Replies to a transaction.
    pub(super) fn conclude(
        &mut self,
        merged: Result<Merged, Mistake>,
        asks: &[Request<'_>],
        limiter: &Limiter,
    ) {
        match merged {
            Ok(merged) => {
                let retry = self.judge(merged.decision.allowed, false);
                let Some(ask) = asks.get(merged.decided_by) else { return };
                let burst = limiter.terms(ask.limit, ask.id).map_or(0, |it| it.burst());
                reply::five_and_name(&merged.decision, burst, retry, ask.limit, self.out);
            }
            Err(mistake) => reply::mistake(&mistake, self.out),
        }
    }

    /// Says what was wrong with an ask.
    #[cold]
    fn blame(&mut self, place: usize, answers: Answers<'_>) {
        if let Some(Err(mistake)) = answers.iter().nth(place) {
            reply::mistake(mistake, self.out);
        }
    }

    #[inline]
    fn judge(&mut self, is_allowed: bool, is_too_much: bool) -> Retry {
        let counter = if is_allowed { &mut self.counts.allowed } else { &mut self.counts.denied };
        *counter = counter.saturating_add(1);
        match (is_allowed, is_too_much) {
            (true, _) => Retry::Passed,
            (false, true) => Retry::Never,
            (false, false) => Retry::Later,
        }
    }

    /// Says what is wrong with the bytes, after which nobody knows where a request begins.
    pub(super) fn break_off(&mut self, fault: Fault) -> Flow {
        self.counts.malformed = self.counts.malformed.saturating_add(1);
        let sign = if let Fault::Sign(sign) = fault { [b'\'', sign, b'\''] } else { [0; 3] };
        let sign = if matches!(fault, Fault::Sign(_)) { &sign[..] } else { &[] };
        reply::error(&[b"ERR Protocol error: ", fault.text().as_bytes(), sign], self.out);
        Flow::Close
    }
}
