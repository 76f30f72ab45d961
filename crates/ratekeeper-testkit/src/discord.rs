//! A simulated Discord: what it counts, when it counts it, and what it says.
//!
//! It counts a request when it arrives, in virtual time. It is written from Discord's public
//! description of its limits and knows nothing of whoever has to obey them. [`Network`] is what
//! lies in between: requests and answers that take their time and overtake each other.

mod network;
mod place;

use std::collections::{HashMap, VecDeque};

pub use network::Network;
pub use place::{Kind, Place};

use crate::random::Random;

const SECOND: u64 = 1_000_000_000;

/// The limit on all requests: so many in any stretch of a second, however it is cut.
const GLOBAL: usize = 50;

/// A server with a fixed set of places to send requests to.
#[derive(Debug)]
pub struct Discord {
    places: Vec<Place>,
    random: Random,
    /// How often the names of buckets change; never where it is zero.
    renamed_every: u64,
    counters: HashMap<(u64, u64), Counter>,
    /// When the last requests were counted that the global limit counts.
    global: VecDeque<u64>,
    tally: Tally,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were served.
    pub served: u64,
    /// Requests refused by the limit on all of them.
    pub refused_globally: u64,
    /// Requests refused by the limit of their bucket.
    pub refused_by_bucket: u64,
    /// Requests refused because of others who use the same thing.
    pub refused_as_shared: u64,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header fields.
    pub fields: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    ends: u64,
    used: u64,
}

impl Discord {
    /// A server with these places, whose buckets get new names every so many nanoseconds, or never
    /// if that is zero.
    pub fn new(places: Vec<Place>, renamed_every: u64, seed: u64) -> Self {
        let (counters, global) = (HashMap::new(), VecDeque::new());
        let random = Random::new(seed);
        Self { places, random, renamed_every, counters, global, tally: Tally::default() }
    }

    /// The places that requests can be sent to.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What was counted until now.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// A request to a place: its method and a path, which has another identifier each time.
    pub fn request(&mut self, place: usize) -> (&'static str, String) {
        let terms = &self.places[place];
        // Identifiers begin with the time: these are of 2019, and of years to come.
        let (from, to) =
            if terms.is_old() { (1 << 59, 1 << 59 | 1 << 50) } else { (1 << 61, 1 << 62) };
        (terms.method, terms.path(self.random.between(from, to)))
    }

    /// Counts a request that arrives at `at` and answers it. Times never decrease.
    pub fn receive(&mut self, place: usize, at: u64) -> Reply {
        let terms = self.places[place].clone();
        if !terms.is_exempt() {
            while self.global.front().is_some_and(|&counted| counted + SECOND <= at) {
                self.global.pop_front();
            }
            if self.global.len() >= GLOBAL {
                self.tally.refused_globally += 1;
                return refuse_globally(self.global[0] + SECOND - at);
            }
        }
        if terms.crowded_of_100 > 0 && self.random.chance(terms.crowded_of_100, 100) {
            self.tally.refused_as_shared += 1;
            let wait = self.random.between(SECOND / 10, 2 * SECOND);
            return refuse(&terms, &Said { left: 0, wait, name: self.name(&terms, at) }, "shared");
        }
        let name = self.name(&terms, at);
        let own = if terms.is_alone() { 1 + place as u64 } else { 0 };
        let counter = self.counters.entry((name, terms.major << 16 | own)).or_default();
        if at >= counter.ends {
            // A window begins with the first request in it.
            *counter = Counter { ends: at + terms.window, used: 0 };
        }
        let wait = counter.ends - at;
        if counter.used >= terms.limit {
            self.tally.refused_by_bucket += 1;
            return refuse(&terms, &Said { left: 0, wait, name }, "user");
        }
        counter.used += 1;
        let left = terms.limit - counter.used;
        if !terms.is_exempt() {
            self.global.push_back(at);
        }
        self.tally.served += 1;
        let fields =
            if terms.is_silent() { Vec::new() } else { fields(&terms, at, left, wait, name) };
        Reply { status: 200, fields, body: "{}".to_owned() }
    }

    /// What a bucket is called at a moment.
    fn name(&self, terms: &Place, at: u64) -> u64 {
        let generation = match self.renamed_every {
            0 => 0,
            // Not all at the same moment.
            every => (at + terms.family * (every / 16)) / every,
        };
        Random::new(terms.family << 32 | generation).bits()
    }
}

/// What a refusal says.
struct Said {
    left: u64,
    wait: u64,
    name: u64,
}

fn fields(terms: &Place, at: u64, left: u64, wait: u64, name: u64) -> Vec<(&'static str, String)> {
    vec![
        ("content-type", "application/json".to_owned()),
        ("x-ratelimit-limit", terms.limit.to_string()),
        ("x-ratelimit-remaining", left.to_string()),
        ("x-ratelimit-reset", thousandths(at + wait)),
        ("x-ratelimit-reset-after", thousandths(wait)),
        ("x-ratelimit-bucket", format!("{name:016x}")),
    ]
}

fn refuse(terms: &Place, said: &Said, scope: &str) -> Reply {
    let mut all = fields(terms, 0, said.left, said.wait, said.name);
    all.push(("retry-after", said.wait.div_ceil(SECOND).to_string()));
    all.push(("x-ratelimit-scope", scope.to_owned()));
    Reply { status: 429, fields: all, body: body(said.wait, false) }
}

fn refuse_globally(wait: u64) -> Reply {
    let fields = vec![
        ("retry-after", wait.div_ceil(SECOND).to_string()),
        ("x-ratelimit-global", "true".to_owned()),
        ("x-ratelimit-scope", "global".to_owned()),
    ];
    Reply { status: 429, fields, body: body(wait, true) }
}

fn body(wait: u64, global: bool) -> String {
    let wait = thousandths(wait);
    format!(
        r#"{{"message": "You are being rate limited.", "retry_after": {wait}, "global": {global}}}"#
    )
}

/// Seconds with three decimals, the rest cut off.
fn thousandths(nanos: u64) -> String {
    format!("{}.{:03}", nanos / SECOND, nanos % SECOND / 1_000_000)
}
