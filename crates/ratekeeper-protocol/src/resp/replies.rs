//! The replies to what was gathered, in order.

use ratekeeper::limiter::{Answers, Asking, Decided, Merged, Witness};
use ratekeeper::{Decision, Limiter, Mistake, Moment, Request};

use super::codec::Fault;
use super::gather::{By, Gathered, InlineAsks, InlineRoom, Step};
use super::reply::{self, Five, Retry};
use crate::{Counts, Flow, spare};

/// Where replies go, and what is counted of them.
pub(super) struct Replies<'a> {
    pub(super) now: Moment,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) counts: &'a mut Counts,
}

/// The place of an ask among those of named limits (zero for an ask that brought its rule, which is never a
/// mistake), what it costs, and what was decided; nothing if it was a mistake.
type Answered = (usize, (u64, Option<Decision>));

impl Replies<'_> {
    /// Decides what was gathered, by names that are held, and replies in order.
    pub(super) fn decide(
        &mut self,
        gathered: &mut Gathered<'_, '_>,
        asking: &Asking<'_>,
        witness: Option<&dyn Witness>,
    ) {
        let inline = &mut gathered.inline;
        if !inline.keys.is_empty() {
            inline.expect_outcomes();
            let InlineRoom { questions, outcomes, .. } = &mut inline.room;
            inline.buckets.decide(questions, outcomes, self.now);
        }
        let mut batch = spare::take();
        let action = |place| gathered.action(place);
        let answers = asking.batch_with(&mut batch, &gathered.asks, action, self.now);
        self.add(gathered, answers, witness);
        spare::put_back(batch);
    }

    /// Replies to what was decided.
    pub(super) fn add(
        &mut self,
        gathered: &Gathered<'_, '_>,
        answers: Answers<'_>,
        witness: Option<&dyn Witness>,
    ) {
        let InlineAsks { keys, room, .. } = &gathered.inline;
        let InlineRoom { questions, outcomes, .. } = room;
        if let Some(witness) = witness.filter(|_| !keys.is_empty()) {
            witness.decided(&Decided::by_inline_rules(keys, questions, outcomes));
        }
        let named = gathered.asks.iter().map(|ask| ask.cost).zip(answers.decisions());
        let mut named = named.enumerate();
        let by_rule = questions.iter().zip(outcomes);
        let mut by_rule = by_rule
            .map(|(question, outcome)| (0, (question.ask.cost, Some(Decision::from(outcome)))));
        let mut said = gathered.said.as_slice();
        for step in &gathered.steps {
            match *step {
                Step::Spend { by: By::Limit, burst, times } => {
                    self.add_spent(burst, named.by_ref().take(times), answers);
                }
                Step::Spend { by: By::InlineRule, burst, times } => {
                    self.add_spent(burst, by_rule.by_ref().take(times), answers);
                }
                Step::Refund { by: By::Limit, burst } => {
                    self.add_refund(burst, named.next(), answers);
                }
                Step::Refund { by: By::InlineRule, burst } => {
                    self.add_refund(burst, by_rule.next(), answers);
                }
                Step::Reset { by: By::Limit } => {
                    self.add_reset(named.next(), named.next(), answers);
                }
                Step::Reset { by: By::InlineRule } => {
                    self.add_reset(by_rule.next(), by_rule.next(), answers);
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
    fn add_spent(
        &mut self,
        burst: u64,
        asked: impl Iterator<Item = Answered>,
        answers: Answers<'_>,
    ) {
        let five = Five::new(burst);
        for (place, (cost, decision)) in asked {
            match decision {
                Some(decision) => {
                    let retry = self.judge(decision.allowed, cost > burst);
                    five.write(&decision, retry, self.out);
                }
                None => self.blame(place, answers),
            }
        }
    }

    fn add_refund(&mut self, burst: u64, answered: Option<Answered>, answers: Answers<'_>) {
        match answered {
            Some((_, (_, Some(it)))) => reply::five(&it, burst, Retry::Passed, self.out),
            Some((place, _)) => self.blame(place, answers),
            None => {}
        }
    }

    /// Replies to a reset: what was there before, and that it is there no longer.
    fn add_reset(
        &mut self,
        before: Option<Answered>,
        after: Option<Answered>,
        answers: Answers<'_>,
    ) {
        let Some((place, (_, before))) = before else { return };
        let Some(before) = before else { return self.blame(place, answers) };
        let is_reset = after.is_some_and(|(_, (_, it))| it.is_some_and(|it| it.allowed));
        reply::integer((is_reset && !before.reset_in.is_zero()).into(), self.out);
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
