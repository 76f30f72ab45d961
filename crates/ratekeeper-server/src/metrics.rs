//! The counters as Prometheus reads them: the text format of `OpenMetrics`.
//!
//! Nothing is kept for it while requests are answered: a scrape reads the counters that are there.

mod families;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use ratekeeper::store::Held;

use crate::admin::ServerAdmin;
use crate::counters::DoorStats;
use crate::latency::Took;
use crate::observe::{ByDoor, ByLimit, Door, Rulings};
use crate::pressure::{Holder, HolderId, Memory, Refused};
use crate::stats::{SharedStore, Tries};

/// What the text is, for whoever sends it.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How much of it decisions by limit may take, and what limits hold of memory, so that with every door
/// open all of it stays below 200 KiB.
const METRICS_DECISIONS_BYTES_MAX: usize = 128 << 10;
const METRICS_HOLDERS_BYTES_MAX: usize = 40 << 10;
/// The longest number there is.
const COUNT_DIGITS_MAX: usize = 20;

/// What is told of each who holds memory.
const HOLDER_FAMILIES: [&str; 5] = [
    "limit_keys",
    "limit_share_keys",
    "limit_evictions_total",
    "limit_turned_away_total",
    "limit_share_full_total",
];

const VERDICTS: [&str; 3] = ["allowed", "denied", "shadow"];

/// What was told by name before, which is told by name from then on: a counter that vanished into
/// the others would go down.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Limits by number, at doors.
    named: HashSet<(usize, Door)>,
    /// How long their lines can become. It only grows, so that what did not fit once never will:
    /// a limit that was among the others stays among them.
    bytes: usize,
    /// The same of those who hold memory.
    holders: HashMap<HolderId, Box<str>>,
    holders_bytes: usize,
}

