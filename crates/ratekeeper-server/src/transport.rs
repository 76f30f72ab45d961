//! Sockets: one loop for streams and one for datagrams, whatever the door.

mod accept;
mod admission;
pub mod batch;
mod datagram;
mod held;
mod listen;
mod request_log;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{Clock, Moment};
use tokio::sync::watch;

use crate::polling::Lookout;

pub(crate) use accept::{Entrance, Guest};
pub(crate) use admission::{Admission, Admitted};
pub(crate) use datagram::Datagrams;
pub use listen::ListenError;
pub(crate) use listen::{guarded_tcp, tcp, udp};
pub(crate) use request_log::RequestLog;
pub(crate) use stream::{LINGER, QUIET, Streams, UNDERWAY_BYTES_MAX};

/// Whoever tells the server what time it is.
pub trait Time: Send + Sync {
    /// What time it is for buckets; never earlier than what it said before.
    fn now(&self) -> Moment;

    /// What time it is for people: what the wall clock says, which may step in either direction.
    fn wall(&self) -> Moment {
        self.now()
    }
}

impl Time for Clock {
    fn now(&self) -> Moment {
        Self::now(self)
    }

    fn wall(&self) -> Moment {
        Self::wall()
    }
}

/// The time of a server that goes on with what an earlier one saved: for buckets, the moment of that
/// save and what has passed since.
pub(crate) struct ResumedTime {
    inner: Arc<dyn Time>,
    /// What `inner` said at the start, and what time it was then for the buckets.
    began: Moment,
    resumed: Moment,
}

impl ResumedTime {
    /// A time that is `resumed` for buckets now.
    pub(crate) fn new(inner: Arc<dyn Time>, resumed: Moment) -> Self {
        Self { began: inner.now(), inner, resumed }
    }
}

impl Time for ResumedTime {
    fn now(&self) -> Moment {
        self.resumed.after(self.inner.now().since(self.began))
    }

    fn wall(&self) -> Moment {
        self.inner.wall()
    }
}

/// What every loop of the server works with.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) time: Arc<dyn Time>,
    /// Turns true when the server is to stop.
    pub(crate) drain: watch::Receiver<bool>,
    /// How long answers may be waited for, where buckets are elsewhere.
    pub(crate) patience: Duration,
    /// How this worker stays awake for what comes next, if it does.
    pub(crate) lookout: Option<Arc<Lookout>>,
}

impl ServerContext {
    /// Waits until the server is to stop.
    pub(crate) async fn draining(&self) {
        let mut drain = self.drain.clone();
        // If nobody can ask for it any more, the server is going away too.
        let _ = drain.wait_for(|is_draining| *is_draining).await;
    }

    /// How the worker stays awake for what comes next. A server that is to stop does not: whoever always
    /// finds something would never hear of it.
    pub(crate) fn lookout(&self) -> Option<&Lookout> {
        self.lookout.as_deref().filter(|_| !self.is_draining())
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }
}
