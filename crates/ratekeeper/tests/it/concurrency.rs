//! Many threads at once, counted exactly.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Limiter, Moment, Nanos, Request};

const ROUNDS: usize = 10_000;
const THREADS: usize = 8;
const SPENDS: usize = 1_000;
const BURST: usize = 20;

fn limits(text: &str) -> Limits {
    Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap()
}

/// Runs `work` once a round on every thread, all of them at the same time, and returns what they
/// add up to in each round.
fn rounds(work: impl Fn(usize) -> usize + Sync) -> Vec<usize> {
    let (barrier, work) = (Barrier::new(THREADS), &work);
    let sums: Vec<_> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (round, sum) in sums.iter().enumerate() {
                    barrier.wait();
                    sum.fetch_add(work(round), Ordering::Relaxed);
                }
            });
        }
    });
    sums.into_iter().map(AtomicUsize::into_inner).collect()
}

fn spend_share(limiter: &Limiter, id: &str, now: Moment) -> usize {
    let spend = |_: &usize| limiter.spend("PerUser", id, 1, now).unwrap().allowed;
    (0..SPENDS / THREADS).filter(spend).count()
}

#[test]
fn of_a_thousand_concurrent_spends_on_a_fresh_bucket_exactly_the_burst_pass() {
    let limiter = Limiter::new(limits("PerUser: {burst: 20, count: 20, period: 1h}")).unwrap();
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let allowed = rounds(|round| spend_share(&limiter, &format!("user-{round}"), now));
    assert_eq!(allowed, vec![BURST; ROUNDS]);
}

#[test]
fn of_a_thousand_concurrent_spends_on_a_stale_bucket_exactly_the_burst_pass() {
    let limiter = Limiter::new(limits("PerUser: {burst: 20, count: 20, period: 1s}")).unwrap();
    let start = Moment::from_nanos(1_700_000_000_000_000_000);
    // Each round finds the bucket empty since the last, and full again by the time.
    let allowed = rounds(|round| {
        let now = start.after(Nanos::from_secs(2 * round as u64));
        spend_share(&limiter, "user", now)
    });
    assert_eq!(allowed, vec![BURST; ROUNDS]);
}

#[test]
fn limits_that_change_under_load_lose_no_spend() {
    let text = |burst: usize| format!("PerUser: {{burst: {burst}, count: 1, period: 365d}}");
    let limiter = Limiter::new(limits(&text(1_000_000))).unwrap();
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let done = AtomicUsize::new(0);
    let ids: Vec<_> = (0..100).map(|n| format!("user-{n}")).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..200_000 {
                    let id = &ids[n % ids.len()];
                    assert!(limiter.spend("PerUser", id, 1, now).unwrap().allowed);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut burst = 1_000_000;
        while done.load(Ordering::Relaxed) < 2 {
            burst = if burst == 1_000_000 { 2_000_000 } else { 1_000_000 };
            limiter.reload(limits(&text(burst)), now).unwrap();
        }
    });
    limiter.reload(limits(&text(1_000_000)), now).unwrap();
    for id in &ids {
        let left = limiter.check("PerUser", id, 0, now).unwrap().remaining;
        assert_eq!(left, 1_000_000 - 4_000, "{id}");
    }
}

#[test]
fn transactions_over_many_buckets_neither_deadlock_nor_lose_a_spend() {
    let limiter =
        Limiter::new(limits("PerUser: {burst: 4000000, count: 1, period: 365d}")).unwrap();
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let ids: Vec<_> = (0..64).map(|n| format!("user-{n}")).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, ids) = (&limiter, &ids);
            scope.spawn(move || {
                for round in 0..5_000 {
                    // Every thread takes the buckets in another order.
                    let ask = |n: usize| &ids[(n * 7 + thread * 5 + round) % 64];
                    let asks: [_; 8] = std::array::from_fn(|n| Request::new("PerUser", ask(n), 1));
                    assert!(limiter.transaction(&asks, now).unwrap().decision.allowed);
                }
            });
        }
    });
    let left = |id| limiter.check("PerUser", id, 0, now).unwrap().remaining;
    let spent: u64 = ids.iter().map(|id| 4_000_000 - left(id)).sum();
    assert_eq!(spent, (THREADS * 5_000 * 8) as u64);
}
