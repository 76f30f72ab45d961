//! Many asks at once.

use super::{Decision, Mistake, Request, cost_above_burst, mistake};
use crate::algorithm::book::{Action, Ask, Gcra, RuleId};
use crate::algorithm::gcra::{Outcome, Verdict};
use crate::limits::resolver::{Resolver, Unresolved};
use crate::store::{Fingerprint, Question};

/// Room for a batch of asks, to be used again and again: after a few it no longer grows.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) questions: Vec<Question<Gcra>>,
    /// One for each ask, also for those that are mistakes.
    pub(super) outcomes: Vec<Outcome>,
    /// By the place of the ask.
    mistakes: Vec<(usize, Mistake)>,
}

impl Batch {
    /// Resolves every ask; `action` says what is wanted of it, by its place. `expect` is told which
    /// bucket it is about, as soon as that is known.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        resolver: &Resolver,
        asks: &[Request<'_>],
        action: impl Fn(usize) -> Action,
        expect: impl Fn(usize, Fingerprint),
    ) {
        self.questions.clear();
        self.mistakes.clear();
        let (mut name, mut entry) = ("", Err(Unresolved::Name));
        for (place, ask) in asks.iter().enumerate() {
            let (action, cost) = (action(place), ask.cost);
            // Asks of one batch are often for one limit, and then it is the same text in memory.
            if !std::ptr::eq(name, ask.limit) {
                (name, entry) = (ask.limit, resolver.entry(ask.limit));
            }
            let asked = entry.and_then(|entry| {
                let (bucket, rule) = entry.bucket(ask.id)?;
                Ok((bucket, rule, entry.shadows(action)))
            });
            match asked {
                // Put together where it stays: what is written in words and copied in larger pieces
                // has the processor wait.
                Ok((bucket, rule, is_shadow)) => {
                    let ask = Ask { rule, action, is_shadow, cost };
                    self.questions.push(Question { bucket, ask, joined: false });
                    expect(place, bucket);
                }
                Err(unresolved) => {
                    self.mistakes.push((place, mistake(resolver, ask, unresolved)));
                    self.questions.push(Question::idle());
                }
            }
        }
        self.outcomes.resize(asks.len(), Outcome::default());
    }

    /// Turns what can never pass into mistakes.
    pub(super) fn blame_costs(&mut self, resolver: &Resolver, asks: &[Request<'_>]) {
        let answered = self.questions.iter().zip(&self.outcomes);
        for (place, (ask, (question, outcome))) in asks.iter().zip(answered).enumerate() {
            if outcome.verdict == Verdict::Never && !question.ask.is_shadow {
                let behind = self.mistakes.partition_point(|&(other, _)| other < place);
                self.mistakes.insert(behind, (place, cost_above_burst(resolver, ask)));
            }
        }
    }
}

/// What the asks of a batch were answered, in order.
#[must_use = "a denial is no error: whoever does not look at `allowed` lets everybody pass"]
#[derive(Clone, Copy, Debug)]
pub struct Answers<'b> {
    pub(super) batch: &'b Batch,
}

impl<'b> Answers<'b> {
    /// How many there are: as many as asks.
    pub fn len(&self) -> usize {
        self.batch.outcomes.len()
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each answer, or what was wrong with the ask.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Result<Decision, &'b Mistake>> + use<'b> {
        let mut mistakes = self.batch.mistakes.iter().peekable();
        let pairs = self.batch.questions.iter().zip(&self.batch.outcomes);
        pairs.enumerate().map(move |(place, (question, outcome))| {
            match mistakes.next_if(|(other, _)| *other == place) {
                Some((_, mistake)) => Err(mistake),
                None => Ok(Decision::new(&question.ask, outcome)),
            }
        })
    }

    /// Each decision, also of what can never pass, which is denied. Nothing where the ask was wrong
    /// otherwise.
    #[inline]
    pub fn decisions(&self) -> impl Iterator<Item = Option<Decision>> + use<'b> {
        self.batch.questions.iter().zip(&self.batch.outcomes).map(|(question, outcome)| {
            let is_asked = question.ask.rule != RuleId::NONE;
            is_asked.then(|| Decision::new(&question.ask, outcome))
        })
    }
}
