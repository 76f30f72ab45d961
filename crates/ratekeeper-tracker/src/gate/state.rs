//! What is behind the lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use ratekeeper_time::{Moment, Nanos};

use super::waiting::{Told, Waiter};
use super::{Core, End, Refused, Strategy};
#[cfg(feature = "sharing")]
use crate::share::{SharedToken, TokenQueue};
use crate::tracker::{ANYBODY, ONLY_EXEMPT};
use crate::{Limited, Request, Reservation, Snapshot, Tracker, Verdict, WaiterId};

/// How many are told in one round, before others have the lock.
const ROUND_MAX: usize = 256;
/// Timers are no finer than this, so nothing is looked at more often.
const GRAIN: Nanos = Nanos::new(1_000_000);

pub(crate) struct State {
    pub(crate) tracker: Tracker,
    /// By number. A waiter that comes back into a line keeps its number, but has
    /// another slot.
    waiting: HashMap<u64, (WaiterId, Waiter)>,
    /// When whoever waits has waited too long.
    expiries: BTreeSet<(Moment, u64)>,
    /// What the gate's task has to tell.
    pub(super) outbox: Vec<Told>,
    is_closed: bool,
    #[cfg(feature = "sharing")]
    pub(crate) token_queue: Option<TokenQueue>,
}

/// Where a request stands.
pub(crate) enum Stood<E> {
    /// It may be sent; nobody needs to be told.
    Clear(Granted, E),
    /// It waits under this number, for this reason, in the line of a bucket or for what processes
    /// share.
    Waits(u64, Limited),
}

/// What a request holds that may be sent.
pub(crate) struct Granted {
    /// None where so many are in flight that no more are tracked.
    pub(super) reservation: Option<Reservation>,
    #[cfg(feature = "sharing")]
    pub(super) token: Option<SharedToken>,
}

impl From<Option<Reservation>> for Granted {
    fn from(reservation: Option<Reservation>) -> Self {
        Self {
            reservation,
            #[cfg(feature = "sharing")]
            token: None,
        }
    }
}

/// Who is to be told what, and when to look again.
pub(super) struct Round {
    pub(super) told: Vec<Told>,
    pub(super) wake: Option<Moment>,
    pub(super) is_unfinished: bool,
    /// Whether the gate is closed.
    pub(super) is_last: bool,
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
            token_queue: None,
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
                return Ok(Stood::Clear(self.send_anyway(request, now), end));
            }
            Strategy::Error => (0, now),
            Strategy::Wait { queue, deadline } => (queue, now.after(deadline.into())),
        };
        let limited = match self.tracker.reserve(request, now) {
            Verdict::Limited(limited) => limited,
            #[cfg(feature = "sharing")]
            Verdict::Clear(reservation) if self.is_shared(&reservation) => {
                if self.has_room() {
                    return Ok(self.line_up(reservation, deadline, end, now));
                }
                self.turn_away(reservation, now)
            }
            Verdict::Clear(reservation) => return Ok(Stood::Clear(Some(reservation).into(), end)),
        };
        if strategy == Strategy::Error {
            return Err(limited.into());
        }
        self.tracker.set_queue(queue);
        let waiter_id = self.tracker.join(request, deadline, now)?;
        self.await_turn(waiter_id, Waiter { since: now, deadline, end: end() });
        Ok(Stood::Waits(waiter_id.number, limited))
    }

    /// What a request holds that is sent whatever the limits are, or was sent at a moment.
    pub(super) fn send_anyway(&mut self, request: &Request<'_>, sent: Moment) -> Granted {
        let reservation = self.tracker.send_anyway(request, sent);
        Granted {
            #[cfg(feature = "sharing")]
            token: self.token_anyway(request, reservation.as_ref(), sent),
            reservation,
        }
    }

    pub(super) fn snapshot(&self, now: Moment) -> Snapshot {
        let snapshot = self.tracker.snapshot(now);
        #[cfg(feature = "sharing")]
        let snapshot = self.with_share(snapshot, now);
        snapshot
    }

    /// Puts somebody on the list of those who wait.
    pub(crate) fn await_turn(&mut self, waiter_id: WaiterId, waiter: Waiter) {
        self.expiries.insert((waiter.deadline, waiter_id.number));
        self.waiting.insert(waiter_id.number, (waiter_id, waiter));
    }

    /// Takes somebody out of the line of a bucket, wherever that is by now.
    pub(super) fn leave(&mut self, number: u64) -> Option<Waiter> {
        let (waiter_id, waiter) = self.forget(number)?;
        self.tracker.leave(waiter_id);
        Some(waiter)
    }

    /// Takes somebody off the list of those who wait.
    fn forget(&mut self, number: u64) -> Option<(WaiterId, Waiter)> {
        let (waiter_id, waiter) = self.waiting.remove(&number)?;
        self.expiries.remove(&(waiter.deadline, number));
        Some((waiter_id, waiter))
    }

    pub(super) fn round(&mut self, core: &Arc<Core>, now: Moment) -> Round {
        let mut told = std::mem::take(&mut self.outbox);
        let mut is_unfinished = true;
        while told.len() < ROUND_MAX {
            let Some((waiter_id, reservation)) = self.tracker.release_of(self.who_may_go(), now)
            else {
                is_unfinished = false;
                break;
            };
            match self.forget(waiter_id.number) {
                Some((_, waiter)) => {
                    told.extend(self.grant(core, waiter_id, reservation, waiter, now));
                }
                None => self.tracker.give_back(reservation, now),
            }
        }
        is_unfinished |= self.expire(&mut told, now);
        Round { told, wake: self.wake(now), is_unfinished, is_last: self.is_closed }
    }

    pub(super) fn close(&mut self) -> impl Sized + use<> {
        self.is_closed = true;
        let waiting = std::mem::take(&mut self.waiting);
        for (waiter_id, _) in waiting.values() {
            self.tracker.leave(*waiter_id);
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
        waiter_id: WaiterId,
        reservation: Reservation,
        waiter: Waiter,
        now: Moment,
    ) -> Option<Told> {
        #[cfg(feature = "sharing")]
        if self.is_shared(&reservation) {
            self.add_to_line(waiter_id.number, reservation, waiter);
            return None;
        }
        #[cfg(not(feature = "sharing"))]
        let _ = waiter_id;
        let answer = Ok(core.permit(Some(reservation), now.since(waiter.since)));
        Some(Told { end: waiter.end, answer })
    }

    /// Tells those who have waited too long. True if there are more of them than fit into a round.
    fn expire(&mut self, told: &mut Vec<Told>, now: Moment) -> bool {
        for _ in 0..ROUND_MAX {
            let Some(&(_, number)) = self.expiries.first().filter(|(until, _)| *until <= now)
            else {
                return false;
            };
            self.expiries.pop_first();
            if let Some((waiter_id, waiter)) = self.waiting.remove(&number)
                && let Some(limited) = self.tracker.expire(waiter_id, now)
            {
                told.push(Told { end: waiter.end, answer: Err(limited.into()) });
            }
        }
        true
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
        if let Some(token_queue) = &self.token_queue {
            return token_queue.has_room();
        }
        true
    }
}
