//! What is behind the lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use tollgate::{Moment, Nanos};

use super::waiting::{Told, Waiter};
use super::{Core, End, Refused, Strategy};
#[cfg(feature = "sharing")]
use crate::share::Turnstile;
use crate::tracker::{ANYBODY, ONLY_EXEMPT};
use crate::{Limited, Permit, Request, Snapshot, Ticket, Tracker, Verdict};

/// How many are told in one round, before others have the lock.
const ROUND_MAX: usize = 256;
/// Timers are no finer than this, so nothing is looked at more often.
const GRAIN: Nanos = Nanos::new(1_000_000);

pub(crate) struct State {
    pub(crate) tracker: Tracker,
    /// By the numbers of their tickets. Who comes back into a line keeps its number, but has
    /// another ticket.
    waiting: HashMap<u64, (Ticket, Waiter)>,
    /// When whoever waits has waited too long.
    expiries: BTreeSet<(Moment, u64)>,
    /// What the gate's task has to tell.
    pub(super) outbox: Vec<Told>,
    is_closed: bool,
    #[cfg(feature = "sharing")]
    pub(crate) turnstile: Option<Turnstile>,
}

/// Where a request stands.
pub(crate) enum Stood<E> {
    /// It may be sent; nobody needs to be told.
    Clear(Option<Permit>, E),
    /// It waits under this number, for this reason, in the line of a bucket or for what processes
    /// share.
    Waits(u64, Limited),
}

/// Who is to be told what, and when to look again.
pub(super) struct Round {
    pub(super) told: Vec<Told>,
    pub(super) wake: Option<Moment>,
    pub(super) is_unfinished: bool,
}

impl State {
    pub(crate) fn new(tracker: Tracker) -> Self {
        Self {
            tracker,
            waiting: HashMap::new(),
            expiries: BTreeSet::new(),
            outbox: Vec::new(),
            is_closed: false,
            #[cfg(feature = "sharing")]
            turnstile: None,
        }
    }

    pub(super) fn stand<E: FnOnce() -> End>(
        &mut self,
        request: &Request<'_>,
        strategy: Strategy,
        end: E,
        now: Moment,
    ) -> Result<Stood<E>, Refused> {
        if self.is_closed {
            return Err(Refused::Closed);
        }
        let (queue, deadline) = match strategy {
            Strategy::SendAnyway => {
                let permit = self.tracker.send_anyway(request, now);
                #[cfg(feature = "sharing")]
                self.owe(request, permit.as_ref(), now);
                return Ok(Stood::Clear(permit, end));
            }
            Strategy::Error => (0, now),
            Strategy::Wait { queue, deadline } => (queue, now.after(deadline.into())),
        };
        let limited = match self.tracker.limited(request, now) {
            Verdict::Limited(limited) => limited,
            #[cfg(feature = "sharing")]
            Verdict::Clear(permit) if self.is_shared(&permit) => {
                if self.has_room() {
                    return Ok(self.line_up(permit, deadline, end, now));
                }
                self.turn_away(permit, now)
            }
            Verdict::Clear(permit) => return Ok(Stood::Clear(Some(permit), end)),
        };
        if strategy == Strategy::Error {
            return Err(limited.into());
        }
        self.tracker.set_queue(queue);
        let ticket = self.tracker.join(request, deadline, now)?;
        self.await_turn(ticket, Waiter { since: now, deadline, end: end() });
        Ok(Stood::Waits(ticket.number, limited))
    }

    pub(super) fn snapshot(&self, now: Moment) -> Snapshot {
        let snapshot = self.tracker.snapshot(now);
        #[cfg(feature = "sharing")]
        let snapshot = self.with_share(snapshot, now);
        snapshot
    }

    /// Puts somebody on the list of those who wait.
    pub(crate) fn await_turn(&mut self, ticket: Ticket, waiter: Waiter) {
        self.expiries.insert((waiter.deadline, ticket.number));
        self.waiting.insert(ticket.number, (ticket, waiter));
    }

