//! Buckets whose rules come with the asks, in Redis: each rule goes to the script as it came.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use ratekeeper::Moment;
use ratekeeper::algorithm::gcra::{Outcome, Verdict};
use ratekeeper::algorithm::inline_rule::{InlineCell, InlineGcra, InlineRule};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::store::shared::{BucketNames, OnFailure, SharedStore, Visit, Visiting};
use ratekeeper::store::{MemoryStore, Question, Store as _};

use super::Home;
use super::health::add;
use crate::bucket::{Answer, Ask};
use crate::failure::Failure;
use crate::link;
use crate::rule::Rule;

/// The buckets of `CL.THROTTLE`. Each question is decided by itself: there are no transactions over them.
pub(super) struct InlineBuckets {
    home: Arc<Home>,
}

impl SharedStore<InlineGcra> for InlineBuckets {
    fn decide<'a>(&'a self, visit: Visit<'a, InlineGcra>) -> Visiting<'a> {
        Box::pin(self.visit(visit))
    }

    fn install(&self, _: &Arc<()>, _: Moment) {}

    fn carry_over(&self, _: &[Question<InlineGcra>], _: &BucketNames, _: Moment) {}
}

/// The rules of one visit in the ticks of Redis, each once: spends by one rule go to Redis together.
#[derive(Default)]
struct RulesInRedis {
    places: HashMap<InlineRule, Option<usize>>,
    rules: Vec<Rule>,
}

impl RulesInRedis {
    /// Where a rule is; nothing if Redis cannot count it.
    fn place(&mut self, rule: InlineRule) -> Option<usize> {
        *self.places.entry(rule).or_insert_with(|| {
            self.rules.push(Rule::new(&rule.rule()).ok()?);
            self.rules.len().checked_sub(1)
        })
    }
}

/// A question that goes to Redis.
struct Errand {
    /// Which of the visit's questions it is.
    index: usize,
    /// Where its rule is.
    rule: usize,
    /// How often something of its bucket had been forgotten before it was asked.
    forgotten: u64,
}

impl InlineBuckets {
    pub(super) fn new(home: Arc<Home>) -> Self {
        Self { home }
    }

    async fn visit(&self, visit: Visit<'_, InlineGcra>) {
        let Visit { local, questions, names, outcomes, now } = visit;
        let names: Vec<&[u8]> = names.iter().map(|(name, _)| name).collect();
        let mut stay = Stay { home: &self.home, local, questions, names, outcomes, now };
        let (rules, errands) = stay.plan();
        if !errands.is_empty() {
            let asks: Vec<Ask<'_>> = errands.iter().map(|it| stay.ask(it, &rules)).collect();
            let answers = self.ask(&asks).await;
            drop(asks);
            stay.settle(&errands, answers);
        }
    }

    async fn ask(&self, asks: &[Ask<'_>]) -> Vec<Result<Answer, Failure>> {
        let (within, mut answers) = (self.home.left(), Vec::new());
        match self.home.link() {
            // Whatever was sent now would come too late.
            _ if within.is_zero() => answers.resize(asks.len(), Err(Failure::Timeout)),
            Ok(link) => {
                add(&self.home.tally.trips, 1);
                link.gcra(asks, &link::Visit::within(within), &mut answers).await;
            }
            Err(error) => answers.resize(asks.len(), Err(Failure::Refused(error.to_string()))),
        }
        answers
    }
}

/// What a visit has at hand.
struct Stay<'a> {
    home: &'a Home,
    local: &'a MemoryStore<InlineGcra>,
    questions: &'a [Question<InlineGcra>],
    names: Vec<&'a [u8]>,
    outcomes: &'a mut [Outcome],
    now: Moment,
}

impl<'a> Stay<'a> {
    /// Answers what is known; returns what goes to Redis, with its rules.
    fn plan(&mut self) -> (RulesInRedis, Vec<Errand>) {
        let (mut rules, mut errands) = (RulesInRedis::default(), Vec::new());
        // Of a bucket that this visit asks Redis for, what is known is known of the time before.
        let mut asked = HashSet::new();
        for index in 0..self.questions.len() {
            let (denials, ask) = (&self.home.inline_denials, &self.questions[index].ask);
            let bucket = denials.seal.fingerprint(self.names[index]);
            debug_assert!(!self.questions[index].joined, "no transaction brings its rules along");
            if !asked.contains(&bucket)
                && let Some(outcome) = denials.find(bucket, ask, self.now)
            {
                self.outcomes[index] = outcome;
                add(&self.home.tally.remembered, 1);
                continue;
            }
            match rules.place(ask.rule) {
                Some(rule) => {
                    asked.insert(bucket);
                    errands.push(Errand { index, rule, forgotten: denials.forgotten(bucket) });
                }
                None => self.decide_here(index),
            }
        }
        (rules, errands)
    }

    fn ask<'r>(&self, errand: &Errand, rules: &'r RulesInRedis) -> Ask<'r>
    where
        'a: 'r,
    {
        let asked = &self.questions[errand.index].ask;
        Ask {
            bucket: self.names[errand.index],
            rule: &rules.rules[errand.rule],
            // The rule is in force from the moment of the ask on.
            since: Moment::MAX,
            action: asked.action,
            is_shadow: false,
            cost: asked.cost,
            joined: false,
        }
    }

    /// Takes Redis at its word, and decides the rest without it.
    fn settle(&mut self, errands: &[Errand], answers: Vec<Result<Answer, Failure>>) {
        let mut is_well = true;
        for (errand, answer) in errands.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    self.outcomes[errand.index] = answer.outcome;
                    add(&self.home.tally.decided, 1);
                    self.learn(errand, &answer);
                }
                Err(failure) => {
                    is_well = false;
                    self.home.tally.failed(&failure, self.now);
                    self.decide_here(errand.index);
                }
            }
        }
        if is_well {
            self.home.tally.succeeded(self.now);
        }
    }

    /// Decides by what this process knows, because Redis cannot.
    fn decide_here(&mut self, index: usize) {
        self.home.tally.instead(OnFailure::Local, 1);
        let only = index..=index;
        self.local.decide(&self.questions[only.clone()], &mut self.outcomes[only], self.now);
    }

    /// Keeps in mind what Redis said, for when it is away, and denials for as long as they last.
    fn learn(&self, errand: &Errand, answer: &Answer) {
        let Answer { outcome, hidden, .. } = *answer;
        let (question, name) = (&self.questions[errand.index], self.names[errand.index]);
        let (ask, now) = (&question.ask, self.now);
        let cell = InlineCell::filling(ask.rule, outcome.reset_in, hidden, now);
        let is_denied = outcome.verdict == Verdict::Deny;
        let takes = matches!(ask.action, Action::CheckAndSpend | Action::SpendOnly);
        if is_denied || gives(ask.action) || takes || ask.cost == 0 {
            let is_owing = !outcome.reset_in.is_zero() || hidden > 0;
            self.local.learn(question.bucket, is_owing.then_some(cell), now);
        }
        let denials = &self.home.inline_denials;
        if is_denied && !gives(ask.action) {
            denials.remember(name, cell, errand.forgotten, now);
        } else {
            // It may have been under another rule, by which it was denied.
            denials.forget(name);
        }
    }
}

fn gives(action: Action) -> bool {
    matches!(action, Action::Refund | Action::Reset)
}
