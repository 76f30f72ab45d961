//! Requests that the operator's limits answer: the resource is the name of a limit, the consumer
//! the id.

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::quota::{Ask, Outcome, Unit};
use ratekeeper::limiter::{EVERYBODY, Wherever};
use ratekeeper::{Decision, Moment, Request};
use smallvec::SmallVec;

use crate::spare;

/// How many are usually answered at once.
const USUAL: usize = 16;

/// Requests as if buckets were quotas, to be answered together.
#[derive(Default)]
pub(super) struct NamedAsks<'a> {
    asks: SmallVec<[NamedAsk; USUAL]>,
    /// What the limiter is asked, for each of them in turn.
    requests: SmallVec<[Request<'a>; USUAL]>,
    actions: SmallVec<[Action; USUAL]>,
    /// One for each ask, once they are settled.
    outcomes: SmallVec<[Outcome; USUAL]>,
}

struct NamedAsk {
    ask: Ask,
    /// How much of the limiter is asked for it.
    requests: usize,
    /// How many requests of other kinds came before it.
    behind: usize,
}

impl<'a> NamedAsks<'a> {
    /// Adds a request that came behind so many others of other kinds. Who it is not about, because the
    /// limit does not take such an id, has no quota.
    pub(super) fn push(&mut self, limit: &'a str, consumer: &'a [u8], ask: Ask, behind: usize) {
        let id = match consumer {
            [] => Some(EVERYBODY),
            consumer => str::from_utf8(consumer).ok(),
        };
        let before = self.requests.len();
        if let Some(id) = id {
            let mut add = |action, cost| {
                self.requests.push(Request::new(limit, id, cost));
                self.actions.push(action);
            };
            match ask {
                Ask::Insert { usage, .. } => add(Action::CheckAndSpend, usage),
                Ask::Query => add(Action::CheckOnly, 0),
                // A quota can be purged if there is one: if something is missing of the bucket.
                Ask::Purge => {
                    add(Action::CheckOnly, 0);
                    add(Action::Reset, 0);
                }
                // What an operator set, a client does not change.
                Ask::AmendQuota(..) | Ask::AmendLifetime(..) | Ask::Touch => {}
            }
        }
        let requests = self.requests.len().saturating_sub(before);
        self.asks.push(NamedAsk { ask, requests, behind });
    }

    /// Has all of them answered.
    pub(super) async fn settle(&mut self, limiter: Wherever<'_>, now: Moment) {
        let mut batch = spare::take();
        let action = |place: usize| self.actions.get(place).copied().unwrap_or(Action::CheckOnly);
        let answers = limiter.batch_with(&mut batch, &self.requests, action, now).await;
        let mut decisions = answers.decisions();
        for NamedAsk { ask, requests, .. } in &self.asks {
            let own: SmallVec<[Option<Decision>; 2]> = decisions.by_ref().take(*requests).collect();
            self.outcomes.push(outcome(ask, &own));
        }
        drop(decisions);
        spare::put_back(batch);
    }

    /// What each was answered, in order, and behind how many others it came.
    pub(super) fn answers(&self) -> impl Iterator<Item = (usize, &Ask, &Outcome)> {
        let asks = self.asks.iter().zip(&self.outcomes);
        asks.map(|(named, outcome)| (named.behind, &named.ask, outcome))
    }
}

/// What the bucket looks like as a quota.
fn outcome(ask: &Ask, decisions: &[Option<Decision>]) -> Outcome {
    let unit = if let Ask::Insert { unit, .. } = ask { *unit } else { Unit::default() };
    let none = Outcome { unit, ..Outcome::default() };
    let (can, Decision { remaining, reset_in, .. }) = match decisions {
        [Some(decision)] => (decision.allowed, *decision),
        [Some(before), Some(after)] => (after.allowed && !before.reset_in.is_zero(), *after),
        _ => return none,
    };
    let ttl = reset_in.get().checked_div(nanos(unit)).unwrap_or_default();
    let ttl = u64::try_from(ttl).unwrap_or(u64::MAX);
    Outcome { can, remaining, unit, ttl }
}

const fn nanos(unit: Unit) -> u128 {
    match unit {
        Unit::Nanoseconds => 1,
        Unit::Milliseconds => 1_000_000,
        Unit::Seconds => 1_000_000_000,
    }
}
