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

use tokio::sync::watch;
use tollgate::{Clock, Moment};

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
    /// What time it is; never earlier than what it said before.
    fn now(&self) -> Moment;
}

impl Time for Clock {
    fn now(&self) -> Moment {
        Self::now(self)
    }
}

/// What every loop of the server works with.
#[derive(Clone)]
pub(crate) struct Street {
    pub(crate) time: Arc<dyn Time>,
    /// Turns true when the server is to stop.
    pub(crate) drain: watch::Receiver<bool>,
    /// How long answers may be waited for, where buckets are elsewhere.
    pub(crate) patience: Duration,
    /// How this worker stays awake for what comes next, if it does.
    pub(crate) lookout: Option<Arc<Lookout>>,
}

impl Street {
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