/// The counters as they are at one moment.
#[derive(Debug)]
pub(crate) struct Scrape {
    by_limit: ByLimit,
    decisions: Vec<Decisions>,
    doors: Vec<(&'static str, DoorStats, Took)>,
    stores: [(&'static str, Held); 4],
    memory: Memory,
    holdings: Vec<Holding>,
    shared: Option<SharedStore>,
    reloads: Tries,
    saves: Tries,
    limits: usize,
    overrides: [(&'static str, usize); 2],
    configured_secs: f64,
    started_secs: f64,
    uptime_secs: f64,
    is_ready: bool,
}

/// What was decided by one limit at one door, or by all others.
#[derive(Debug)]
struct Decisions {
    /// The name, escaped; none of the others.
    limit: Option<String>,
    door: &'static str,
    rulings: Rulings,
}

/// What one limit holds of a store, or all others.
#[derive(Clone, Debug, Default)]
struct Holding {
    store: &'static str,
    /// The name, escaped; none of the others.
    limit: Option<String>,
    keys: usize,
    share: usize,
    refused: Refused,
}

impl Metrics {
    /// The text. It is never longer than its bound: what decides how long it becomes are the names
    /// of limits, and those beyond are counted together.
    pub(crate) fn text(&self, mut scrape: Scrape) -> String {
        {
            let mut told = self.told.lock();
            scrape.decisions = told.decisions(&scrape.by_limit);
            scrape.holdings = told.holdings(&scrape.memory);
        }
        let mut registry = Registry::with_prefix("ratekeeper");
        registry.register_collector(Box::new(scrape));
        let mut text = String::new();
        // A text takes whatever is written to it.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Scrape {
    /// Reads everything once.
    pub(crate) fn new(admin: &ServerAdmin) -> Self {
        let engine = &admin.engine;
        let (snapshot, counts) = (engine.active_overrides.load(), engine.active_overrides.counts());
        let uptime: Duration = admin.uptime().into();
        let doors = admin.listening().iter();
        Self {
            by_limit: engine.observer.by_limit(),
            decisions: Vec::new(),
            doors: doors.map(|it| (it.door, it.counters.stats(), it.counters.took())).collect(),
            stores: engine.stores.held(),
            memory: admin.look_at_memory(),
            holdings: Vec::new(),
            shared: admin.shared(),
            reloads: admin.reloads.tries(),
            saves: admin.saves.tries(),
            limits: snapshot.limits.iter().len(),
            overrides: [("file", counts.in_files), ("run-time", counts.at_run_time)],
            configured_secs: snapshot.since.as_secs_f64(),
            started_secs: admin.started_wall().as_secs_f64(),
            uptime_secs: uptime.as_secs_f64(),
            is_ready: admin.is_ready(),
        }
    }
}

impl Told {
    fn decisions(&mut self, by_limit: &ByLimit) -> Vec<Decisions> {
        let (mut decisions, mut others) = (Vec::new(), by_limit.others);
        for (number, (name, counts)) in by_limit.limits.iter().enumerate() {
            let mut limit = None;
            for (door, rulings) in doors(counts) {
                if rulings == Rulings::default() {
                    continue;
                }
                let limit = limit.get_or_insert_with(|| escaped(name));
                if self.has_room(number, door, limit) {
                    let limit = Some(limit.clone());
                    decisions.push(Decisions { limit, door: door.name(), rulings });
                } else {
                    others.0[door as usize].add(rulings);
                }
            }
        }
        let others = doors(&others).map(|(door, rulings)| (door.name(), rulings));
        decisions.extend(others.map(|(door, rulings)| Decisions { limit: None, door, rulings }));
        decisions
    }

    /// Whether the lines of this limit at this door fit, also when their numbers grow.
    fn has_room(&mut self, number: usize, door: Door, limit: &str) -> bool {
        if self.named.contains(&(number, door)) {
            return true;
        }
        let line = |verdict: &str| {
            let form = "ratekeeper_decisions_total{limit=\"\",door=\"\",verdict=\"\"} \n";
            form.len() + limit.len() + door.name().len() + verdict.len() + COUNT_DIGITS_MAX
        };
        let bytes = self.bytes + VERDICTS.into_iter().map(line).sum::<usize>();
        let has_room = bytes <= METRICS_DECISIONS_BYTES_MAX;
        if has_room {
            self.named.insert((number, door));
            self.bytes = bytes;
        }
        has_room
    }
}

impl Told {
    /// Those that were refused something are named first.
    fn holdings(&mut self, memory: &Memory) -> Vec<Holding> {
        let mut holders: Vec<&Holder> = memory.holders.iter().map(|(holder, _)| holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.refused.rank()));
        let (mut holdings, mut others) = (Vec::new(), Vec::<Holding>::new());
        for holder in holders {
            let limit = self.name_of(holder);
            let holding = Holding::new(holder, limit);
            if holding.limit.is_some() {
                holdings.push(holding);
            } else if let Some(other) = others.iter_mut().find(|it| it.store == holding.store) {
                other.add(&holding);
            } else {
                others.push(holding);
            }
        }
        holdings.append(&mut others);
        holdings
    }

    /// What the lines of a holder call it, if they fit, also when their numbers grow. It keeps that
    /// name when the files call it something else, as its counters go on.
    fn name_of(&mut self, holder: &Holder) -> Option<String> {
        if let Some(name) = self.holders.get(&holder.id()) {
            return Some(name.to_string());
        }
        let mut name = escaped(&holder.name);
        // Another holder was called that in earlier files.
        if self.holders.iter().any(|(id, it)| id.0 == holder.store && **it == *name) {
            let _ = write!(name, " ({})", holder.owner.number());
        }
        let line = |family: &str| {
            let form = "ratekeeper_{store=\"\",limit=\"\"} \n";
            form.len() + family.len() + holder.store.len() + name.len() + COUNT_DIGITS_MAX
        };
        let bytes = self.holders_bytes + HOLDER_FAMILIES.into_iter().map(line).sum::<usize>();
        if bytes > METRICS_HOLDERS_BYTES_MAX {
            return None;
        }
        self.holders_bytes = bytes;
        self.holders.insert(holder.id(), name.clone().into());
        Some(name)
    }
}

impl Holding {
    fn new(holder: &Holder, limit: Option<String>) -> Self {
        let Holder { store, keys, share, refused, .. } = *holder;
        Self { store, limit, keys, share, refused }
    }

    fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.share += other.share;
        self.refused.add(other.refused);
    }
}

fn doors(counts: &ByDoor) -> impl Iterator<Item = (Door, Rulings)> {
    Door::ALL.into_iter().zip(counts.0)
}

/// A label's value as it stands between quotes.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}
