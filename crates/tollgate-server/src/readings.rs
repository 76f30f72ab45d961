//! Everything that can be read of a running server, for whoever may read it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollgate::Moment;

use crate::counters::Counters;
use crate::house::House;
use crate::metrics::{Metrics, Scrape};
use crate::seen::{ByLimit, Door, List};
use crate::stats::{self, Busiest, BusyId, BusyOf, Rulings, Stats, Tries};
use crate::transport::Time;

/// How many of the busiest ids of all limits are told.
const BUSIEST_OVERALL: usize = 20;
/// How many of the busiest ids of one limit are told.
const BUSIEST_OF_LIMIT: usize = 50;
/// How many limits have their counters told by name, and how long those names may be together: so
/// that all of it stays far below what the control socket tells at most.
const STATS_LIMITS_MAX: usize = 1000;
const STATS_NAMES_BYTES_MAX: usize = 256 << 10;

/// The counters of a server, and what they are read from. Doors may hold it: it keeps no socket.
pub(crate) struct Readings {
    pub(crate) house: Arc<House>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) started: Moment,
    pub(crate) listening: Vec<Listening>,
    /// Where what was spent is saved.
    pub(crate) state: Option<PathBuf>,
    pub(crate) draining: watch::Receiver<bool>,
    pub(crate) reloads: Attempts,
    pub(crate) saves: Attempts,
    pub(crate) metrics: Metrics,
}

/// A door that is open.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
}

/// How often something was tried.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Readings {
    /// Whether requests are answered: from when all doors are open until the end begins.
    pub(crate) fn is_ready(&self) -> bool {
        !*self.draining.borrow()
    }

    /// How many requests there were at all doors.
    pub(crate) fn requests(&self) -> u64 {
        self.listening.iter().map(|it| it.counters.stats().requests).sum()
    }

    /// What was counted so far.
    pub(crate) fn stats(&self) -> Stats {
        let now = self.time.now();
        let uptime: Duration = now.since(self.started).into();
        let observatory = &self.house.observatory;
        let by_limit = observatory.by_limit();
        let overall = |list| {
            let listed = observatory.listed_overall(&by_limit, list, BUSIEST_OVERALL);
            listed.into_iter().map(BusyOf::from).collect()
        };
        let (busiest, most_denied) = (overall(List::Busiest), overall(List::MostDenied));
        let (limits, others) = named(&by_limit);
        Stats {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: now.as_secs_f64(),
            uptime_secs: uptime.as_secs(),
            doors: self.doors(),
            stores: self.stores(),
            reloads: self.reloads.tries(),
            saves: self.saves.tries(),
            limits,
            others,
            busiest,
            most_denied,
            configured: self.configured(),
            ready: self.is_ready(),
        }
    }

    /// Who asks a limit most, if there is such a limit.
    #[expect(dead_code, reason = "read by the HTTP door")]
    pub(crate) fn busiest(&self, limit: &str) -> Option<Busiest> {
        let observatory = &self.house.observatory;
        let ids = |list| {
            let listed = observatory.listed(limit, list, BUSIEST_OF_LIMIT)?;
            Some(listed.into_iter().map(BusyId::from).collect())
        };
        let (busiest, most_denied) = (ids(List::Busiest)?, ids(List::MostDenied)?);
        let counts = observatory.of_limit(limit)?.all();
        Some(Busiest {
            limit: limit.to_owned(),
            asked: counts.asked(),
            denied: counts.denied,
            shadow: counts.shadow,
            busiest,
            most_denied,
        })
    }

    /// All counters as Prometheus reads them.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.text(Scrape::new(self))
    }

    fn doors(&self) -> BTreeMap<String, stats::Door> {
        let door = |it: &Listening| {
            let (counts, latency) = (it.counters.stats(), it.counters.took().latency());
            (it.door.name().to_owned(), stats::Door { address: it.address, counts, latency })
        };
        self.listening.iter().map(door).collect()
    }

    fn stores(&self) -> BTreeMap<String, stats::Store> {
        let held = self.house.stores.held();
        held.into_iter().map(|(name, held)| (name.to_owned(), held.into())).collect()
    }

    fn configured(&self) -> stats::Configured {
        let configured = self.house.configured();
        stats::Configured {
            since: configured.since.as_secs_f64(),
            version: configured.version,
            limits: configured.limits,
            overrides_in_files: configured.overrides,
            overrides_at_run_time: 0,
            durable: self.state.is_some(),
            state: self.state.as_ref().map(|folder| folder.display().to_string()),
            files: self.house.files().names(),
        }
    }
}

/// The counters of limits by name, as many as may be told, and those of the rest.
fn named(by_limit: &ByLimit) -> (BTreeMap<String, Rulings>, Rulings) {
    let (mut limits, mut others) = (BTreeMap::new(), by_limit.others.all());
    let mut bytes = 0;
    for (name, counts) in &by_limit.limits {
        bytes += name.len();
        if limits.len() < STATS_LIMITS_MAX && bytes <= STATS_NAMES_BYTES_MAX {
            limits.insert(name.to_string(), counts.all());
        } else {
            others.add(counts.all());
        }
    }
    (limits, others)
}

impl Attempts {
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
