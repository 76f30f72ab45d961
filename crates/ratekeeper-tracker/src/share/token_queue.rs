//! The line for what many processes share: a request that its bucket has let go stands here for a
//! token.
//!
//! What is heard meanwhile counts for those in line too. Who may not go any more stands back into
//! the line of its bucket, where it was, and holds nothing until that lets it go again.

mod snapshot;

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use ratekeeper_time::Moment;

use super::token_state::{SharedToken, Step, TokenAnswer, TokenAsk, TokenState};
use super::{Share, ShareError};
use crate::gate::{Core, End, State, Stood, Told, Waiter};
use crate::headers::{Scope, Unit};
use crate::{Limited, Profile, Reason, Request, Reservation, Tracker};

/// How many stand in line. The others stay in the lines of their buckets: all of these are looked
/// at whenever there may be a token.
const LINE_MAX: usize = 64;

pub(crate) struct TokenQueue {
    name: Arc<str>,
    /// How many requests the API allows in a window.
    limit: u32,
    state: TokenState,
    line: VecDeque<Entry>,
    /// What kind of error the latest answer of the server was, if it was one.
    failure: Option<Discriminant<ShareError>>,
}

/// By their numbers, those who came first go first, also if they had to come again.
struct Entry {
    number: u64,
    reservation: Reservation,
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

impl TokenQueue {
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
                tracker.give_back(entry.reservation, now);
            } else if tracker.may_go(&entry.reservation, now) {
                self.line.push_back(entry);
            } else {
                shut.push(entry);
            }
        }
        shut
    }

    /// Those whose turn cannot come in time are told so.
    fn refuse(&mut self, tracker: &mut Tracker, told: &mut Vec<Told>, now: Moment) {
        let opens_at = self.state.opens_at(now);
        if self.line.iter().all(|entry| entry.waiter.deadline >= opens_at) {
            return;
        }
        let in_time = |entry: &Entry| entry.waiter.deadline >= opens_at;
        let (stay, late): (VecDeque<_>, VecDeque<_>) = self.line.drain(..).partition(in_time);
        self.line = stay;
        for Entry { reservation, waiter, .. } in late {
            tracker.give_back(reservation, now);
            let answer = Err(limited(Some(self), Reason::Deadline, now).into());
            told.push(Told { end: waiter.end, answer });
        }
    }
}

impl State {
    /// Whether the request of a reservation needs a token that processes share.
    pub(crate) fn is_shared(&self, reservation: &Reservation) -> bool {
        self.token_queue.is_some() && self.tracker.is_shared(reservation)
    }

    /// Puts a request that no other limit stops in line for a token.
    pub(crate) fn line_up<E: FnOnce() -> End>(
        &mut self,
        reservation: Reservation,
        deadline: Moment,
        end: E,
        now: Moment,
    ) -> Stood<E> {
        let limited = limited(self.token_queue.as_ref(), Reason::Paced, now);
        let Some(token_queue) = &mut self.token_queue else {
            return Stood::Clear(Some(reservation).into(), end);
        };
        let waiter = Waiter { since: now, deadline, end: end() };
        let number = self.tracker.number();
        token_queue.join(Entry { number, reservation, waiter });
        Stood::Waits(number, limited)
    }

    /// A token for a request that is sent anyway, if it needs one; others wait for it. It has no
    /// reservation where so many are in flight that no more are tracked.
    pub(crate) fn token_anyway(
        &mut self,
        request: &Request<'_>,
        reservation: Option<&Reservation>,
        now: Moment,
    ) -> Option<SharedToken> {
        let token_queue = self.token_queue.as_mut()?;
        let is_shared = match reservation {
            Some(reservation) => self.tracker.is_shared(reservation),
            None => self.tracker.shares(request, now),
        };
        is_shared.then(|| token_queue.state.take_anyway())
    }

    /// Has a request wait in the line of its bucket, as there is no room here.
    pub(crate) fn turn_away(&mut self, reservation: Reservation, now: Moment) -> Limited {
        self.tracker.give_back(reservation, now);
        limited(self.token_queue.as_ref(), Reason::Queued, now)
    }

    pub(crate) fn add_to_line(&mut self, number: u64, reservation: Reservation, waiter: Waiter) {
        if let Some(token_queue) = &mut self.token_queue {
            token_queue.join(Entry { number, reservation, waiter });
        }
    }

    /// Takes all out of the line, to be told when the lock is free.
    pub(crate) fn empty_line(&mut self) -> Vec<Waiter> {
        let Some(token_queue) = &mut self.token_queue else { return Vec::new() };
        let line = std::mem::take(&mut token_queue.line);
        let mut waiters = Vec::new();
        for Entry { reservation, waiter, .. } in line {
            // No time has passed that matters: nobody will use what is given back.
            self.tracker.give_back(reservation, Moment::EPOCH);
            waiters.push(waiter);
        }
        waiters
    }

