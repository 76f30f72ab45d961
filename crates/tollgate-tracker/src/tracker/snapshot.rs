//! All budgets at one moment, for people.

use std::sync::Arc;

use tollgate::{Moment, Nanos};

use super::Tracker;
use crate::bucket::{Block, Bucket};
use crate::budget::Budget;
use crate::headers::{Scope, Unit};

/// All that a tracker knows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// First the limits on everything, then each budget of each bucket, in no order.
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
    /// When it is full again, or has more where only that is said; if it is known.
    pub reset_in: Option<Nanos>,
    /// For how long the server refuses everything.
    pub refused_for: Option<Nanos>,
}

impl Tracker {
    /// How all budgets stand at `now`.
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        let now = now.max(self.now);
        let everything = self.everything(now);
        let buckets = self.buckets.iter().flat_map(|bucket| self.of_bucket(bucket, now));
        Snapshot {
            states: everything.into_iter().chain(buckets).collect(),
            in_flight: self.permits.len(),
            waiting: self.queues.len(),
        }
    }

    /// The limits on everything, if there are any now.
    fn everything(&self, now: Moment) -> Option<State> {
        let block = [self.block_all, self.block_paced].into_iter().flatten();
        let refused_for = refused_for(block.max_by_key(|block| block.until), now);
        if self.places.is_none() && refused_for.is_none() {
            return None;
        }
        let credit = self.credit.given();
        let places = self.places.as_ref();
        let reset = places.and_then(|places| places.opens_at(credit));
        Some(State {
            scope: Scope::Global,
            bucket: Arc::clone(&self.name),
            policy: Arc::clone(&self.nameless),
            unit: Unit::Requests,
            limit: places.map(|places| places.pace().count.into()),
            remaining: places.map(|places| places.left(now, credit) as u64),
            in_flight: places.map_or(0, |places| places.in_flight() as u64),
            waiting: self.queues.len() as u64,
            reset_in: reset.filter(|&at| at > now).map(|at| at.since(now)),
            refused_for,
        })
    }

    fn of_bucket(&self, bucket: &Bucket, now: Moment) -> Vec<State> {
        let none = State {
            scope: bucket.block.map_or(Scope::User, |block| block.scope),
            bucket: Arc::clone(&bucket.name),
            policy: Arc::clone(&self.nameless),
            unit: Unit::Requests,
            limit: None,
            remaining: None,
            in_flight: bucket.in_flight.requests,
            waiting: bucket.waiting(Unit::Requests),
            reset_in: None,
            refused_for: refused_for(bucket.block, now),
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
            reset_in: budget.reset_at().filter(|&at| at > now).map(|at| at.since(now)),
            ..none.clone()
        };
        bucket.budgets.iter().map(of).collect()
    }
}

fn refused_for(block: Option<Block>, now: Moment) -> Option<Nanos> {
    block.filter(|block| block.until > now).map(|block| block.until.since(now))
}
