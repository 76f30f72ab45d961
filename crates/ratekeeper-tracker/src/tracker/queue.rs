//! Waiting in line.
//!
//! Each bucket has a line for each class of requests, first come, first served. Lines whose first may
//! go, but for the limits on everything, are ordered by how long that first has waited; so a limit that
//! all share is shared fairly, and no bucket is held up by another. A waiter blocks later waiters that
//! need the same limit, unless the capacity they take is back before its own turn. Buckets that open
//! at a known moment are ordered by it. The rest stands aside until an answer comes.

use std::collections::BTreeSet;

use ratekeeper_time::Moment;
use smallvec::SmallVec;

use super::Account;
use crate::arena::{Arena, Slot};
use crate::bucket::{Bucket, Shut};
use crate::headers::Unit;
use crate::lines::{Line, Stand};
use crate::paces::Class;
use crate::profile::Route;
use crate::request::{Costs, Hold, Request};
use crate::verdict::{Limited, Reason, Reservation, WaiterId};

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
    /// Buckets with a line of a class whose first may go if the limits on everything allow, by the
    /// number of that first.
    ready: Vec<(Class, BTreeSet<(u64, Slot)>)>,
    timed: BTreeSet<(Moment, Slot)>,
    /// Buckets that somebody waits for.
    lines: BTreeSet<Slot>,
    pub(super) max: usize,
}

/// The number of the first of a line, its bucket, and its class.
type Oldest = SmallVec<[(u64, Slot, Class); 4]>;

