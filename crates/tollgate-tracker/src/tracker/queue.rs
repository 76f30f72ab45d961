//! Waiting in line.
//!
//! Each bucket has a line, first come, first served. Buckets whose first may go, but for the
//! limits on everything, are ordered by how long that first has waited; so a budget that all share
//! is shared fairly, and no bucket is held up by another. Buckets that open at a known moment are
//! ordered by it. The rest stands aside until an answer comes.

use std::collections::BTreeSet;

use tollgate::Moment;

use super::Tracker;
use crate::arena::{Arena, Slot};
use crate::bucket::{Bucket, Shut, Stand};
use crate::headers::Unit;
use crate::profile::Route;
use crate::request::{Costs, Request};
use crate::verdict::{Limited, Permit, Reason, Ticket};

/// How many may wait for a bucket, where nothing else is set.
pub const QUEUE_DEFAULT: usize = 1_000;
/// How many may wait in all.
pub const WAITERS_MAX: usize = 100_000;

/// Who may be released: those who are exempt from the limit on all requests, or those who are not.
pub(crate) const ANYBODY: &[bool] = &[false, true];
#[cfg(feature = "tokio")]
pub(crate) const ONLY_EXEMPT: &[bool] = &[true];

#[derive(Clone, Debug)]
pub(super) struct Queues {
    waiters: Arena<Waiter>,
    /// Buckets whose first may go if the limits on everything allow: those that are counted, and
    /// those that are exempt.
    paced: BTreeSet<(u64, Slot)>,
    exempt: BTreeSet<(u64, Slot)>,
    timed: BTreeSet<(Moment, Slot)>,
    /// Buckets that wait for an answer.
    aside: BTreeSet<Slot>,
    next_number: u64,
    pub(super) max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    number: u64,
    route: Route,
    costs: Costs,
    bucket: Slot,
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Queues {
    pub(super) fn new() -> Self {
        Self {
            waiters: Arena::new(),
            paced: BTreeSet::new(),
            exempt: BTreeSet::new(),
            timed: BTreeSet::new(),
            aside: BTreeSet::new(),
            next_number: 0,
            max: QUEUE_DEFAULT,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The number of whoever comes next.
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Whether somebody of another bucket is waiting for the same limits on everything.
    pub(super) fn is_before(&self, route: &Route) -> bool {
        !if route.exempt { &self.exempt } else { &self.paced }.is_empty()
    }

    /// All buckets that somebody waits for, but for those whose first is known to be exempt.
    pub(super) fn lines(&self) -> impl Iterator<Item = Slot> {
        let ready = self.paced.iter().map(|&(_, slot)| slot);
        let timed = self.timed.iter().map(|&(_, slot)| slot);
        ready.chain(timed).chain(self.aside.iter().copied())
    }

    /// The number of a ticket that the limit on all requests counts.
    pub(super) fn counted(&self, slot: Slot) -> Option<(Slot, u64)> {
        let waiter = self.waiters.at(slot)?;
        (!waiter.route.exempt).then_some((slot, waiter.number))
    }

    /// The same of who is next in its line.
    pub(super) fn next_counted(&self, slot: Slot) -> Option<(Slot, u64)> {
        self.counted(self.waiters.at(slot)?.after?)
    }

    /// Where a ticket stands in line, and for what.
    pub(super) fn whose(&self, ticket: Ticket) -> Option<(Slot, Route, Costs)> {
        self.waiters.at(ticket.slot).map(|waiter| (waiter.bucket, waiter.route, waiter.costs))
    }

    fn ready(&mut self, exempt: bool) -> &mut BTreeSet<(u64, Slot)> {
        if exempt { &mut self.exempt } else { &mut self.paced }
    }

    /// Puts a waiter into the line of its bucket, behind all that came before it.
    fn link(&mut self, slot: Slot, bucket: &mut Bucket) {
        let Some(&waiter) = self.waiters.at(slot) else { return };
        let line = &mut **bucket.line.get_or_insert_default();
        let mut before = line.last;
        // Only one that moves here from another bucket, or comes back, is not the last.
        while let Some(other) = before.and_then(|before| self.waiters.at(before)) {
            if other.number < waiter.number {
                break;
            }
            before = other.before;
        }
        let after = match before.and_then(|before| self.waiters.at_mut(before)) {
            Some(other) => other.after.replace(slot),
            None => line.first.replace(slot),
        };
        match after.and_then(|after| self.waiters.at_mut(after)) {
            Some(other) => other.before = Some(slot),
            None => line.last = Some(slot),
        }
        if let Some(waiter) = self.waiters.at_mut(slot) {
            waiter.before = before;
            waiter.after = after;
        }
        line.waiting.add(&waiter.costs);
    }

    fn unlink(&mut self, slot: Slot, bucket: &mut Bucket) {
        let Some(&waiter) = self.waiters.at(slot) else { return };
        let Some(line) = &mut bucket.line else { return };
        match waiter.before.and_then(|before| self.waiters.at_mut(before)) {
            Some(other) => other.after = waiter.after,
            None => line.first = waiter.after,
        }
        match waiter.after.and_then(|after| self.waiters.at_mut(after)) {
            Some(other) => other.before = waiter.before,
            None => line.last = waiter.before,
        }
        line.waiting.remove(&waiter.costs);
    }
}

impl Tracker {
    /// Lets at most `max` wait for each bucket.
    #[must_use]
    pub fn with_queue(mut self, max: usize) -> Self {
        self.queues.max = max.min(WAITERS_MAX);
        self
    }

    /// Waits in line until [`release`](Self::release) says it is this ticket's turn, which may be
    /// at once. Refused if too many wait already, or if it would be later than `deadline`; then it
    /// says when it would be.
    pub fn join(
        &mut self,
        request: &Request<'_>,
        deadline: Moment,
        now: Moment,
    ) -> Result<Ticket, Limited> {
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let Some(slot) = self.bucket_of(&mut route, request, now) else {
            return Err(self.full(now));
        };
        let Some(bucket) = self.buckets.at(slot) else { return Err(self.full(now)) };
        let is_full = bucket.waiting(Unit::Requests) >= self.queues.max as u64;
        if is_full || self.queues.len() >= WAITERS_MAX {
            return Err(self.behind(slot, &route, &request.costs, Reason::QueueFull));
        }
        let in_bucket = self.turn_in_bucket(slot, &route, &request.costs);
        if deadline < Moment::MAX && self.turn(slot, &route, &request.costs) > deadline {
            return Err(self.behind(slot, &route, &request.costs, Reason::Deadline));
        }
        let is_foreseen = self.forecast.is_true();
        let number = self.queues.number();
        let ticket = self.stand(number, route, request.costs, slot, now);
        if is_foreseen && ticket.is_some() {
            self.foresee_one_more(&route, in_bucket);
        }
        ticket.ok_or_else(|| self.full(now))
    }

    /// Puts a request into the line of its bucket, behind all with a lower number.
    pub(super) fn stand(
        &mut self,
        number: u64,
        route: Route,
        costs: Costs,
        bucket: Slot,
        now: Moment,
    ) -> Option<Ticket> {
        let waiter = Waiter { number, route, costs, bucket, before: None, after: None };
        let line = self.buckets.at_mut(bucket)?;
        let slot = self.queues.waiters.insert(waiter)?;
        self.queues.link(slot, line);
        self.restand(Some(bucket), now);
        Some(Ticket { number, slot })
    }

    /// Whose turn it is now, if anybody's. Call it until it says nobody; it hands out one permit
    /// at a time.
    pub fn release(&mut self, now: Moment) -> Option<(Ticket, Permit)> {
        self.release_of(ANYBODY, now)
    }

    /// When [`release`](Self::release) may find somebody, if nothing else happens before. In the
    /// past or now if it would find somebody already; nothing if nobody waits, or only an answer
    /// can let anybody go.
    pub fn next_wake(&mut self) -> Option<Moment> {
        self.next_wake_of(ANYBODY)
    }

    /// Leaves the line. False if the ticket's turn had come already, or it had left before.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let now = self.now;
        self.remove(ticket.slot, now)
    }

    /// Releases one of those who are exempt from the limit on all requests, or are not.
    pub(crate) fn release_of(&mut self, whom: &[bool], now: Moment) -> Option<(Ticket, Permit)> {
        let now = self.at(now);
        while let Some(&(at, slot)) = self.queues.timed.first() {
            if at > now {
                break;
            }
            self.restand(Some(slot), now);
        }
        loop {
            let (number, slot) = self.oldest_ready(whom, now)?;
            let bucket = self.buckets.at_mut(slot)?;
            let first = bucket.first()?;
            let waiter = *self.queues.waiters.at(first)?;
            if !bucket.is_open(&waiter.costs, now, self.credit.given()) {
                // What was known of round trips has changed since.
                self.restand(Some(slot), now);
                continue;
            }
            let permit = self.grant(waiter.route, Some(slot), waiter.costs, now)?;
            self.remove(first, now);
            return Some((Ticket { number, slot: first }, permit));
        }
    }

    /// When that may find somebody.
    pub(crate) fn next_wake_of(&mut self, whom: &[bool]) -> Option<Moment> {
        let mut wake = self.queues.timed.first().map(|&(at, _)| at);
        for &exempt in whom {
            if self.queues.ready(exempt).is_empty() {
                continue;
            }
            let opens = match self.open_to_all(exempt, self.now) {
                Ok(()) => Some(self.now),
                Err(shut) => shut.until,
            };
            wake = wake.into_iter().chain(opens).min();
        }
        wake
    }

    /// Finds anew where a bucket stands after something about it has changed.
    #[inline]
    pub(super) fn restand(&mut self, slot: Option<Slot>, now: Moment) {
        self.forecast.forget();
        let Some(slot) = slot else { return };
        let Some(bucket) = self.buckets.at_mut(slot) else { return };
        // Mostly nobody waits.
        if bucket.line.is_some() {
            self.restand_line(slot, now);
        }
    }

    fn restand_line(&mut self, slot: Slot, now: Moment) {
        let Some(bucket) = self.buckets.at_mut(slot) else { return };
        let Some(line) = &mut bucket.line else { return };
        match std::mem::take(&mut line.stand) {
            Stand::Empty => {}
            Stand::Aside => {
                self.queues.aside.remove(&slot);
            }
            Stand::Timed(at) => {
                self.queues.timed.remove(&(at, slot));
            }
            Stand::Ready { number, exempt } => {
                self.queues.ready(exempt).remove(&(number, slot));
            }
        }
        let Some(first) = line.first.and_then(|first| self.queues.waiters.at(first)).copied()
        else {
            bucket.line = None;
            return;
        };
        let stand = match bucket.open(&first.costs, now, self.credit.given()) {
            Ok(()) => {
                let (number, exempt) = (first.number, first.route.exempt);
                self.queues.ready(exempt).insert((number, slot));
                Stand::Ready { number, exempt }
            }
            Err(Shut { until: Some(at), .. }) => {
                self.queues.timed.insert((at, slot));
                Stand::Timed(at)
            }
            Err(_) => {
                self.queues.aside.insert(slot);
                Stand::Aside
            }
        };
        if let Some(line) = &mut bucket.line {
            line.stand = stand;
        }
    }

    /// Moves those of some routes from one line into another, each to where it belongs by age.
    pub(super) fn move_waiters(
        &mut self,
        from: Slot,
        to: Slot,
        moves: impl Fn(u64) -> bool,
        now: Moment,
    ) {
        let mut next = self.buckets.at(from).and_then(Bucket::first);
        while let Some((slot, waiter)) = next.and_then(|s| Some((s, *self.queues.waiters.at(s)?))) {
            next = waiter.after;
            if !moves(waiter.route.key) {
                continue;
            }
            if let Some(bucket) = self.buckets.at_mut(from) {
                self.queues.unlink(slot, bucket);
            }
            if let Some(waiter) = self.queues.waiters.at_mut(slot) {
                waiter.bucket = to;
            }
            if let Some(bucket) = self.buckets.at_mut(to) {
                self.queues.link(slot, bucket);
            }
        }
        self.restand(Some(from), now);
        self.restand(Some(to), now);
    }

    /// The bucket whose first has waited longest of all that may go.
    fn oldest_ready(&mut self, whom: &[bool], now: Moment) -> Option<(u64, Slot)> {
        let mut oldest = None;
        for &exempt in whom {
            let Some(&first) = self.queues.ready(exempt).first() else { continue };
            if self.is_open_to_all(exempt, now) {
                oldest = oldest.into_iter().chain([first]).min();
            }
        }
        oldest
    }

    pub(super) fn remove(&mut self, slot: Slot, now: Moment) -> bool {
        let Some(waiter) = self.queues.waiters.at(slot).copied() else { return false };
        if let Some(bucket) = self.buckets.at_mut(waiter.bucket) {
            self.queues.unlink(slot, bucket);
        }
        self.queues.waiters.remove(slot);
        self.restand(Some(waiter.bucket), now);
        true
    }
}
