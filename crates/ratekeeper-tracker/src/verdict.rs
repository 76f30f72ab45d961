//! The answers of a tracker.

use std::sync::Arc;

use ratekeeper_time::{Moment, Nanos};

use crate::arena::Slot;
use crate::headers::{Scope, Unit};

/// Whether a request may be sent now.
#[must_use = "a request that is sent although it is limited makes matters worse"]
#[derive(Debug)]
pub enum Verdict {
    /// It may. The reservation stands for it until its answer is tracked.
    Clear(Reservation),
    /// It may not.
    Limited(Limited),
}

/// Stands for a request that may be sent: what it costs is reserved until the reservation is settled.
///
/// Hand it to `track` with the response; to `give_back` if the request was never sent; to `lost`
/// if it may have been and no answer will come. One that is dropped is in flight for ever.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "what it reserves is held until it is settled"]
pub struct Reservation {
    account: Slot,
    slot: Slot,
}

impl Reservation {
    pub(crate) const fn new(account: Slot, slot: Slot) -> Self {
        Self { account, slot }
    }

    pub(crate) const fn account(&self) -> Slot {
        self.account
    }

    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }
}

/// One who waits in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    /// Rises with every waiter, so that the ids sort by age.
    pub(crate) number: u64,
    pub(crate) account: Slot,
    pub(crate) slot: Slot,
}

/// Why a request may not be sent now, and when it may.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// Whose limit it is.
    pub scope: Scope,
    /// The origin that the request would go to.
    pub origin: Arc<str>,
    /// The bucket, as people know it.
    pub bucket: Arc<str>,
    /// The policy of the bucket that is the strictest; mostly empty.
    pub policy: Arc<str>,
    /// What is counted.
    pub unit: Unit,
    /// Why.
    pub reason: Reason,
    /// How much there is when it is full, if that is known.
    pub limit: Option<u64>,
    /// How much is left, if that is known; some of it may be held by requests in flight.
    pub remaining: Option<u64>,
    /// When it may be sent, as far as that can be said now.
    pub retry_at: Moment,
    /// How long that is from now.
    pub retry_in: Nanos,
    /// What the server said, in seconds, where that was longer than anybody is told to wait.
    pub truly_secs: Option<f64>,
}

/// Why a request may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is left until the reset.
    Spent,
    /// The server refused a request and said for how long.
    Refused,
    /// The limit on all requests, which is kept in advance.
    Paced,
    /// What is left is held by requests in flight.
    InFlight,
    /// Nothing is known of the bucket yet; one request is finding out.
    Probing,
    /// Others were there first.
    Queued,
    /// So many are waiting that nobody else may.
    QueueFull,
    /// It would take longer than the caller can wait.
    Deadline,
    /// One more refused request may get the caller banned.
    Invalid,
    /// The tracker itself is full: of requests in flight, or of buckets that may not be forgotten.
    Full,
}
