//! The line for what many processes share: whoever a bucket has let go stands here for a token.
//!
//! What is heard meanwhile counts for those in line too. Who may not go any more stands back into
//! the line of its bucket, where it was, and holds nothing until that lets it go again.

mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate::Moment;

use super::till::{Answer, Ask, Step, Till, Token};
use super::{DeskError, Share};
use crate::gate::{Core, End, State, Stood, Told, Waiter};
use crate::headers::{Scope, Unit};
use crate::{Limited, Permit, Profile, Reason, Request, Tracker};

/// How many stand in line. The others stay in the lines of their buckets: all of these are looked
/// at whenever there may be a token.
const LINE_MAX: usize = 64;

pub(crate) struct Turnstile {
    name: Arc<str>,
    /// How many requests the API allows in a window, if that is known.
    limit: Option<u32>,
    till: Till,
    line: VecDeque<Entry>,
}

/// By their numbers, those who came first go first, also if they had to come again.
struct Entry {
    number: u64,
    permit: Permit,
    waiter: Waiter,
}

/// Who is to be told what, and what to do then.
pub(crate) struct Served {
    pub(crate) told: Vec<Told>,
    pub(crate) step: Step,
    /// Whether the server is away, so that there may be tokens while it is asked.
    pub(crate) is_away: bool,
    /// Whether somebody left the line, so that another may join.
    has_moved: bool,
}

impl Turnstile {
    pub(crate) fn has_room(&self) -> bool {
        self.line.len() < LINE_MAX
    }

    fn join(&mut self, entry: Entry) {
        let place = self.line.partition_point(|other| other.number < entry.number);
        self.line.insert(place, entry);
    }

    /// Those who went away leave the line, and so do those who may not go any more. These are
    /// handed back, to wait in the lines of their buckets as before.
    fn clear(&mut self, tracker: &mut Tracker, now: Moment) -> Vec<Entry> {
        let mut shut = Vec::new();
        for entry in std::mem::take(&mut self.line) {
            if entry.waiter.end.is_gone() {
                tracker.give_back(entry.permit, now);
            } else if tracker.may_go(&entry.permit, now) {
                self.line.push_back(entry);
            } else {
                shut.push(entry);
            }
        }
        shut
    }

    /// Those whose turn cannot come in time are told so.
    fn refuse(&mut self, tracker: &mut Tracker, told: &mut Vec<Told>, now: Moment) {
        let opens_at = self.till.opens_at(now);
        if self.line.iter().all(|entry| entry.waiter.deadline >= opens_at) {
            return;
        }
        let in_time = |entry: &Entry| entry.waiter.deadline >= opens_at;
        let (stay, late): (VecDeque<_>, VecDeque<_>) = self.line.drain(..).partition(in_time);
        self.line = stay;
        for Entry { permit, waiter, .. } in late {
            tracker.give_back(permit, now);
            let answer = Err(limited(Some(self), Reason::Deadline, now).into());
            told.push(Told { end: waiter.end, answer });
        }
    }
}

impl State {
    /// Whether the request of a permit needs a token that processes share.
    pub(crate) fn is_shared(&self, permit: &Permit) -> bool {
        self.turnstile.is_some() && self.tracker.is_counted(permit)
    }

    /// Puts a request that no other limit stops in line for a token.
    pub(crate) fn line_up<E: FnOnce() -> End>(
        &mut self,
        permit: Permit,
        deadline: Moment,
        end: E,
        now: Moment,
    ) -> Stood<E> {
        let limited = limited(self.turnstile.as_ref(), Reason::Paced, now);
        let Some(turnstile) = &mut self.turnstile else { return Stood::Clear(Some(permit), end) };
        let waiter = Waiter { since: now, deadline, end: end() };
        let number = self.tracker.number();
        turnstile.join(Entry { number, permit, waiter });
        Stood::Waits(number, limited)
    }

    /// A request is sent anyway, and the next tokens pay for it. It has no permit where so many
    /// are in flight that no more are tracked.
    pub(crate) fn owe(&mut self, request: &Request<'_>, permit: Option<&Permit>, now: Moment) {
        let Some(turnstile) = &mut self.turnstile else { return };
        let is_counted = match permit {
            Some(permit) => self.tracker.is_counted(permit),
            None => self.tracker.counts(request, now),
        };
        if is_counted {
            turnstile.till.owe(now);
        }
    }

    /// Has a request wait in the line of its bucket, as there is no room here.
    pub(crate) fn turn_away(&mut self, permit: Permit, now: Moment) -> Limited {
        self.tracker.give_back(permit, now);
        limited(self.turnstile.as_ref(), Reason::Queued, now)
    }

    pub(crate) fn add_to_line(&mut self, number: u64, permit: Permit, waiter: Waiter) {
        if let Some(turnstile) = &mut self.turnstile {
            turnstile.join(Entry { number, permit, waiter });
        }
    }

