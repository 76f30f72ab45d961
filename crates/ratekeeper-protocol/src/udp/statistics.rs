//! How often keys were used, and how much at most, for those keys that somebody wants to watch.
//!
//! A table of fixed size. Each key has a set of places where it can be; where all are taken, the
//! key that was used least gives way, so a flood of keys that come once pushes out its own kind.

use parking_lot::Mutex;
use ratekeeper::Moment;
use ratekeeper::store::Fingerprint;

/// How many keys have statistics at most.
pub const STATISTICS_KEYS_MAX: usize = SHARDS * SETS * WAYS;
/// Over how long the highest rate is taken, in seconds; aligned to the epoch.
pub const BUCKET_SECS: u64 = 300;

const SHARDS: usize = 16;
const SETS: usize = 512;
const WAYS: usize = 8;
const BUCKET_NANOS: u64 = BUCKET_SECS * 1_000_000_000;

/// Statistics of many keys, for any number of threads.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    shards: [Mutex<Shard>; SHARDS],
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// How often it was used.
    pub(super) requests: u64,
    /// How often it was over its limit.
    pub(super) over: u64,
    /// Its highest rate in the last bucket that is over.
    pub(super) last_max_rate: f64,
}

/// On a cache line of its own, so that shards do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    /// Empty until the first use, then of `SETS`.
    sets: Vec<[Line; WAYS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Zero for none; no fingerprint is.
    key: u128,
    requests: u64,
    over: u64,
    /// The number of the bucket that `max` is of.
    bucket: u64,
    max: f64,
    /// The highest rate in the bucket before.
    last_max: f64,
}

impl Statistics {
    /// Counts a use.
    pub(super) fn count(&self, key: Fingerprint, is_over: bool, rate: f64, now: Moment) {
        let key = key.get();
        let Some(shard) = self.shards.get(place(key, 0, SHARDS)) else { return };
        let mut shard = shard.lock();
        if shard.sets.is_empty() {
            shard.sets = vec![[Line::default(); WAYS]; SETS];
        }
        let set = shard.sets.get_mut(place(key, 32, SETS));
        if let Some(line) = set.and_then(|set| line_for(set, key)) {
            line.count(is_over, rate, bucket(now));
        }
    }

    /// What is known of a key; nothing but zeros if it was not counted.
    pub(super) fn summary(&self, key: Fingerprint, now: Moment) -> Summary {
        let key = key.get();
        let Some(shard) = self.shards.get(place(key, 0, SHARDS)) else {
            return Summary::default();
        };
        let shard = shard.lock();
        let set = shard.sets.get(place(key, 32, SETS));
        let line = set.and_then(|set| set.iter().find(|line| line.key == key));
        line.map(|line| line.summary(bucket(now))).unwrap_or_default()
    }
}

/// One of `count` places, by the bits from `shift` on.
fn place(key: u128, shift: u32, count: usize) -> usize {
    ((key >> shift) as usize).checked_rem(count).unwrap_or_default()
}

fn bucket(now: Moment) -> u64 {
    now.as_nanos().div_euclid(BUCKET_NANOS)
}

/// The line of the key, or else the one that is to become its own.
fn line_for(set: &mut [Line; WAYS], key: u128) -> Option<&mut Line> {
    // One that is not taken has no requests, and so is the least.
    let least = set.iter().enumerate().min_by_key(|(_, line)| line.requests)?.0;
    let known = set.iter().position(|line| line.key == key);
    let line = set.get_mut(known.unwrap_or(least))?;
    if known.is_none() {
        *line = Line { key, ..Line::default() };
    }
    Some(line)
}

impl Line {
    fn count(&mut self, is_over: bool, rate: f64, bucket: u64) {
        self.requests = self.requests.saturating_add(1);
        self.over = self.over.saturating_add(u64::from(is_over));
        if bucket > self.bucket {
            let is_next = bucket == self.bucket.saturating_add(1);
            self.last_max = if is_next { self.max } else { 0.0 };
            (self.bucket, self.max) = (bucket, rate);
        } else if bucket == self.bucket {
            self.max = self.max.max(rate);
        } else if bucket == self.bucket.saturating_sub(1) {
            // Another thread has read the clock a moment later, and was here first.
            self.last_max = self.last_max.max(rate);
        }
    }

    fn summary(&self, bucket: u64) -> Summary {
        let last_max_rate = if bucket == self.bucket {
            self.last_max
        } else if bucket == self.bucket.saturating_add(1) {
            self.max
        } else {
            0.0
        };
        Summary { requests: self.requests, over: self.over, last_max_rate }
    }
}