    fn serve(&mut self, core: &Arc<Core>, now: Moment) -> Served {
        let mut told = Vec::new();
        let Some(token_queue) = &mut self.token_queue else {
            return Served { told, step: Step::Idle(None), is_away: false, has_moved: false };
        };
        let before = token_queue.line.len();
        let shut = token_queue.clear(&mut self.tracker, now);
        while !token_queue.line.is_empty()
            && let Some(token) = token_queue.state.take(now)
            && let Some(Entry { reservation, waiter, .. }) = token_queue.line.pop_front()
        {
            let waited = now.since(waiter.since);
            let permit = core.permit(Some(reservation), waited).with_token(token);
            told.push(Told { end: waiter.end, answer: Ok(permit) });
        }
        let step = token_queue.state.step(token_queue.line.len(), now);
        if let Step::Idle(_) = step {
            token_queue.refuse(&mut self.tracker, &mut told, now);
        }
        let has_moved = token_queue.line.len() < before;
        let is_away = token_queue.state.is_away();
        for Entry { number, reservation, waiter } in shut {
            if let Some(waiter_id) = self.tracker.stand_back(reservation, number, now) {
                self.await_turn(waiter_id, waiter);
            } else {
                let limited = limited(self.token_queue.as_ref(), Reason::Full, now);
                told.push(Told { end: waiter.end, answer: Err(limited.into()) });
            }
        }
        Served { told, step, is_away, has_moved }
    }

    fn heard(
        &mut self,
        ask: &TokenAsk,
        answer: Result<TokenAnswer, ShareError>,
        asked: Moment,
        now: Moment,
    ) {
        let Some(TokenQueue { state, name, failure, .. }) = &mut self.token_queue else { return };
        let was_quiet = state.quiet_until().is_some();
        match answer {
            Ok(answer) => {
                *failure = None;
                state.answered(ask, answer, asked, now);
                if let Some(until) = state.quiet_until().filter(|_| !was_quiet) {
                    let quiet = until.since(now);
                    tracing::info!(
                        bucket = %name, %quiet,
                        "the server that is shared was started, or is back: others have to notice first"
                    );
                }
            }
            Err(error) => {
                state.failed(now);
                let kind = discriminant(&error);
                // A server that comes back may still not be of use, and no retry mends that.
                if failure.replace(kind) != Some(kind) {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(bucket = %name, error, "the server that is shared cannot be used");
                }
            }
        }
    }
}

impl Core {
    /// What all gates of an API share that has its limit on all requests from a server.
    pub(crate) fn with_share(profile: Profile, share: &Share) -> Self {
        let core = Self::new(Tracker::sharing(profile));
        let (name, state) = (Arc::from(&*share.server.limit), share.token_state());
        let (limit, line, failure) = (share.pace.count, VecDeque::new(), None);
        core.state.lock().token_queue = Some(TokenQueue { name, limit, state, line, failure });
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

    pub(crate) fn heard(
        &self,
        ask: &TokenAsk,
        answer: Result<TokenAnswer, ShareError>,
        asked: Moment,
    ) {
        let now = self.now();
        self.state.lock().heard(ask, answer, asked, now);
    }

    /// Gives all tokens back, and waits until that is done.
    pub(crate) async fn close_share(&self) {
        match &mut self.state.lock().token_queue {
            Some(token_queue) => token_queue.state.close(),
            None => return,
        }
        self.line_changed.notify_one();
        // Nothing can be had of it: it is closed when it is over.
        let _ = self.share_kept.acquire().await;
    }

    /// Whether no token is held any more, and none will be.
    pub(crate) fn is_share_closed(&self) -> bool {
        self.state.lock().token_queue.as_ref().is_none_or(|it| it.state.is_closed())
    }

    /// The request of a token is settled: it was never sent, or it was answered or lost.
    pub(crate) fn settle_token(&self, token: SharedToken, is_given_back: bool) {
        let now = self.now();
        let mut state = self.state.lock();
        let credit = state.tracker.head_start();
        if let Some(TokenQueue { state, .. }) = &mut state.token_queue {
            if is_given_back {
                state.give_back(token);
            } else {
                state.settle(token, credit, now);
            }
        }
        drop(state);
        self.line_changed.notify_one();
    }
}

/// Why a request is not sent now that only what processes share stops.
fn limited(token_queue: Option<&TokenQueue>, reason: Reason, now: Moment) -> Limited {
    let retry_at = token_queue.map_or(now, |it| it.state.opens_at(now));
    Limited {
        scope: Scope::Global,
        origin: Arc::from(""),
        bucket: token_queue.map_or_else(|| Arc::from(""), |it| Arc::clone(&it.name)),
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
