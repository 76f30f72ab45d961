//! What can be read of a running server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Moment;
use ratekeeper::store::Held;
use ratekeeper_redis::{Shared, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::counters::DoorStats;
pub use crate::latency::Latency;
use crate::observe::Counted;
pub use crate::observe::Rulings;
use crate::pressure::Holder;

/// Everything that is counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// The version of the program.
    pub version: String,
    /// When this was read, in seconds since 1970.
    pub at: f64,
    /// How long the server has been running.
    pub uptime_secs: u64,
    /// What each open door was asked.
    pub doors: BTreeMap<String, Door>,
    /// What each store holds.
    pub stores: BTreeMap<String, Store>,
    /// Where buckets are shared with other servers, and how that goes; nothing if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedStore>,
    /// How often files took effect, and how often they were refused.
    pub reloads: Tries,
    /// How often what was spent was saved, and how often that failed.
    pub saves: Tries,
    /// What was decided by each limit, at all doors, since the start; also by those that are gone.
    pub limits: BTreeMap<String, Rulings>,
    /// What was decided by limits that are too many to be told by name.
    pub others: Rulings,
    /// Who asked most, of all limits.
    pub busiest: Vec<BusyOf>,
    /// Who was denied most, of all limits, also by limits in shadow.
    pub most_denied: Vec<BusyOf>,
    /// What is in force.
    pub configured: Configured,
    /// Whether requests are answered, and will go on to be.
    pub ready: bool,
    /// Which limits are short of memory, and what that does to their ids; nothing if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<String>,
}

/// A door and its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Door {
    /// Where it listens.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// What it was asked.
    #[serde(flatten)]
    pub counts: DoorStats,
    /// How long its answers took.
    pub latency: Latency,
}

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Store {
    /// How many keys.
    pub keys: usize,
    /// How much memory they take.
    pub bytes: usize,
    /// How much memory they can take.
    pub bytes_max: usize,
    /// Keys that were forgotten although they owed something.
    pub evicted: u64,
    /// Tokens they owed.
    pub tokens_forgiven: u64,
    /// Asks that were denied because nothing could be forgotten for them.
    pub turned_away: u64,
    /// Who holds the keys: those that are short of memory first, then those that hold most. All
    /// stores together tell 256 of them at most.
    #[serde(default)]
    pub by_limit: Vec<LimitMemory>,
}

/// What a limit holds of a store. Averages are told by the rule of the UDP door that they are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitMemory {
    /// The name of the limit, or what stands for it, in parentheses or with its place.
    pub limit: String,
    /// How many keys it holds, also those that may be forgotten for free.
    pub keys: usize,
    /// How many keys it can hold at least, however many the others want.
    pub share: usize,
    /// Its keys that were forgotten although they owed something.
    pub evicted: u64,
    /// Tokens they owed.
    pub tokens_forgiven: u64,
    /// Its asks that were denied because nothing could be forgotten for them.
    pub turned_away: u64,
    /// Its new keys that came when its share was full, and no key near them could be forgotten for free.
    #[serde(default)]
    pub share_full: u64,
    /// Whether any of that happened in the last ten seconds.
    pub under_pressure: bool,
}

/// A store that is shared with other servers. Counts are of asks, since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedStore {
    /// Where it is, without credentials.
    pub address: String,
    /// Whether it answers, as far as is known.
    pub up: bool,
    /// Since when it does not, in whole seconds.
    pub down_secs: Option<u64>,
    /// Why it does not, in words.
    pub why: Option<String>,
    /// Round trips to it.
    pub trips: u64,
    /// Asks that it decided.
    pub decided: u64,
    /// Asks that were denied without asking it, because their bucket is known to be empty.
    pub remembered: u64,
    /// Asks that were allowed without asking it, from tokens taken in advance.
    pub leased: u64,
    /// Asks that this server's memory decided because it did not answer.
    pub local: u64,
    /// Asks that passed because it did not answer.
    pub let_through: u64,
    /// Asks that were denied because it did not answer.
    pub turned_away: u64,
    /// Asks that it did not answer, by why.
    pub failures: BTreeMap<String, u64>,
}

