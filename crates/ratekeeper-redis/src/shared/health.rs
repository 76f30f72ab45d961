//! How it goes.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use ratekeeper::store::shared::OnFailure;
use ratekeeper::{Moment, Nanos};

use crate::failure::Failure;

/// For how long nothing may have failed before all is said to be well again.
const QUIET: Nanos = Nanos::new(500_000_000);

/// What was asked, and how it went, since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether Redis answers.
    pub state: State,
    /// Round trips.
    pub trips: u64,
    /// Asks that Redis decided.
    pub decided: u64,
    /// Asks that were denied without asking, because their bucket is known to be empty.
    pub remembered: u64,
    /// Asks that were allowed without asking, from tokens taken in advance.
    pub leased: u64,
    /// Asks that were decided by this process's memory because Redis did not answer.
    pub local: u64,
    /// Asks that passed because Redis did not answer.
    pub let_through: u64,
    /// Asks that were denied because Redis did not answer.
    pub turned_away: u64,
    /// Asks that Redis did not answer, by why.
    pub failures: Vec<(&'static str, u64)>,
}

/// Whether Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was asked yet.
    New,
    /// It does.
    Up,
    /// It does not, or not always.
    Down {
        /// Since when.
        since: Moment,
        /// Why, in words.
        why: String,
    },
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) trips: AtomicU64,
    pub(super) decided: AtomicU64,
    pub(super) remembered: AtomicU64,
    pub(super) leased: AtomicU64,
    local: AtomicU64,
    let_through: AtomicU64,
    turned_away: AtomicU64,
    failures: [AtomicU64; KINDS.len()],
    weather: Mutex<Weather>,
}

#[derive(Default)]
struct Weather {
    /// Whether anything was answered yet.
    is_known: bool,
    down: Option<Down>,
}

struct Down {
    since: Moment,
    last: Moment,
    why: String,
}

/// What failures are called in numbers.
const KINDS: [&str; 11] = [
    "unreachable",
    "timeout",
    "read_only",
    "loading",
    "out_of_memory",
    "auth",
    "cluster_down",
    "busy",
    "held",
    "refused",
    "nonsense",
];

/// Where a failure stands among [`KINDS`].
const fn kind(failure: &Failure) -> usize {
    match failure {
        Failure::Unreachable(_) => 0,
        Failure::Timeout => 1,
        Failure::ReadOnly => 2,
        Failure::Loading => 3,
        Failure::OutOfMemory => 4,
        Failure::Auth(_) => 5,
        Failure::ClusterDown(_) => 6,
        Failure::Busy(_) => 7,
        Failure::Held => 8,
        Failure::Refused(_) => 9,
        Failure::Nonsense(_) => 10,
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Tally {
    /// Redis answered all of a trip.
    pub(super) fn succeeded(&self, now: Moment) {
        let mut weather = self.weather.lock();
        weather.is_known = true;
        let is_over = weather.down.as_ref().is_some_and(|down| now.since(down.last) >= QUIET);
        if is_over && let Some(down) = weather.down.take() {
            tracing::info!(after = %now.since(down.since), "Redis answers again");
        }
    }

    /// Redis did not answer an ask.
    pub(super) fn failed(&self, failure: &Failure, now: Moment) {
        add(&self.failures[kind(failure)], 1);
        if *failure == Failure::Held {
            // It answered.
            return;
        }
        let mut weather = self.weather.lock();
        weather.is_known = true;
        if let Some(down) = &mut weather.down {
            if down.last < now {
                (down.last, down.why) = (now, failure.to_string());
            }
        } else {
            let why = failure.to_string();
            tracing::warn!(%why, "Redis does not answer: limits decide as they say");
            weather.down = Some(Down { since: now, last: now, why });
        }
    }

    /// What was done instead.
    pub(super) fn instead(&self, what: OnFailure, asks: usize) {
        let counter = match what {
            OnFailure::Local => &self.local,
            OnFailure::Allow => &self.let_through,
            OnFailure::Deny => &self.turned_away,
        };
        add(counter, asks);
    }

    pub(super) fn health(&self) -> Health {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let weather = self.weather.lock();
        let state = match &weather.down {
            Some(down) => State::Down { since: down.since, why: down.why.clone() },
            None if weather.is_known => State::Up,
            None => State::New,
        };
        Health {
            state,
            trips: read(&self.trips),
            decided: read(&self.decided),
            remembered: read(&self.remembered),
            leased: read(&self.leased),
            local: read(&self.local),
            let_through: read(&self.let_through),
            turned_away: read(&self.turned_away),
            failures: KINDS.into_iter().zip(self.failures.iter().map(read)).collect(),
        }
    }
}
