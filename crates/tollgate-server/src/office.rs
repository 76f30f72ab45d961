//! What is known of a running server, and what can be done to it besides asking.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::Moment;

use crate::counters::Counters;
use crate::files::Stamp;
use crate::house::{House, ReloadError};
use crate::http::Keys;
use crate::stats::{self, Stats, Tries};
use crate::transport::Time;

/// The one place that reloads and counts, for whoever asks: a signal, a timer, a door.
pub(crate) struct Office {
    pub(crate) house: Arc<House>,
    pub(crate) time: Arc<dyn Time>,
    started: Moment,
    listening: Vec<Listening>,
    keys: Arc<Keys>,
    reloads: Counted,
    pub(crate) saves: Counted,
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
        time: Arc<dyn Time>,
        started: Moment,
        listening: Vec<Listening>,
        keys: Arc<Keys>,
    ) -> Self {
        let (reloads, saves) = (Counted::default(), Counted::default());
        Self { house, time, started, listening, keys, reloads, saves }
    }

    pub(crate) fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// Reads the files again. Refuses bad ones, and then the old ones go on.
    pub(crate) fn reload(&self) -> Result<(), ReloadError> {
        let limits = self.house.reload(|| self.time.now());
        let keys = self.keys.reload().map_err(ReloadError::from);
        self.reloads.count(limits.and(keys))
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

    /// What was counted so far.
    pub(crate) fn stats(&self) -> Stats {
        let stores = &self.house.stores;
        let uptime: Duration = self.time.now().since(self.started).into();
        let door = |it: &Listening| {
            let counts = it.counters.stats();
            (it.door.to_owned(), stats::Door { address: it.address, counts })
        };
        Stats {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_secs: uptime.as_secs(),
            doors: self.listening.iter().map(door).collect(),
            stores: BTreeMap::from([
                ("limits".to_owned(), stores.limiter.held().into()),
                ("averages".to_owned(), stores.averages.held().into()),
                ("quotas".to_owned(), stores.quotas.held().into()),
            ]),
            reloads: self.reloads.tries(),
            saves: self.saves.tries(),
        }
    }
}

impl Counted {
    pub(crate) fn count<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        let counter = if result.is_ok() { &self.done } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn tries(&self) -> Tries {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tries { done: load(&self.done), failed: load(&self.failed) }
    }
}