impl SharedStore {
    pub(crate) fn new(shared: &Shared, now: Moment) -> Self {
        let health = shared.health();
        let (down_secs, why) = match health.state {
            State::New | State::Up => (None, None),
            State::Down { since, why } => {
                (Some(Duration::from(now.since(since)).as_secs()), Some(why))
            }
        };
        let failures = health.failures.into_iter().filter(|(_, count)| *count > 0);
        Self {
            address: shared.address().to_string(),
            up: why.is_none(),
            down_secs,
            why,
            trips: health.trips,
            decided: health.decided,
            remembered: health.remembered,
            leased: health.leased,
            local: health.local,
            let_through: health.let_through,
            turned_away: health.turned_away,
            failures: failures.map(|(kind, count)| (kind.to_owned(), count)).collect(),
        }
    }
}

/// How often something was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tries {
    /// With success.
    pub done: u64,
    /// Without.
    pub failed: u64,
}

/// An id of a limit, and how often it was counted: at most `count` times, and at least
/// `count - error` times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BusyOf {
    /// The name of the limit.
    pub limit: String,
    /// The id in its one spelling; one that is very long is cut, and ends in `…`.
    pub id: String,
    /// How often, never too low.
    pub count: u64,
    /// How much too high that may be.
    pub error: u64,
}

/// An id, and how often it was counted: at most `count` times, and at least `count - error` times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BusyId {
    /// The id in its one spelling; one that is very long is cut, and ends in `…`.
    pub id: String,
    /// How often, never too low.
    pub count: u64,
    /// How much too high that may be.
    pub error: u64,
}

/// Who asks one limit most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Busiest {
    /// The name of the limit.
    pub limit: String,
    /// How often it was asked.
    pub asked: u64,
    /// How often it denied.
    pub denied: u64,
    /// How often it would have denied, had it not been in shadow.
    pub shadow: u64,
    /// Who asked most.
    pub busiest: Vec<BusyId>,
    /// Who was denied most, also in shadow.
    pub most_denied: Vec<BusyId>,
}

/// What is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Configured {
    /// Since when, in seconds since 1970.
    pub since: f64,
    /// How often something else has come into force since the start: other files, or an override.
    pub version: u64,
    /// How many limits there are, with buckets.
    pub limits: usize,
    /// How many overrides are in files.
    pub overrides_in_files: usize,
    /// How many overrides were made at run time.
    pub overrides_at_run_time: usize,
    /// Whether overrides that were made at run time outlive the process.
    pub durable: bool,
    /// Where what was spent is saved, and they are.
    pub state: Option<String>,
    /// The files, and the starters in place of those that are not there.
    pub files: Vec<String>,
}

impl From<Held> for Store {
    fn from(held: Held) -> Self {
        Self {
            keys: held.keys,
            bytes: held.bytes,
            bytes_max: held.bytes_max,
            evicted: held.tally.evicted,
            tokens_forgiven: held.tally.tokens_forgiven,
            turned_away: held.tally.turned_away,
            by_limit: Vec::new(),
        }
    }
}

impl From<(Holder, bool)> for LimitMemory {
    fn from((holder, under_pressure): (Holder, bool)) -> Self {
        Self {
            limit: holder.name,
            keys: holder.keys,
            share: holder.share,
            evicted: holder.refused.evicted,
            tokens_forgiven: holder.tokens_forgiven,
            turned_away: holder.refused.turned_away,
            share_full: holder.refused.share_full,
            under_pressure,
        }
    }
}

impl From<Counted> for BusyId {
    fn from(Counted { id, count, error }: Counted) -> Self {
        Self { id, count, error }
    }
}

impl From<(Arc<str>, Counted)> for BusyOf {
    fn from((limit, Counted { id, count, error }): (Arc<str>, Counted)) -> Self {
        Self { limit: limit.to_string(), id, count, error }
    }
}
