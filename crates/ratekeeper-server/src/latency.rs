//! How long answers took, in buckets of fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::counters::add;

/// The upper bounds of the buckets, in nanoseconds: 1, 2, 5 of every power of ten from a
/// microsecond to ten seconds. What takes longer is in one more.
pub(crate) const BOUNDS: [u64; 22] = bounds();

const fn bounds() -> [u64; 22] {
    let mut bounds = [0; 22];
    let (mut at, mut power) = (0, 1_000);
    while at < bounds.len() {
        bounds[at] = power
            * match at % 3 {
                0 => 1,
                1 => 2,
                _ => 5,
            };
        if at % 3 == 2 {
            power *= 10;
        }
        at += 1;
    }
    bounds
}

/// What one worker has measured. Only that worker may say more.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
    longest: AtomicU64,
}

impl Histogram {
    /// So many requests took so long, each.
    pub(crate) fn took(&self, nanos: u64, requests: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < nanos);
        add(&self.buckets[bucket], requests);
        add(&self.nanos, nanos.saturating_mul(requests));
        if nanos > self.longest.load(Ordering::Relaxed) {
            self.longest.store(nanos, Ordering::Relaxed);
        }
    }
}

/// What all workers of a door have measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    /// How many requests took at most each of [`BOUNDS`] and more than the one before, and at last
    /// how many took longer than all.
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    /// All of it together.
    pub(crate) nanos: u64,
    longest: u64,
}

/// How long answers took, from the read that brought their requests until they were written.
///
/// The requests of one read are answered by one write, so each of them took as long as all. The
/// percentiles are upper bounds: one of 1, 2, 5, 10, 20, 50 .. microseconds. At the HTTP door a request
/// counts from when all of it was read until its answer is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Latency {
    /// Half of the requests took no longer than this many microseconds.
    pub p50_us: u64,
    /// 99 of 100 took no longer than this.
    pub p99_us: u64,
    /// None took longer than this.
    pub max_us: u64,
}

impl Took {
    pub(crate) fn add(&mut self, worker: &Histogram) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (mine, theirs) in self.buckets.iter_mut().zip(&worker.buckets) {
            *mine += load(theirs);
        }
        self.nanos = self.nanos.wrapping_add(load(&worker.nanos));
        self.longest = self.longest.max(load(&worker.longest));
    }

    pub(crate) fn requests(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn latency(&self) -> Latency {
        let micros = |nanos: u64| nanos.div_ceil(1_000);
        Latency {
            p50_us: micros(self.percentile(50)),
            p99_us: micros(self.percentile(99)),
            max_us: micros(self.longest),
        }
    }

    /// What so many of 100 requests did not take longer than: the upper bound of a bucket, or the
    /// longest of all if that is less.
    fn percentile(&self, of_100: u128) -> u64 {
        let requests = u128::from(self.requests());
        let mut until = 0;
        for (bound, count) in BOUNDS.iter().zip(self.buckets) {
            until += u128::from(count);
            if until * 100 >= requests * of_100 {
                return self.longest.min(*bound);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests;
