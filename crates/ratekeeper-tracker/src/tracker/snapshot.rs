//! All budgets at one moment, for people.

use std::sync::Arc;

use ratekeeper_time::{Moment, Nanos};

use super::Account;
use crate::bucket::Bucket;
use crate::budget::Budget;
use crate::headers::{Scope, Unit};
use crate::paces::NamedPlaces;
use crate::refused_limit::RefusedLimit;

/// All that a tracker knows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// For each origin first the limits on everything, then each budget of each bucket, in no order.
    pub states: Vec<State>,
    /// How many requests are in flight.
    pub in_flight: usize,
    /// How many wait in all.
    pub waiting: usize,
}

/// How one budget stands. Of a bucket of which nothing is known there is one without numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Whose limit it is.
    pub scope: Scope,
    /// The origin whose limit it is; empty if requests name none.
    pub origin: Arc<str>,
    /// The bucket, as people know it.
    pub bucket: Arc<str>,
    /// The name of the policy; mostly empty.
    pub policy: Arc<str>,
    /// What is counted.
    pub unit: Unit,
    /// How much there is when it is full.
    pub limit: Option<u64>,
    /// How much is left at the server; requests in flight may hold some of it.
    pub remaining: Option<u64>,
    /// How much requests in flight hold.
    pub in_flight: u64,
    /// How many wait for the bucket.
    pub waiting: u64,
    /// When it is full again, or has more where only that is said; if it is known. Where the limit
    /// is learnt from refusals, when the next request may go.
    pub reset_in: Option<Nanos>,
    /// For how long the server refuses everything.
    pub refused_for: Option<Nanos>,
}

impl Account {
    /// How all budgets stand at `now`.
    pub(super) fn snapshot(&self, now: Moment) -> Snapshot {
        let now = now.max(self.now);
        let everything = self.everything(now);
        let buckets = self.buckets.iter().flat_map(|bucket| self.of_bucket(bucket, now));
        Snapshot {
            states: everything.into_iter().chain(buckets).collect(),
            in_flight: self.reservations.len(),
            waiting: self.queues.len(),
        }
    }

    /// The limits on everything, if there are any now.
    fn everything(&self, now: Moment) -> Vec<State> {
        let all = [&self.refused_of_all, &self.refused_of_paced];
        let refused_for = all.into_iter().filter_map(|it| refused_for(it, now)).max();
        let paced_until = all.into_iter().filter_map(|it| it.paced_until(now)).max();
        let none = State {
            scope: Scope::Global,
            origin: Arc::clone(&self.origin),
            bucket: Arc::clone(&self.name),
            policy: Arc::clone(&self.nameless),
            unit: Unit::Requests,
            limit: None,
            remaining: None,
            in_flight: 0,
            waiting: self.queues.len() as u64,
            reset_in: paced_until.map(|at| at.since(now)),
            refused_for,
        };
        if self.places.all().is_empty() {
            let is_shut = refused_for.is_some() || paced_until.is_some();
            return is_shut.then_some(none).into_iter().collect();
        }
        let credit = self.credit.given();
        let of = |NamedPlaces { name, unit, places }: &NamedPlaces| {
            let reset = places.opens_at(1, credit).max(paced_until).filter(|&at| at > now);
            State {
                policy: Arc::clone(name),
                unit: *unit,
                limit: Some(places.pace().count.into()),
                remaining: Some(places.left(now, credit) as u64),
                in_flight: places.in_flight() as u64,
                reset_in: reset.map(|at| at.since(now)),
                ..none.clone()
            }
        };
        self.places.all().iter().map(of).collect()
    }

    fn of_bucket(&self, bucket: &Bucket, now: Moment) -> Vec<State> {
        let paced_until = bucket.refused.paced_until(now);
        let none = State {
            scope: bucket.refused.block().map_or(Scope::User, |block| block.scope),
            origin: Arc::clone(&self.origin),
            bucket: Arc::clone(&bucket.name),
            policy: Arc::clone(&self.nameless),
            unit: Unit::Requests,
            limit: None,
            remaining: None,
            in_flight: bucket.in_flight.requests,
            waiting: bucket.waiting(Unit::Requests),
            reset_in: paced_until.map(|at| at.since(now)),
            refused_for: refused_for(&bucket.refused, now),
        };
        if bucket.budgets.is_empty() {
            return vec![none];
        }
        let of = |budget: &Budget| State {
            policy: Arc::clone(&budget.name),
            unit: budget.unit,
            limit: budget.limit,
            remaining: budget.left(now, self.credit.given()),
            in_flight: bucket.in_flight.of(budget.unit),
            reset_in: budget
                .reset_at()
                .max(paced_until)
                .filter(|&at| at > now)
                .map(|at| at.since(now)),
            ..none.clone()
        };
        bucket.budgets.iter().map(of).collect()
    }
}

fn refused_for(refused: &RefusedLimit, now: Moment) -> Option<Nanos> {
    let block = refused.block().filter(|block| block.until > now);
    block.map(|block| block.until.since(now))
}
