//! Decisions in process, and requests that a tracker is asked about.

use ratekeeper::limiter::{Batch, MEMORY_DEFAULT};
use ratekeeper::limits::{Limit, Limits};
use ratekeeper::{Limiter, Nanos, Request};

use super::{KEYS, SECRET, START, Subject, WIDE, expect_all, ids, moment};
use crate::bench::Failure;
use crate::bench::tracker::{path, track, tracker};

const BATCH: usize = 64;

pub(super) const SUBJECTS: [Subject; 5] = [
    Subject { name: "one ask, allowed", work: spend },
    Subject { name: "one ask, denied", work: deny },
    Subject { name: "one ask of a batch of 64, allowed", work: batch },
    Subject { name: "a transaction over two buckets, allowed", work: transaction },
    Subject { name: "a tracked request: limited and track", work: tracked },
];

/// A limiter whose limits `PerClient` and `PerSite` are not used up; `Tight` is at once.
pub(super) fn limiter() -> Result<Limiter, Failure> {
    let limit = |burst| Limit::new(burst, 1, Nanos::from_secs(3_600));
    let limits = Limits::new().with("PerClient", limit(WIDE)?)?.with("PerSite", limit(WIDE)?)?;
    Ok(Limiter::with_secret(limits.with("Tight", limit(1)?)?, MEMORY_DEFAULT, SECRET)?)
}

fn spend(times: usize) -> Result<(), Failure> {
    let (limiter, ids) = (limiter()?, ids());
    let mut allowed = 0;
    for id in ids.iter().cycle().take(times) {
        allowed += u64::from(limiter.spend("PerClient", id, 1, START)?.allowed);
    }
    expect_all(allowed, times)
}

fn deny(times: usize) -> Result<(), Failure> {
    let (limiter, ids) = (limiter()?, ids());
    let mut allowed = 0;
    for id in ids.iter().cycle().take(times) {
        allowed += u64::from(limiter.spend("Tight", id, 1, START)?.allowed);
    }
    expect_all(allowed, KEYS)
}

fn batch(times: usize) -> Result<(), Failure> {
    let (limiter, ids, mut batch) = (limiter()?, ids(), Batch::default());
    let asks: Vec<_> = ids.iter().map(|id| Request::new("PerClient", id, 1)).collect();
    let batches = asks.chunks_exact(BATCH).cycle().take(times / BATCH);
    let mut allowed = 0;
    for asks in batches {
        let answers = limiter.batch(&mut batch, asks, START);
        allowed += answers.iter().map(|it| u64::from(it.is_ok_and(|it| it.allowed))).sum::<u64>();
    }
    expect_all(allowed, times)
}

fn transaction(times: usize) -> Result<(), Failure> {
    let (limiter, ids) = (limiter()?, ids());
    let mut allowed = 0;
    for id in ids.iter().cycle().take(times) {
        let asks = ["PerClient", "PerSite"].map(|limit| Request::new(limit, id, 1));
        allowed += u64::from(limiter.transaction(&asks, START)?.decision.allowed);
    }
    expect_all(allowed, times)
}

fn tracked(times: usize) -> Result<(), Failure> {
    let paths: Vec<_> = (0..).take(KEYS).map(path).collect();
    let mut tracker = tracker();
    let mut allowed = 0;
    for (request, path) in paths.iter().cycle().take(times).enumerate() {
        allowed += u64::from(track(&mut tracker, path, moment(request)));
    }
    expect_all(allowed, times)
}
