//! What each door was asked, counted by each worker for itself and added up when somebody looks.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::Nanos;
use ratekeeper_protocol::Counts;
use serde::{Deserialize, Serialize};

use crate::latency::{Histogram, Took};

/// The counters of one door.
#[derive(Debug)]
pub(crate) struct Counters {
    workers: Box<[WorkerCounters]>,
}

/// On a cache line of its own, so that workers do not disturb each other. Only its worker counts here.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    requests: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
    ignored: AtomicU64,
    malformed: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    latency: Histogram,
}

/// What a door has counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DoorStats {
    /// Requests that were understood.
    pub requests: u64,
    /// Requests that were allowed to pass.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests that were not answered: too long, or from who may not ask.
    pub ignored: u64,
    /// Requests that were not understood.
    pub malformed: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Connections there have been.
    pub accepted: u64,
    /// Connections that were refused: too many, or from who may not connect.
    pub refused: u64,
    /// Connections whose client did not read or ask in time, and answers that could not be sent.
    pub dropped: u64,
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| WorkerCounters::default()).collect() }
    }

    pub(crate) fn worker(&self, index: usize) -> &WorkerCounters {
        &self.workers[index]
    }

    pub(crate) fn stats(&self) -> DoorStats {
        let sum = |field: fn(&WorkerCounters) -> &AtomicU64| {
            self.workers.iter().map(|worker| field(worker).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (accepted, closed) = (sum(|it| &it.accepted), sum(|it| &it.closed));
        DoorStats {
            requests: sum(|it| &it.requests),
            allowed: sum(|it| &it.allowed),
            denied: sum(|it| &it.denied),
            ignored: sum(|it| &it.ignored),
            malformed: sum(|it| &it.malformed),
            connections: accepted.saturating_sub(closed),
            accepted,
            refused: sum(|it| &it.refused),
            dropped: sum(|it| &it.dropped),
        }
    }

    /// How long answers took.
    pub(crate) fn took(&self) -> Took {
        let mut took = Took::default();
        self.workers.iter().for_each(|worker| took.add(&worker.latency));
        took
    }
}

impl WorkerCounters {
    pub(crate) fn add(&self, counts: &Counts) {
        let pairs = [
            (&self.requests, counts.requests),
            (&self.allowed, counts.allowed),
            (&self.denied, counts.denied),
            (&self.ignored, counts.ignored),
            (&self.malformed, counts.malformed),
        ];
        for (counter, count) in pairs {
            if count > 0 {
                add(counter, count);
            }
        }
    }

    /// So many requests were answered together, after so long.
    pub(crate) fn took(&self, time: Nanos, requests: u64) {
        if requests > 0 {
            self.latency.took(u64::try_from(time.get()).unwrap_or(u64::MAX), requests);
        }
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(crate) fn closed(&self) {
        add(&self.closed, 1);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused, 1);
    }

    pub(crate) fn dropped(&self, count: usize) {
        add(&self.dropped, count as u64);
    }
}

/// Adds to what only one thread changes. Others who look see it sooner or later; nobody else adds
/// meanwhile, so the processor need not see to that, which takes as long as a dozen other instructions.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}
