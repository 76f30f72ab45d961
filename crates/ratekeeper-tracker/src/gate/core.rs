//! What all gates of one API share.

use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper_time::{Clock, Moment, Nanos};
#[cfg(feature = "sharing")]
use tokio::sync::Semaphore;
use tokio::sync::{Notify, oneshot};

use super::send_permit::Settled;
use super::state::{Granted, Round, State, Stood};
use super::time::Time;
use super::waiting::{Told, Waiting};
use super::{End, Refused, SendPermit, Strategy};
use crate::{Limited, LoadError, Request, Reservation, Snapshot, Tracker};

/// The tracker, those who wait, and the clock. The lock is held for one call of the tracker, or
/// for one round of releases; never while anybody waits, and never while anybody is told.
pub(crate) struct Core {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Notify,
    #[cfg(feature = "sharing")]
    pub(crate) line_changed: Notify,
    /// Closed when nobody keeps tokens any more.
    #[cfg(feature = "sharing")]
    pub(crate) share_kept: Semaphore,
    time: Time,
}

/// What came of asking for a permit.
pub(super) enum Entered {
    Now(SendPermit),
    /// It waits, for this reason.
    Later(Waiting, Limited),
}

impl Core {
    pub(crate) fn new(tracker: Tracker) -> Self {
        Self::at(tracker, Time::start())
    }

    pub(super) fn at(tracker: Tracker, time: Time) -> Self {
        Self {
            state: Mutex::new(State::new(tracker)),
            changed: Notify::new(),
            #[cfg(feature = "sharing")]
            line_changed: Notify::new(),
            #[cfg(feature = "sharing")]
            share_kept: Semaphore::new(0),
            time,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.time.now()
    }

    pub(crate) async fn until(&self, moment: Option<Moment>) {
        self.time.until(moment).await;
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let now = self.now();
        self.state.lock().snapshot(now)
    }

    pub(super) fn save(&self) -> String {
        let now = self.now();
        // To write it takes longer than anybody should wait for.
        let tracker = self.state.lock().tracker.clone();
        tracker.save(now, Clock::start().now())
    }

    pub(super) fn load(&self, saved: &str) -> Result<(), LoadError> {
        let now = self.now();
        self.state.lock().tracker.load(saved, now, Clock::start().now())?;
        self.changed.notify_one();
        Ok(())
    }

    /// Forgets what was heard of the limits of a request, or of all.
    pub(super) fn forget(&self, request: Option<&Request<'_>>) {
        let now = self.now();
        let mut state = self.state.lock();
        match request {
            Some(request) => state.tracker.forget(request, now),
            None => state.tracker.forget_all(now),
        }
        drop(state);
        self.tell_tasks();
    }

    /// For a task that waits for its turn.
    pub(super) fn enter(
        self: &Arc<Self>,
        request: &Request<'_>,
        strategy: Strategy,
    ) -> Result<Entered, Refused> {
        let mut receiver = None;
        let end = || {
            let (sender, waits) = oneshot::channel();
            receiver = Some(waits);
            End::Task(sender)
        };
        let now = self.now();
        let stood = self.state.lock().stand(request, strategy, end, now)?;
        let (number, limited) = match stood {
            Stood::Clear(granted, _) => {
                #[cfg(feature = "sharing")]
                if strategy == Strategy::SendAnyway {
                    // Others have to wait for it.
                    self.line_changed.notify_one();
                }
                return Ok(Entered::Now(self.grant(granted)));
            }
            Stood::Waits(number, limited) => (number, limited),
        };
        self.tell_tasks();
        // Whoever stands in a line was given an end to be told by.
        let receiver = receiver.ok_or(Refused::Closed)?;
        let waiting = Waiting { core: Arc::clone(self), number, receiver, is_told: false };
        Ok(Entered::Later(waiting, limited))
    }

    /// For a callback, which the gate's task calls in any case: whoever has it called may hold
    /// what it needs.
    pub(super) fn enter_to_call(
        self: &Arc<Self>,
        request: &Request<'_>,
        strategy: Strategy,
        end: End,
    ) -> Result<(), Refused> {
        let now = self.now();
        // Who is refused is dropped with all it holds, which may be a permit: not under the lock.
        let mut refused = Some(end);
        let mut state = self.state.lock();
        let end = || refused.take().unwrap_or_else(|| End::Callback(Box::new(drop)));
        if let Stood::Clear(granted, mut end) = state.stand(request, strategy, end, now)? {
            let answer = Ok(self.grant(granted));
            state.outbox.push(Told { end: end(), answer });
        }
        drop(state);
        self.tell_tasks();
        Ok(())
    }

    /// Leaves whatever line it stands in.
    pub(super) fn leave(&self, number: u64) {
        let gone = self.state.lock().leave(number);
        drop(gone);
        self.tell_tasks();
    }

    pub(super) fn sent(&self, reservation: &Reservation) {
        let now = self.now();
        self.state.lock().tracker.sent(reservation, now);
    }

    /// A permit for a request that somebody sent then without asking.
    #[cfg(feature = "reqwest")]
    pub(super) fn permit_sent(self: &Arc<Self>, request: &Request<'_>, sent: Moment) -> SendPermit {
        let granted = self.state.lock().send_anyway(request, sent);
        self.tell_tasks();
        self.grant(granted).sent_already()
    }

    /// Whether the API refused the request because of a limit.
    pub(super) fn settle(&self, reservation: Reservation, how: &Settled<'_, '_>) -> bool {
        let now = self.now();
        let mut state = self.state.lock();
        let tracker = &mut state.tracker;
        let mut is_limited = false;
        match how {
            Settled::Answered { status, said, body } => {
                let refused = *status == 429;
                let bucket = refused.then(|| tracker.bucket(&reservation).cloned()).flatten();
                is_limited = tracker.learn(reservation, *status, said, *body, now);
                drop(state);
                if refused {
                    let bucket = bucket.as_deref().unwrap_or("unknown");
                    tracing::warn!(bucket, scope = ?said.scope, "the API refused a request");
                }
            }
            Settled::GivenBack => tracker.give_back(reservation, now),
            Settled::Lost => tracker.lost(reservation, now),
        }
        self.changed.notify_one();
        is_limited
    }

    /// Everybody whose turn it is, and when to look again.
    pub(super) fn round(self: &Arc<Self>) -> Round {
        let now = self.now();
        let round = self.state.lock().round(self, now);
        #[cfg(feature = "sharing")]
        self.line_changed.notify_one();
        round
    }

    /// Nobody will call those who wait.
    pub(super) fn close(&self) {
        let all = self.state.lock().close();
        // Dropping them is what tells them, and permits among them take the lock.
        drop(all);
        self.changed.notify_one();
    }

    /// A permit for who did not wait.
    fn grant(self: &Arc<Self>, granted: Granted) -> SendPermit {
        let permit = self.permit(granted.reservation, Nanos::ZERO);
        #[cfg(feature = "sharing")]
        let permit = match granted.token {
            Some(token) => permit.with_token(token),
            None => permit,
        };
        permit
    }

    pub(crate) fn permit(
        self: &Arc<Self>,
        reservation: Option<Reservation>,
        waited: Nanos,
    ) -> SendPermit {
        SendPermit::new(Arc::clone(self), reservation, waited)
    }

    fn tell_tasks(&self) {
        self.changed.notify_one();
        #[cfg(feature = "sharing")]
        self.line_changed.notify_one();
    }
}
