//! Asking a limiter whose buckets may be elsewhere.

use std::sync::Arc;

use super::transaction::{Questions, conclude, gather};
use super::{
    Answers, Batch, Decided, Decision, Explanation, Limiter, Merged, Mistake, Request, decision,
    question,
};
use crate::Moment;
use crate::algorithm::book::{Action, Ask, Gcra, RuleId};
use crate::algorithm::gcra::Outcome;
use crate::limits::resolver::Resolver;
use crate::store::Question;
use crate::store::shared::{BucketNames, SharedStore, Sharing, Visit};

impl Limiter {
    /// Has the buckets decided by `store`, which others share, from `at` on: for this limiter and
    /// all over the same limits. It is then asked through [`wherever`](Self::wherever); whatever is
    /// asked otherwise is decided by this process's memory alone. Refuses a second store.
    pub fn share(
        &self,
        store: Arc<dyn SharedStore<Gcra>>,
        at: Moment,
    ) -> Result<(), AlreadyShared> {
        // A reload would install its rules in the store before or after, and not both.
        let mut registry = self.core.registry.lock();
        store.install(&registry.book(), at);
        self.core.shared.set(store).map_err(|_| AlreadyShared)
    }

    /// The same limiter, to be asked wherever its buckets are: in memory at once, in a store that
    /// is shared as soon as that answers.
    pub fn wherever(&self) -> Wherever<'_> {
        Wherever { limiter: self }
    }
}

/// The limiter shares its buckets already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limiter shares its buckets already")]
pub struct AlreadyShared;

/// A limiter, asked wherever its buckets are.
///
/// Where they are in memory, nothing here ever waits.
#[derive(Clone, Copy)]
pub struct Wherever<'l> {
    limiter: &'l Limiter,
}

impl<'l> Wherever<'l> {
    /// Whether answers may have to be waited for.
    pub fn waits(self) -> bool {
        self.shared().is_some()
    }

