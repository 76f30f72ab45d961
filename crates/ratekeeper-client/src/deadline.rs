//! How long to wait.

use std::io;
use std::time::Duration;

use ratekeeper::{Clock, Moment, Nanos};

/// The moment at which waiting ends.
pub(crate) struct Deadline {
    clock: Clock,
    end: Moment,
}

impl Deadline {
    /// That which is `timeout` from now.
    pub(crate) fn after(timeout: Nanos) -> Self {
        let clock = Clock::start();
        Self { clock, end: clock.now().after(timeout) }
    }

    /// What is left of it; nothing once it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.end.since(self.clock.now());
        (!left.is_zero()).then(|| left.into())
    }
}

/// Whether a read ended because nothing came in time. Systems do not agree on what to call it.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
