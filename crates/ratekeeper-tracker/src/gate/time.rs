//! What time it is, on the timer's own clock.

use std::time::Duration;

use ratekeeper_time::{Clock, Moment};
use tokio::time::Instant;

/// Wall time at the start, and what has passed since on tokio's clock: so it never steps, what is
/// waited for is what was computed, and a test that pauses that clock runs in virtual time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    began: Moment,
    start: Instant,
}

impl Time {
    pub(super) fn start() -> Self {
        Self::starting_at(Clock::start().now())
    }

    /// It is that moment now.
    pub(super) fn starting_at(began: Moment) -> Self {
        Self { began, start: Instant::now() }
    }

    pub(super) fn now(&self) -> Moment {
        self.began.after(self.start.elapsed().into())
    }

    /// Waits until a moment; for ever if there is none, or it is further off than timers reach.
    pub(super) async fn until(&self, moment: Option<Moment>) {
        let deadline = moment.and_then(|moment| {
            let length = Duration::from(moment.since(self.began));
            self.start.checked_add(length)
        });
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}