    /// Takes somebody out of the line of a bucket, wherever that is by now.
    pub(super) fn leave(&mut self, number: u64) -> Option<Waiter> {
        let (ticket, waiter) = self.forget(number)?;
        self.tracker.leave(ticket);
        Some(waiter)
    }

    /// Takes somebody off the list of those who wait.
    fn forget(&mut self, number: u64) -> Option<(Ticket, Waiter)> {
        let (ticket, waiter) = self.waiting.remove(&number)?;
        self.expiries.remove(&(waiter.deadline, number));
        Some((ticket, waiter))
    }

    pub(super) fn round(&mut self, core: &Arc<Core>, now: Moment) -> Round {
        let mut told = std::mem::take(&mut self.outbox);
        let mut is_unfinished = true;
        while told.len() < ROUND_MAX {
            let Some((ticket, permit)) = self.tracker.release_of(self.who_may_go(), now) else {
                is_unfinished = false;
                break;
            };
            match self.forget(ticket.number) {
                Some((_, waiter)) => told.extend(self.grant(core, ticket, permit, waiter, now)),
                None => self.tracker.give_back(permit, now),
            }
        }
        self.expire(&mut told, now);
        Round { told, wake: self.wake(now), is_unfinished }
    }

    pub(super) fn close(&mut self) -> impl Sized + use<> {
        self.is_closed = true;
        let waiting = std::mem::take(&mut self.waiting);
        for (ticket, _) in waiting.values() {
            self.tracker.leave(*ticket);
        }
        self.expiries.clear();
        #[cfg(feature = "sharing")]
        let line = self.empty_line();
        #[cfg(not(feature = "sharing"))]
        let line = ();
        (waiting, std::mem::take(&mut self.outbox), line)
    }

    #[cfg_attr(
        not(feature = "sharing"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "some wait for a token")
    )]
    fn grant(
        &mut self,
        core: &Arc<Core>,
        ticket: Ticket,
        permit: Permit,
        waiter: Waiter,
        now: Moment,
    ) -> Option<Told> {
        #[cfg(feature = "sharing")]
        if self.is_shared(&permit) {
            self.add_to_line(ticket.number, permit, waiter);
            return None;
        }
        #[cfg(not(feature = "sharing"))]
        let _ = ticket;
        let answer = Ok(core.pass(Some(permit), now.since(waiter.since)));
        Some(Told { end: waiter.end, answer })
    }

    fn expire(&mut self, told: &mut Vec<Told>, now: Moment) {
        while let Some(&(deadline, number)) = self.expiries.first() {
            if deadline > now {
                break;
            }
            self.expiries.pop_first();
            if let Some((ticket, waiter)) = self.waiting.remove(&number)
                && let Some(limited) = self.tracker.expire(ticket, now)
            {
                told.push(Told { end: waiter.end, answer: Err(limited.into()) });
            }
        }
    }

    fn wake(&mut self, now: Moment) -> Option<Moment> {
        let expiry = self.expiries.first().map(|&(deadline, _)| deadline);
        let release = self.tracker.next_wake_of(self.who_may_go());
        let wake = expiry.into_iter().chain(release).min();
        wake.map(|wake| wake.max(now.after(GRAIN)))
    }

    /// Who needs no token goes also while there is no room in the line for one.
    fn who_may_go(&self) -> &'static [bool] {
        if self.has_room() { ANYBODY } else { ONLY_EXEMPT }
    }

    /// Whether somebody who is released has a place to go.
    #[cfg_attr(
        not(feature = "sharing"),
        expect(clippy::unused_self, reason = "there may be a line for a token")
    )]
    fn has_room(&self) -> bool {
        #[cfg(feature = "sharing")]
        if let Some(turnstile) = &self.turnstile {
            return turnstile.has_room();
        }
        true
    }
}
