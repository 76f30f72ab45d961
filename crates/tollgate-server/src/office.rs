//! What is known of a running server, and what can be done to it besides asking.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tollgate::{Moment, Nanos};

use crate::counters::Counters;
use crate::files::Stamp;
use crate::house::{House, ReloadError};
use crate::http::Keys;
use crate::metrics::Metrics;
use crate::pressure::{Memory, Pressure};
use crate::reading::{FileThread, Place, Unread};
use crate::stats::Tries;
use crate::transport::{Street, Time};

/// By less than this a wall clock goes wrong by itself: nobody has set it.
pub(crate) const WALL_STEP_MIN: Nanos = Nanos::from_secs(1);

/// The one place that reloads and counts, for whoever asks: a signal, a timer, a door.
pub(crate) struct Office {
    pub(crate) house: Arc<House>,
    pub(crate) time: Arc<dyn Time>,
    /// How long answers may be waited for, where buckets are elsewhere.
    pub(crate) patience: Duration,
    pub(crate) started: Started,
    listening: Vec<Listening>,
    keys: Arc<Keys>,
    /// Where what was spent is saved.
    pub(crate) state: Option<PathBuf>,
    drain: watch::Receiver<bool>,
    pub(crate) file_thread: FileThread,
    reloading: Mutex<()>,
    pub(crate) reloads: Counted,
    pub(crate) saves: Counted,
    pub(crate) metrics: Metrics,
    pub(crate) pressure: Pressure,
}

/// When a server was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    /// By the clock of the buckets.
    pub(crate) at: Moment,
    /// By the wall clock.
    pub(crate) wall: Moment,
}

/// A door that is open.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) door: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Debug, Default)]
pub(crate) struct Counted {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Office {
    pub(crate) fn new(
        house: Arc<House>,
        street: Street,
        started: Started,
        listening: Vec<Listening>,
        keys: Arc<Keys>,
        state: Option<PathBuf>,
        file_thread: FileThread,
    ) -> Self {
        let Street { time, drain, patience, .. } = street;
        Self {
            house,
            time,
            patience,
            started,
            listening,
            keys,
            state,
            drain,
            file_thread,
            reloading: Mutex::default(),
            reloads: Counted::default(),
            saves: Counted::default(),
            metrics: Metrics::default(),
            pressure: Pressure::default(),
        }
    }

    /// Whether requests are answered, and will go on to be: not from when the end begins.
    pub(crate) fn is_ready(&self) -> bool {
        !*self.drain.borrow()
    }

    pub(crate) fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// Looks at who holds what of memory, and logs what began to be short of it or is no more.
    pub(crate) fn look_at_memory(&self) -> Memory {
        self.pressure.look(&self.house, &*self.time)
    }

    /// Reads the files again. Refuses bad ones, and then the old ones go on.
    pub(crate) fn reload(&self) -> Result<(), ReloadError> {
        // One after the other, so that what was read later is in force later.
        let _only_one = self.reloading.lock();
        self.reloads.count(self.read_and_apply())
    }

    fn read_and_apply(&self) -> Result<(), ReloadError> {
        let (house, keys) = (Arc::clone(&self.house), Arc::clone(&self.keys));
        // Before anything is locked: whoever changes an override does not wait for a disk.
        let read = move |place: &Place| (house.files().load(place), keys.read(place));
        let (loaded, keys) = self.file_thread.run(read)?;
        // Whatever is wrong with one leaves the other as it would be.
        let limits = loaded.map_err(ReloadError::from);
        let limits = limits.and_then(|loaded| self.house.reload(loaded, &*self.time));
        let keys = self.keys.apply(keys).map_err(ReloadError::Keys);
        match (limits, keys) {
            (Ok(()), keys) => keys,
            (limits, Ok(())) => limits,
            (Err(limits), Err(keys)) => Err(ReloadError::Both(Box::new(limits), Box::new(keys))),
        }
    }

    /// How long the server has been running.
    pub(crate) fn uptime(&self) -> Nanos {
        self.time.now().since(self.started.at)
    }

    /// When the server was started, in the time of people. Where the wall clock has been put right
    /// since, this is right too.
    pub(crate) fn started_wall(&self) -> Moment {
        let (said, computed) = (self.started.wall, self.time.wall().before(self.uptime()));
        let is_same = computed.since(said).max(said.since(computed)) <= WALL_STEP_MIN;
        if is_same { said } else { computed }
    }

    /// What all files look like now that are read again.
    pub(crate) fn stamp(&self) -> Result<Stamp, Unread> {
        let (house, keys) = (Arc::clone(&self.house), Arc::clone(&self.keys));
        self.file_thread.run(move |place| house.files().stamp(place).and(keys.stamp(place)))
    }

    /// Whatever changes with what was spent, and with the limits: what is worth saving.
    pub(crate) fn changes(&self) -> u64 {
        let asked: u64 = self.listening.iter().map(|it| it.counters.stats().requests).sum();
        asked + self.house.standing.load().version
    }
}

impl Counted {
    pub(crate) fn count<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        let counter = if result.is_ok() { &self.done } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    pub(crate) fn tries(&self) -> Tries {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tries { done: load(&self.done), failed: load(&self.failed) }
    }
}
