//! What can be read of a running server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tollgate::store::Held;

pub use crate::counters::DoorStats;

/// Everything that is counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The version of the program.
    pub version: String,
    /// How long the server has been running.
    pub uptime_secs: u64,
    /// What each open door was asked.
    pub doors: BTreeMap<String, Door>,
    /// What each store holds.
    pub stores: BTreeMap<String, Store>,
    /// How often files took effect, and how often they were refused.
    pub reloads: Tries,
    /// How often what was spent was saved, and how often that failed.
    pub saves: Tries,
}

/// A door and its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Door {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it was asked.
    #[serde(flatten)]
    pub counts: DoorStats,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// How often something was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    /// With success.
    pub done: u64,
    /// Without.
    pub failed: u64,
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
        }
    }
}