    /// Takes all out of the line, to be told when the lock is free.
    pub(crate) fn empty_line(&mut self) -> Vec<Waiter> {
        let Some(turnstile) = &mut self.turnstile else { return Vec::new() };
        let line = std::mem::take(&mut turnstile.line);
        let mut waiters = Vec::new();
        for Entry { permit, waiter, .. } in line {
            // No time has passed that matters: nobody will use what is given back.
            self.tracker.give_back(permit, Moment::EPOCH);
            waiters.push(waiter);
        }
        waiters
    }

    fn serve(&mut self, core: &Arc<Core>, now: Moment) -> Served {
        let mut told = Vec::new();
        let Some(turnstile) = &mut self.turnstile else {
            return Served { told, step: Step::Idle(None), is_away: false, has_moved: false };
        };
        let before = turnstile.line.len();
        let shut = turnstile.clear(&mut self.tracker, now);
        while !turnstile.line.is_empty()
            && let Some(token) = turnstile.till.take(now)
            && let Some(Entry { permit, waiter, .. }) = turnstile.line.pop_front()
        {
            let waited = now.since(waiter.since);
            let pass = core.pass(Some(permit), waited).with_token(token);
            told.push(Told { end: waiter.end, answer: Ok(pass) });
        }
        let step = turnstile.till.step(turnstile.line.len(), now);
        if let Step::Idle(_) = step {
            turnstile.refuse(&mut self.tracker, &mut told, now);
        }
        let has_moved = turnstile.line.len() < before;
        let is_away = !turnstile.till.is_there();
        for Entry { number, permit, waiter } in shut {
            if let Some(ticket) = self.tracker.stand_back(permit, number, now) {
                self.await_turn(ticket, waiter);
            } else {
                let limited = limited(self.turnstile.as_ref(), Reason::Full, now);
                told.push(Told { end: waiter.end, answer: Err(limited.into()) });
            }
        }
        Served { told, step, is_away, has_moved }
    }

    fn heard(&mut self, ask: &Ask, answer: Result<Answer, DeskError>, asked: Moment, now: Moment) {
        let Some(Turnstile { till, name, .. }) = &mut self.turnstile else { return };
        let was_there = till.is_there();
        match answer {
            Ok(answer) => {
                till.answered(ask, answer, asked, now);
                if !was_there {
                    tracing::info!(bucket = %name, "the server that is shared is back");
                }
            }
            Err(error) => {
                till.failed(now);
                if was_there {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(bucket = %name, error, "the server that is shared is away");
                }
            }
        }
    }
}

impl Core {
    /// What all gates of an API share that has its limit on all requests from a server.
    pub(crate) fn with_share(profile: Profile, share: &Share) -> Self {
        let core = Self::new(Tracker::new(Profile { pace: None, ..profile }));
        let (name, till) = (Arc::from(share.name()), share.till(profile.pace));
        let (limit, line) = (profile.pace.map(|pace| pace.count), VecDeque::new());
        core.state.lock().turnstile = Some(Turnstile { name, limit, till, line });
        core
    }

    pub(crate) async fn line_changed(&self) {
        self.line_changed.notified().await;
    }

    pub(crate) fn serve(self: &Arc<Self>) -> Served {
        let now = self.now();
        let served = self.state.lock().serve(self, now);
        if served.has_moved {
            self.changed.notify_one();
        }
        served
    }

    pub(crate) fn heard(&self, ask: &Ask, answer: Result<Answer, DeskError>, asked: Moment) {
        let now = self.now();
        self.state.lock().heard(ask, answer, asked, now);
    }

    /// The request of a token is settled: it was never sent, or it was answered or lost.
    pub(crate) fn settle_token(&self, token: Token, is_given_back: bool) {
        let now = self.now();
        let mut state = self.state.lock();
        let credit = state.tracker.head_start();
        if let Some(Turnstile { till, .. }) = &mut state.turnstile {
            if is_given_back {
                till.give_back(token);
            } else {
                till.settle(token, credit, now);
            }
        }
        drop(state);
        self.line_changed.notify_one();
    }
}

/// Why a request is not sent now that only what processes share stops.
fn limited(turnstile: Option<&Turnstile>, reason: Reason, now: Moment) -> Limited {
    let retry_at = turnstile.map_or(now, |turnstile| turnstile.till.opens_at(now));
    Limited {
        scope: Scope::Global,
        bucket: turnstile.map_or_else(|| Arc::from(""), |it| Arc::clone(&it.name)),
        policy: Arc::from(""),
        unit: Unit::Requests,
        reason,
        limit: None,
        remaining: Some(0),
        retry_at,
        retry_in: retry_at.since(now),
        truly_secs: None,
    }
}

#[cfg(test)]
mod tests;
