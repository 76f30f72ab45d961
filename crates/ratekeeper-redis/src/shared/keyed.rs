//! Averages and quotas, whose clients bring their own rules.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Moment;
use ratekeeper::algorithm::Algorithm;
use ratekeeper::algorithm::average::{self, Average, AverageCell};
use ratekeeper::algorithm::quota::{self, Quota, QuotaCell};
use ratekeeper::store::shared::{BucketNames, OnFailure, SharedStore, Visit, Visiting};
use ratekeeper::store::{MemoryStore, Question, Store as _};

use super::Home;
use super::health::add;
use crate::failure::Failure;
use crate::link::{self, Link};
use crate::{AverageAsk, QuotaAsk};

/// Something that Redis counts for clients who bring their own rules.
pub(super) trait Counted: Algorithm<Book = ()> {
    /// What Redis answers, one for each.
    fn ask(
        link: &Link,
        asks: &[(&[u8], Self::Ask)],
        within: Duration,
    ) -> impl Future<Output = Vec<Result<Self::Outcome, Failure>>> + Send;

    /// What is known of the key after an answer.
    fn learned(ask: &Self::Ask, outcome: &Self::Outcome, now: Moment) -> Learned<Self::Cell>;
}

/// What an answer says of a key.
pub(super) enum Learned<C> {
    /// It is this.
    Is(C),
    /// It is gone.
    Gone,
    /// No more than was known before.
    Nothing,
}

impl Counted for Average {
    async fn ask(
        link: &Link,
        asks: &[(&[u8], average::Rule)],
        within: Duration,
    ) -> Vec<Result<average::Outcome, Failure>> {
        let asks: Vec<_> = asks.iter().map(|&(key, rule)| AverageAsk { key, rule }).collect();
        let mut answers = Vec::new();
        link.average(&asks, &link::Visit::within(within), &mut answers).await;
        answers.into_iter().map(|answer| answer.map(|it| it.outcome)).collect()
    }

    fn learned(
        rule: &average::Rule,
        outcome: &average::Outcome,
        now: Moment,
    ) -> Learned<AverageCell> {
        if outcome.over && !rule.is_strict() {
            return Learned::Nothing;
        }
        Learned::Is(AverageCell::answered(rule, *outcome, now))
    }
}

impl Counted for Quota {
    async fn ask(
        link: &Link,
        asks: &[(&[u8], quota::Ask)],
        within: Duration,
    ) -> Vec<Result<quota::Outcome, Failure>> {
        let asks: Vec<_> = asks.iter().map(|&(key, ask)| QuotaAsk { key, ask }).collect();
        let mut answers = Vec::new();
        link.quota(&asks, &link::Visit::within(within), &mut answers).await;
        answers.into_iter().map(|answer| answer.map(|it| it.outcome)).collect()
    }

    fn learned(ask: &quota::Ask, outcome: &quota::Outcome, now: Moment) -> Learned<QuotaCell> {
        match (ask, outcome.can) {
            // One that was too small to begin with was not made.
            (quota::Ask::Insert { .. }, false) => Learned::Nothing,
            (quota::Ask::Purge, _) | (_, false) => Learned::Gone,
            (_, true) => {
                let expires = now.after(outcome.unit.length(outcome.ttl));
                Learned::Is(QuotaCell::new(outcome.remaining, expires, outcome.unit))
            }
        }
    }
}

/// Averages or quotas in Redis.
pub(super) struct KeyedBuckets {
    home: Arc<Home>,
}

impl KeyedBuckets {
    pub(super) fn new(home: Arc<Home>) -> Self {
        Self { home }
    }

    async fn visit<A: Counted>(&self, visit: Visit<'_, A>)
    where
        A::Ask: Send + Sync,
        A::Outcome: Send,
        MemoryStore<A>: Sync,
    {
        let Visit { local, questions, names, outcomes, now } = visit;
        let asks = questions.iter().zip(names.iter()).map(|(it, (name, _))| (name, it.ask));
        let asks: Vec<(&[u8], A::Ask)> = asks.collect();
        let tally = &self.home.tally;
        let within = self.home.left();
        let answers = match self.home.link() {
            // Whatever was sent now would come too late.
            _ if within.is_zero() => vec![Err(Failure::Timeout); asks.len()],
            Ok(link) => {
                add(&tally.trips, 1);
                A::ask(&link, &asks, within).await
            }
            Err(error) => {
                vec![Err(Failure::Refused(error.to_string())); asks.len()]
            }
        };
        let mut all = true;
        for ((question, outcome), answer) in questions.iter().zip(outcomes).zip(answers) {
            match answer {
                Ok(answered) => {
                    add(&tally.decided, 1);
                    let learned = match A::learned(&question.ask, &answered, now) {
                        Learned::Is(cell) => Some(Some(cell)),
                        Learned::Gone => Some(None),
                        Learned::Nothing => None,
                    };
                    if let Some(cell) = learned {
                        local.learn(question.bucket, cell, now);
                    }
                    *outcome = answered;
                }
                Err(failure) => {
                    all = false;
                    tally.failed(&failure, now);
                    tally.instead(OnFailure::Local, 1);
                    local.decide(
                        std::slice::from_ref(question),
                        std::slice::from_mut(outcome),
                        now,
                    );
                }
            }
        }
        if all {
            tally.succeeded(now);
        }
    }
}

impl<A: Counted> SharedStore<A> for KeyedBuckets
where
    A::Ask: Send + Sync,
    A::Outcome: Send,
    MemoryStore<A>: Sync,
{
    fn decide<'a>(&'a self, visit: Visit<'a, A>) -> Visiting<'a> {
        Box::pin(self.visit(visit))
    }

    fn install(&self, _: &Arc<()>, _: Moment) {}

    fn carry_over(&self, _: &[Question<A>], _: &BucketNames, _: Moment) {}
}