/// A waiter that may go at once, and what is reserved for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) number: u64,
    waiter: Slot,
    hold: Hold,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    number: u64,
    route: Route,
    /// What was said that it costs.
    costs: Costs,
    /// What is counted for it in its line.
    hold: Hold,
    bucket: Slot,
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Queues {
    pub(super) fn new() -> Self {
        Self {
            waiters: Arena::new(),
            ready: Vec::new(),
            timed: BTreeSet::new(),
            lines: BTreeSet::new(),
            max: QUEUE_DEFAULT,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// All buckets that somebody waits for.
    pub(super) fn lines(&self) -> impl Iterator<Item = Slot> {
        self.lines.iter().copied()
    }

    /// The number of a waiter, and what it counts for in a limit on everything.
    pub(super) fn counted(&self, slot: Slot, limit: usize) -> Option<(u64, u16)> {
        let waiter = self.waiters.at(slot)?;
        Some((waiter.number, waiter.route.costs.at(limit)))
    }

    /// Who is next in its line.
    pub(super) fn next(&self, slot: Slot) -> Option<Slot> {
        self.waiters.at(slot)?.after
    }

    /// Where a waiter stands in line, and for what.
    pub(super) fn whose(&self, waiter_id: WaiterId) -> Option<(Slot, Route, Costs)> {
        self.waiters.at(waiter_id.slot).map(|waiter| (waiter.bucket, waiter.route, waiter.costs))
    }

    fn ready(&mut self, class: Class) -> &mut BTreeSet<(u64, Slot)> {
        let known = self.ready.iter().position(|(other, _)| *other == class);
        let place = known.unwrap_or_else(|| {
            self.ready.push((class, BTreeSet::new()));
            self.ready.len() - 1
        });
        &mut self.ready[place].1
    }

    /// Of each class the line whose first has waited longest of those that their buckets let go; the
    /// oldest first.
    fn oldest(&self, whom: &[bool]) -> Oldest {
        let ready = self.ready.iter().filter(|(class, _)| whom.contains(&class.exempt));
        let first = |(class, lines): &(Class, BTreeSet<(u64, Slot)>)| {
            lines.first().map(|&(number, slot)| (number, slot, *class))
        };
        let mut oldest: Oldest = ready.filter_map(first).collect();
        oldest.sort_unstable();
        oldest
    }

    /// Puts a waiter into the line of its bucket, behind all that came before it.
    fn link(&mut self, slot: Slot, bucket: &mut Bucket) {
        let Some(waiter) = self.waiters.at_mut(slot) else { return };
        waiter.hold = bucket.hold(&waiter.costs, waiter.route.key);
        let waiter = *waiter;
        self.lines.insert(waiter.bucket);
        let line = bucket.lines.get_or_insert_default().add(waiter.route.class());
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
        line.waiting.add(&waiter.hold);
    }

    fn unlink(&mut self, slot: Slot, bucket: &mut Bucket) {
        let Some(&waiter) = self.waiters.at(slot) else { return };
        let lines = bucket.lines.as_mut();
        let Some(line) = lines.and_then(|lines| lines.of_mut(waiter.route.class())) else { return };
        match waiter.before.and_then(|before| self.waiters.at_mut(before)) {
            Some(other) => other.after = waiter.after,
            None => line.first = waiter.after,
        }
        match waiter.after.and_then(|after| self.waiters.at_mut(after)) {
            Some(other) => other.before = waiter.before,
            None => line.last = waiter.before,
        }
        line.waiting.remove(&waiter.hold);
    }
}

impl Account {
    /// Waits in line under a number that nobody had before. Refused if too many wait already, or if it would be later than `deadline`; then it
    /// says when it would be.
    pub(super) fn join(
        &mut self,
        request: &Request<'_>,
        number: u64,
        deadline: Moment,
        now: Moment,
    ) -> Result<WaiterId, Limited> {
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
        let is_foreseen = self.forecasts.are_true();
        let waiter_id = self.stand(number, route, request.costs, slot, now);
        if is_foreseen && waiter_id.is_some() {
            self.foresee_one_more(&route, in_bucket);
        }
        waiter_id.ok_or_else(|| self.full(now))
    }

    /// Puts a request into the line of its bucket, behind all with a lower number.
    pub(super) fn stand(
        &mut self,
        number: u64,
        route: Route,
        costs: Costs,
        bucket: Slot,
        now: Moment,
    ) -> Option<WaiterId> {
        let hold = Hold::new(costs);
        let waiter = Waiter { number, route, costs, hold, bucket, before: None, after: None };
        let line = self.buckets.at_mut(bucket)?;
        let slot = self.queues.waiters.insert(waiter)?;
        self.queues.link(slot, line);
        self.restand(Some(bucket), now);
        Some(WaiterId { number, account: self.me, slot })
    }

    /// Leaves the line. False if the waiter's turn had come already, or it had left before.
    pub(super) fn leave(&mut self, waiter_id: WaiterId) -> bool {
        let now = self.now;
        self.remove(waiter_id.slot, now)
    }

    /// Who may go next, of those who are exempt from the limit on all requests, or are not.
    pub(super) fn ready(&mut self, whom: &[bool], now: Moment) -> Option<Ready> {
        if self.queues.len() == 0 {
            return None;
        }
        let now = self.at(now);
        while let Some(&(at, slot)) = self.queues.timed.first() {
            if at > now {
                break;
            }
            self.restand(Some(slot), now);
        }
        loop {
            let (number, slot, class) = self.oldest_ready(whom, now)?;
            let bucket = self.buckets.at_mut(slot)?;
            let first = bucket.lines.as_ref()?.of(class)?.first?;
            let waiter = *self.queues.waiters.at(first)?;
            let hold = bucket.hold(&waiter.costs, waiter.route.key);
            if !bucket.is_open(&hold, now, self.credit.given()) {
                // What was known of round trips has changed since.
                self.restand(Some(slot), now);
                continue;
            }
            return Some(Ready { number, waiter: first, hold });
        }
    }

    /// Releases a waiter that is ready.
    pub(super) fn release(&mut self, ready: &Ready) -> Option<(WaiterId, Reservation)> {
        let (now, &Ready { number, waiter: slot, hold }) = (self.now, ready);
        let waiter = *self.queues.waiters.at(slot)?;
        let reservation = self.grant(waiter.route, Some(waiter.bucket), hold, now)?;
        self.remove(slot, now);
        Some((WaiterId { number, account: self.me, slot }, reservation))
    }

    /// When that may find somebody.
    pub(crate) fn next_wake_of(&mut self, whom: &[bool]) -> Option<Moment> {
        let now = self.now;
        let mut wake = self.queues.timed.first().map(|&(at, _)| at);
        let mut claimed = 0;
        for (_, slot, class) in self.queues.oldest(whom) {
            let Some(route) = self.first_of(slot, class) else { continue };
            let is_claimed = self.claim(&route, &mut claimed, now);
            let opens = match self.open_to_all(&route, now) {
                // Who is before it says when.
                Ok(()) if is_claimed => continue,
                Ok(()) => Some(now),
                Err(shut) => shut.until,
            };
            wake = wake.into_iter().chain(opens).min();
        }
        wake
    }

    /// Whether a request that comes now has to wait behind others: of its bucket, or for a limit
    /// that one waits for whose bucket would let it go.
    #[cold]
    pub(super) fn is_behind(&mut self, slot: Slot, route: &Route, now: Moment) -> bool {
        let class = route.class();
        if let Some(lines) = self.buckets.at(slot).and_then(|bucket| bucket.lines.as_ref())
            && (lines.stand != Stand::Open || lines.of(class).is_some())
        {
            return true;
        }
        let mut claimed = 0;
        for (_, slot, other) in self.queues.oldest(&[route.exempt]) {
            let Some(first) = self.first_of(slot, other) else { continue };
            if !self.claim(&first, &mut claimed, now) && self.is_free(&first, now) {
                // Its turn has come.
                return true;
            }
        }
        claimed & class.limits != 0
    }

    /// The route of the first of a line.
    fn first_of(&self, slot: Slot, class: Class) -> Option<Route> {
        let first = self.buckets.at(slot)?.lines.as_ref()?.of(class)?.first?;
        self.queues.waiters.at(first).map(|waiter| waiter.route)
    }

    /// Whether somebody before waits for a limit that counts a request; and adds those that it waits
    /// for itself.
    fn claim(&mut self, route: &Route, claimed: &mut u8, now: Moment) -> bool {
        let is_claimed = *claimed & route.class().limits != 0;
        *claimed |= self.places.claims(&route.costs, now, self.credit.trip());
        is_claimed
    }

    fn is_free(&mut self, route: &Route, now: Moment) -> bool {
        self.places.is_free(&route.costs, now, self.credit.given())
    }

    /// Finds anew where a bucket stands after something about it has changed.
    #[inline]
    pub(super) fn restand(&mut self, slot: Option<Slot>, now: Moment) {
        self.forecasts.forget();
        let Some(slot) = slot else { return };
        let Some(bucket) = self.buckets.at_mut(slot) else { return };
        // Mostly nobody waits.
        if bucket.lines.is_some() {
            self.restand_lines(slot, now);
        }
    }

    fn restand_lines(&mut self, slot: Slot, now: Moment) {
        let Some(bucket) = self.buckets.at_mut(slot) else { return };
        let Some(mut lines) = bucket.lines.take() else { return };
        if let Stand::Timed(at) = std::mem::take(&mut lines.stand) {
            self.queues.timed.remove(&(at, slot));
        }
        for line in &mut lines.all {
            if let Some(number) = line.ready.take() {
                self.queues.ready(line.class).remove(&(number, slot));
            }
        }
        lines.all.retain(|line| line.first.is_some());
        if lines.all.is_empty() {
            self.queues.lines.remove(&slot);
            return;
        }
        let waiters = &self.queues.waiters;
        let first = |line: &Line| line.first.and_then(|first| waiters.at(first)).copied();
        lines.all.sort_unstable_by_key(|line| first(line).map(|first| first.number));
        for line in &mut lines.all {
            let Some(first) = line.first.and_then(|first| self.queues.waiters.at(first)) else {
                continue;
            };
            let (number, hold) = (first.number, bucket.hold(&first.costs, first.route.key));
            // Nobody goes before one who waits for the same bucket for longer.
            match bucket.open(&hold, now, self.credit.given()) {
                Ok(()) => {
                    line.ready = Some(number);
                    self.queues.ready(line.class).insert((number, slot));
                    continue;
                }
                Err(Shut { until: Some(at), .. } | Shut { late_at: Some(at), .. }) => {
                    self.queues.timed.insert((at, slot));
                    lines.stand = Stand::Timed(at);
                }
                Err(_) => lines.stand = Stand::Aside,
            }
            break;
        }
        bucket.lines = Some(lines);
    }

    /// Moves those of some routes from one line into another, each to where it belongs by age.
    pub(super) fn move_waiters(
        &mut self,
        from: Slot,
        to: Slot,
        moves: impl Fn(u64) -> bool,
        now: Moment,
    ) {
        let lines = self.buckets.at(from).and_then(|bucket| bucket.lines.as_ref());
        let firsts = lines.into_iter().flat_map(|lines| &lines.all).filter_map(|line| line.first);
        for first in firsts.collect::<Vec<_>>() {
            let mut next = Some(first);
            while let Some((slot, waiter)) =
                next.and_then(|slot| Some((slot, *self.queues.waiters.at(slot)?)))
            {
                next = waiter.after;
                if moves(waiter.route.key) {
                    self.move_waiter(slot, from, to);
                }
            }
        }
        self.restand(Some(from), now);
        self.restand(Some(to), now);
    }

    fn move_waiter(&mut self, slot: Slot, from: Slot, to: Slot) {
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

    /// The line whose first has waited longest of all that may go.
    fn oldest_ready(&mut self, whom: &[bool], now: Moment) -> Option<(u64, Slot, Class)> {
        let mut claimed = 0;
        for (number, slot, class) in self.queues.oldest(whom) {
            let Some(route) = self.first_of(slot, class) else { continue };
            let is_claimed = self.claim(&route, &mut claimed, now);
            if !is_claimed && self.is_open_to_all(&route, now) {
                return Some((number, slot, class));
            }
        }
        None
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
