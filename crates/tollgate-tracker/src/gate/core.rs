//! What all gates of one API share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tollgate::{Moment, Nanos};

use super::pass::Settled;
use super::state::{Round, State, Stood};
use super::time::Time;
use super::waiting::{Told, Waiting};
use super::{End, Pass, Refused, Strategy};
use crate::{Limited, Permit, Request, Snapshot, Tracker};

/// The tracker, those who wait, and the clock. The lock is held for one call of the tracker, or
/// for one round of releases; never while anybody waits, and never while anybody is told.
pub(crate) struct Core {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Notify,
    #[cfg(feature = "sharing")]
    pub(crate) line_changed: Notify,
    time: Time,
}

/// What came of asking for a pass.
pub(super) enum Entered {
    Now(Pass),
    /// It waits, for this reason.
    Later(Waiting, Limited),
}

impl Core {
    pub(crate) fn new(tracker: Tracker) -> Self {
        Self {
            state: Mutex::new(State::new(tracker)),
            changed: Notify::new(),
            #[cfg(feature = "sharing")]
            line_changed: Notify::new(),
            time: Time::start(),
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
            Stood::Clear(permit, _) => {
                #[cfg(feature = "sharing")]
                if strategy == Strategy::SendAnyway {
                    // Somebody has to pay for it.
                    self.line_changed.notify_one();
                }
                return Ok(Entered::Now(self.pass(permit, Nanos::ZERO)));
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
        // Who is refused is dropped with all it holds, which may be a pass: not under the lock.
        let mut refused = Some(end);
        let mut state = self.state.lock();
        let end = || refused.take().unwrap_or_else(|| End::Callback(Box::new(drop)));
        if let Stood::Clear(permit, mut end) = state.stand(request, strategy, end, now)? {
            let answer = Ok(self.pass(permit, Nanos::ZERO));
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

    pub(super) fn sent(&self, permit: &Permit) {
        let now = self.now();
        self.state.lock().tracker.sent(permit, now);
    }

    pub(super) fn settle(&self, permit: Permit, how: &Settled<'_, '_>) {
        let now = self.now();
        let mut state = self.state.lock();
        let tracker = &mut state.tracker;
        match how {
            Settled::Answered { status, said, body } => {
                let refused = *status == 429;
                let bucket = refused.then(|| tracker.bucket(&permit).cloned()).flatten();
                tracker.learn(permit, *status, said, *body, now);
                drop(state);
                if refused {
                    let bucket = bucket.as_deref().unwrap_or("unknown");
                    tracing::warn!(bucket, scope = ?said.scope, "the API refused a request");
                }
            }
            Settled::GivenBack => tracker.give_back(permit, now),
            Settled::Lost => tracker.lost(permit, now),
        }
        self.changed.notify_one();
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
        // Dropping them is what tells them, and passes among them take the lock.
        drop(all);
    }

    pub(crate) fn pass(self: &Arc<Self>, permit: Option<Permit>, waited: Nanos) -> Pass {
        Pass::new(Arc::clone(self), permit, waited)
    }

    fn tell_tasks(&self) {
        self.changed.notify_one();
        #[cfg(feature = "sharing")]
        self.line_changed.notify_one();
    }
}
