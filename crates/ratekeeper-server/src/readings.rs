//! Everything that can be read of a running server, for whoever may read it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::admin::{Listening, ServerAdmin};
use crate::metrics::Scrape;
use crate::observe::{ByLimit, List};
use crate::pressure::{Holder, Memory};
use crate::stats::{self, Busiest, BusyId, BusyOf, Rulings, Stats};

/// How many of the busiest ids of all limits are told.
const BUSIEST_OVERALL: usize = 20;
/// How many of the busiest ids of one limit are told.
const BUSIEST_OF_LIMIT: usize = 50;
/// How many limits have their counters told by name, and how long those names may be together: so
/// that all of it stays far below what the control socket tells at most.
const STATS_LIMITS_MAX: usize = 1000;
const STATS_NAMES_BYTES_MAX: usize = 256 << 10;
/// The same of those who hold memory.
const STATS_HOLDERS_MAX: usize = 256;
const STATS_HOLDERS_BYTES_MAX: usize = 32 << 10;

impl ServerAdmin {
    /// What was counted so far.
    pub(crate) fn stats(&self) -> Stats {
        let uptime: Duration = self.uptime().into();
        let observer = &self.engine.observer;
        let by_limit = observer.by_limit();
        let overall = |list| {
            let listed = observer.listed_overall(&by_limit, list, BUSIEST_OVERALL);
            listed.into_iter().map(BusyOf::from).collect()
        };
        let (busiest, most_denied) = (overall(List::Busiest), overall(List::MostDenied));
        let (limits, others) = named(&by_limit);
        let memory = self.look_at_memory();
        let pressure = memory.sentence.as_ref().map(|sentence| sentence.named.clone());
        Stats {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: self.time.wall().as_secs_f64(),
            uptime_secs: uptime.as_secs(),
            doors: self.doors(),
            stores: self.stores(memory),
            shared: self.shared(),
            reloads: self.reloads.tries(),
            saves: self.saves.tries(),
            limits,
            others,
            busiest,
            most_denied,
            configured: self.configured(),
            ready: self.is_ready(),
            pressure,
        }
    }

    /// Who asks a limit most, if there is such a limit.
    pub(crate) fn busiest(&self, limit: &str) -> Option<Busiest> {
        let observer = &self.engine.observer;
        let ids = |list| {
            let listed = observer.listed(limit, list, BUSIEST_OF_LIMIT)?;
            Some(listed.into_iter().map(BusyId::from).collect())
        };
        let (busiest, most_denied) = (ids(List::Busiest)?, ids(List::MostDenied)?);
        let counts = observer.of_limit(limit)?.all();
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
            (it.door.to_owned(), stats::Door { address: it.address, counts, latency })
        };
        self.listening().iter().map(door).collect()
    }

    fn stores(&self, memory: Memory) -> BTreeMap<String, stats::Store> {
        let held = self.engine.stores.held().into_iter();
        let mut stores: BTreeMap<String, stats::Store> =
            held.map(|(name, held)| (name.to_owned(), held.into())).collect();
        for told in told(memory.holders) {
            if let Some(store) = stores.get_mut(told.0.store) {
                store.by_limit.push(told.into());
            }
        }
        stores
    }

    /// Where buckets are shared, and how that goes.
    pub(crate) fn shared(&self) -> Option<stats::SharedStore> {
        let shared = self.engine.stores.shared.as_ref()?;
        Some(stats::SharedStore::new(shared, self.time.now()))
    }

    fn configured(&self) -> stats::Configured {
        let (snapshot, counts) =
            (self.engine.active_overrides.load(), self.engine.active_overrides.counts());
        stats::Configured {
            since: snapshot.since.as_secs_f64(),
            version: snapshot.version,
            limits: snapshot.limits.iter().len(),
            overrides_in_files: counts.in_files,
            overrides_at_run_time: counts.at_run_time,
            durable: counts.durable,
            state: self.state.as_ref().map(|folder| folder.display().to_string()),
            files: self.engine.files().names(),
        }
    }
}

/// Those that hold memory, as many as may be told: who is short of it first, then who holds most.
fn told(mut holders: Vec<(Holder, bool)>) -> impl Iterator<Item = (Holder, bool)> {
    holders.sort_by(|(a, a_is_short), (b, b_is_short)| {
        let order = (b_is_short, b.keys).cmp(&(a_is_short, a.keys));
        order.then_with(|| a.name.cmp(&b.name))
    });
    let mut bytes = 0;
    holders.into_iter().take(STATS_HOLDERS_MAX).take_while(move |(holder, _)| {
        bytes += holder.name.len();
        bytes <= STATS_HOLDERS_BYTES_MAX
    })
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
