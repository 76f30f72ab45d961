//! What is known of a running server, and what can be done to it besides asking.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::Moment;

use crate::counters::Counters;
use crate::files::Stamp;
use crate::house::{House, ReloadError};
use crate::http::Keys;
use crate::metrics::Metrics;
use crate::pressure::{Memory, Pressure};
use crate::stats::Tries;
use crate::transport::{Street, Time};

/// The one place that reloads and counts, for whoever asks: a signal, a timer, a door.
pub(crate) struct Office {
    pub(crate) house: Arc<House>,
    pub(crate) time: Arc<dyn Time>,
    /// How long answers may be waited for, where buckets are elsewhere.
    pub(crate) patience: Duration,
    pub(crate) started: Moment,
    listening: Vec<Listening>,
    keys: Arc<Keys>,
    /// Where what was spent is saved.
    pub(crate) state: Option<PathBuf>,
    drain: watch::Receiver<bool>,
    pub(crate) reloads: Counted,
    pub(crate) saves: Counted,
    pub(crate) metrics: Metrics,
    pub(crate) pressure: Pressure,
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
        started: Moment,
        listening: Vec<Listening>,
        keys: Arc<Keys>,
        state: Option<PathBuf>,
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
        // Whatever is wrong with one leaves the other as it would be.
        let limits = self.house.reload(|| self.time.now());
        let keys = self.keys.reload().map_err(ReloadError::Keys);
        self.reloads.count(match (limits, keys) {
            (Ok(()), keys) => keys,
            (limits, Ok(())) => limits,
            (Err(limits), Err(keys)) => Err(ReloadError::Both(Box::new(limits), Box::new(keys))),
        })
    }

    /// What all files look like now that are read again.
    pub(crate) fn stamp(&self) -> Stamp {
        self.house.files().stamp().and(self.keys.stamp())
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
