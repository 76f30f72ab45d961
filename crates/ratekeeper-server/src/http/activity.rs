//! What a connection is busy with: whether it may end, and since when it is the server that takes
//! its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ratekeeper::Moment;

use crate::transport::Time;

/// Whether a connection is being used.
#[derive(Default)]
pub(super) struct Activity {
    /// Requests that are being answered.
    in_hand: AtomicUsize,
    /// Those of them of which the client has yet to send the rest.
    unheard: AtomicUsize,
    /// Answers that go on after their handler has returned.
    lasting: AtomicUsize,
    /// How many requests there have been.
    requests: AtomicU64,
}

impl Activity {
    /// A request has come; it is in hand as long as what is returned lives.
    pub(super) fn begin(&self) -> InHand<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        InHand(self)
    }

    /// So many requests have come and were answered at once.
    pub(super) fn answered(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.lasting.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn is_idle(&self) -> bool {
        let count = |it: &AtomicUsize| it.load(Ordering::Relaxed);
        count(&self.in_hand) + count(&self.lasting) == 0
    }

    /// Whether a request is whole and not yet answered, so that a client waits for the server.
    pub(super) fn is_awaited(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) > self.unheard.load(Ordering::Relaxed)
    }
}

/// A request that is being answered, as long as this lives.
pub(super) struct InHand<'a>(&'a Activity);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.in_hand.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer that goes on as long as this lives. The end of the server does not wait for it.
pub(super) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.lasting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When a request was whole. How long its client took to send it is not how long the server took.
pub(super) struct Hearing {
    activity: Arc<Activity>,
    time: Arc<dyn Time>,
    whole_at: AtomicU64,
}

impl Hearing {
    /// Of a request whose head is there, and nothing else of it is waited for yet.
    pub(super) fn begin(activity: &Arc<Activity>, time: &Arc<dyn Time>) -> Arc<Self> {
        let whole_at = AtomicU64::new(time.now().as_nanos());
        Arc::new(Self { activity: Arc::clone(activity), time: Arc::clone(time), whole_at })
    }

    pub(super) fn whole_at(&self) -> Moment {
        Moment::from_nanos(self.whole_at.load(Ordering::Relaxed))
    }

    /// The rest of the request is waited for as long as what is returned lives.
    pub(super) fn listen(&self) -> Listening<'_> {
        self.activity.unheard.fetch_add(1, Ordering::Relaxed);
        Listening(self)
    }
}

/// Waiting for a client to send the rest of its request.
pub(super) struct Listening<'a>(&'a Hearing);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let Hearing { activity, time, whole_at } = self.0;
        whole_at.store(time.now().as_nanos(), Ordering::Relaxed);
        activity.unheard.fetch_sub(1, Ordering::Relaxed);
    }
}