    /// What [`Limiter::spend`] says.
    pub async fn spend(
        self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, cost), Action::CheckAndSpend, now).await
    }

    /// What [`Limiter::check`] says.
    pub async fn check(
        self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, cost), Action::CheckOnly, now).await
    }

    /// What [`Limiter::reset`] says.
    pub async fn reset(self, limit: &str, id: &str, now: Moment) -> Result<Decision, Mistake> {
        self.one(Request::new(limit, id, 0), Action::Reset, now).await
    }

    /// What [`Limiter::batch`] says.
    pub async fn batch<'b>(
        self,
        batch: &'b mut Batch,
        asks: &[Request<'_>],
        now: Moment,
    ) -> Answers<'b> {
        self.batch_with(batch, asks, |place| asks[place].mode.into(), now).await
    }

    /// Decides many asks of any kind, each on its own, in order. What is wanted of an ask is what
    /// `action` says of its place, and not what its mode says.
    pub async fn batch_with<'b>(
        self,
        batch: &'b mut Batch,
        asks: &[Request<'_>],
        action: impl Fn(usize) -> Action,
        now: Moment,
    ) -> Answers<'b> {
        let Some(shared) = self.shared() else {
            return self.limiter.asking().batch_with(batch, asks, action, now);
        };
        let names = {
            let resolver = self.limiter.core.resolver.load();
            batch.resolve(&resolver, asks, action, |_, _| ());
            bucket_names(&resolver, asks, &batch.questions)
        };
        let Batch { questions, outcomes, .. } = &mut *batch;
        self.visit(&**shared, questions, &names, outcomes, now).await;
        // It is not held while others answer: a reload waits for whoever holds it.
        let resolver = self.limiter.core.resolver.load();
        batch.blame_costs(&resolver, asks);
        self.tell(&resolver, asks, &batch.questions, &batch.outcomes);
        Answers { batch }
    }

    /// What [`Limiter::transaction`] says.
    pub async fn transaction(self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |ask| ask.mode.into(), now).await
    }

    /// What [`Limiter::refund_all`] says.
    pub async fn refund_all(self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |_| Action::Refund, now).await
    }

    /// What [`Limiter::reset_all`] says.
    pub async fn reset_all(self, asks: &[Request<'_>], now: Moment) -> Result<Merged, Mistake> {
        self.joined(asks, |_| Action::Reset, now).await
    }

    /// What [`Limiter::explain`] says.
    pub async fn explain(
        self,
        limit: &str,
        id: &str,
        cost: u64,
        now: Moment,
    ) -> Result<Explanation, Mistake> {
        let Some(shared) = self.shared() else {
            return self.limiter.explain(limit, id, cost, now);
        };
        let ask = Request::new(limit, id, cost);
        let (questions, names) = {
            let resolver = self.limiter.core.resolver.load();
            let question = question(&resolver, &ask, Action::CheckOnly)?;
            let peek = Question { ask: Ask { cost: 0, ..question.ask }, ..question };
            let questions = [peek, question];
            (questions, bucket_names(&resolver, &[ask, ask], &questions))
        };
        let mut outcomes = [Outcome::default(); 2];
        self.visit(&**shared, &questions, &names, &mut outcomes, now).await;
        let resolver = self.limiter.core.resolver.load();
        // As this process learned it with the answer.
        let hidden = self.limiter.core.hidden(&questions[0], now);
        Explanation::of(&resolver, &ask, &questions, &outcomes, hidden)
    }

    async fn one(self, ask: Request<'_>, action: Action, now: Moment) -> Result<Decision, Mistake> {
        let Some(shared) = self.shared() else {
            return self.limiter.one(ask, action, now);
        };
        let (question, names) = {
            let resolver = self.limiter.core.resolver.load();
            let question = question(&resolver, &ask, action)?;
            (question, bucket_names(&resolver, &[ask], &[question]))
        };
        let mut outcome = [Outcome::default()];
        self.visit(&**shared, &[question], &names, &mut outcome, now).await;
        let resolver = self.limiter.core.resolver.load();
        let decision = decision(&resolver, &ask, &question, &outcome[0])?;
        self.tell(&resolver, &[ask], &[question], &outcome);
        Ok(decision)
    }

    async fn joined(
        self,
        asks: &[Request<'_>],
        action: impl Fn(&Request<'_>) -> Action,
        now: Moment,
    ) -> Result<Merged, Mistake> {
        let Some(shared) = self.shared() else {
            return self.limiter.joined(asks, action, now);
        };
        // Boxed: a transaction has room for many asks, and whoever waits for it holds it meanwhile.
        let mut questions = Box::<Questions>::default();
        let names = {
            let resolver = self.limiter.core.resolver.load();
            gather(&resolver, asks, action, &mut questions)?;
            bucket_names(&resolver, asks, &questions)
        };
        let mut outcomes = vec![Outcome::default(); asks.len()];
        self.visit(&**shared, &questions, &names, &mut outcomes, now).await;
        let resolver = self.limiter.core.resolver.load();
        let merged = conclude(&resolver, asks, &questions, &outcomes)?;
        self.tell(&resolver, asks, &questions, &outcomes);
        Ok(merged)
    }

    async fn visit(
        self,
        shared: &dyn SharedStore<Gcra>,
        questions: &[Question<Gcra>],
        names: &BucketNames,
        outcomes: &mut [Outcome],
        now: Moment,
    ) {
        if questions.is_empty() {
            return;
        }
        let local = &self.limiter.core.store;
        shared.decide(Visit { local, questions, names, outcomes, now }).await;
    }

    fn tell(
        self,
        resolver: &Resolver,
        asks: &[Request<'_>],
        questions: &[Question<Gcra>],
        outcomes: &[Outcome],
    ) {
        if let Some(witness) = self.limiter.witness.as_ref().filter(|_| !asks.is_empty()) {
            witness.decided(&Decided::new(resolver, asks, questions, outcomes));
        }
    }

    fn shared(self) -> Option<&'l Arc<dyn SharedStore<Gcra>>> {
        self.limiter.core.shared.get()
    }
}

/// What the buckets of asks are called; empty for those that are mistakes.
fn bucket_names(
    resolver: &Resolver,
    asks: &[Request<'_>],
    questions: &[Question<Gcra>],
) -> BucketNames {
    let mut names = BucketNames::default();
    for (ask, question) in asks.iter().zip(questions) {
        names.push_with(|to| {
            if question.ask.rule == RuleId::NONE {
                return Sharing::default();
            }
            resolver.write_bucket_key(ask.limit, ask.id, to)
        });
    }
    names
}
