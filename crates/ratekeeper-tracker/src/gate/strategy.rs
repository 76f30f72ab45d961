//! What becomes of a request that may not be sent yet.

use std::time::Duration;

use crate::QUEUE_DEFAULT;

/// How long anybody waits, where nothing else is set.
pub const DEADLINE_DEFAULT: Duration = Duration::from_mins(1);

/// What becomes of a request that may not be sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// It waits in line, first come, first served. It is refused at once if `queue` others wait
    /// for the same bucket, or if its turn would come later than in `deadline`; and when that
    /// time is over, should its turn not have come after all.
    Wait {
        /// How many may wait for one bucket; at most [`WAITERS_MAX`](crate::WAITERS_MAX) in all.
        queue: usize,
        /// How long it may take.
        deadline: Duration,
    },
    /// It is refused at once.
    Error,
    /// It is sent whatever the limits are, and tracked like others, which wait for it where they
    /// share a limit. For what must not wait, and to see what would happen without a tracker.
    SendAnyway,
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Wait { queue: QUEUE_DEFAULT, deadline: DEADLINE_DEFAULT }
    }
}
