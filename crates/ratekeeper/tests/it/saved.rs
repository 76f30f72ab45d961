//! What was saved and restored answers like what was never stopped.

#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ratekeeper::algorithm::average::{self, Average};
use ratekeeper::algorithm::quota::{self, Amend, Quota, Unit};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Kept, Reader, Saved, Section, Writer};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Decision, Keyed, Limiter, Merged, Mistake, Mode, Moment, Nanos, Request};
use ratekeeper_testkit::random::Random;

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
const SECRET: Secret = Secret::new(1, 2);
const SECOND: u64 = 1_000_000_000;

fn later(now: Moment, nanos: u64) -> Moment {
    now.after(Nanos::new(nanos.into()))
}

fn parse(defaults: &str, overrides: &str) -> Limits {
    let defaults = Source { name: "limits.yaml", text: defaults };
    let overrides = Source { name: "overrides.yaml", text: overrides };
    let overrides = (!overrides.text.is_empty()).then_some(&overrides);
    Limits::parse(&defaults, overrides).unwrap()
}

fn save(limiter: &Limiter, at: Moment) -> (Vec<u8>, Saved) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    let saved = limiter.save(&mut writer, at).unwrap();
    writer.finish().unwrap();
    (file, saved)
}

fn restore(file: &[u8], limits: Limits, memory: usize, at: Moment) -> Limiter {
    let mut reader = Reader::new(file).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Limits));
    let limiter = Limiter::restore(limits, memory, &mut reader, at).unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
    limiter
}

fn restart<A: Kept<Book = ()>>(keyed: &Keyed<A>, at: Moment) -> Keyed<A> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    keyed.save(&mut writer, at).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(A::SECTION));
    let keyed = Keyed::restore(MEMORY_MIN, &mut reader, at).unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
    keyed
}

/// The last can have overrides without a default.
const NAMES: [&str; 4] = ["A", "B", "C", "FailedAuthorizationsPerAccount"];
const IDS: u64 = 24;

/// Limits of some of the names, with overrides for some ids.
fn sample(random: &mut Random) -> Limits {
    let mut defaults = String::from("Z: {burst: 1, count: 1, period: 1s}\n");
    let mut overrides = String::new();
    for name in NAMES {
        let has_default = random.chance(3, 4);
        if has_default {
            writeln!(defaults, "{name}: {}", terms(random)).unwrap();
        }
        if has_default || name == NAMES[3] {
            for id in (0..IDS).filter(|id| id % 3 == 0) {
                if random.chance(1, 2) {
                    writeln!(overrides, "{name}:{id}: {}", terms(random)).unwrap();
                }
            }
        }
    }
    parse(&defaults, &overrides)
}

/// Few enough that limits often return to what they were.
fn terms(random: &mut Random) -> String {
    let (burst, count) = (random.pick(&[1, 5, 20, 1_000]), random.pick(&[1, 3, 7]));
    let period = random.pick(&["1s", "11ns", "10s", "1h"]);
    format!("{{burst: {burst}, count: {count}, period: {period}}}")
}

type Answer = (Option<Result<Decision, Mistake>>, Option<Result<Merged, Mistake>>);

/// One random step, and its answers by each limiter.
fn step<const N: usize>(random: &mut Random, limiters: [&Limiter; N], now: Moment) -> [Answer; N] {
    let ids: [_; 3] = std::array::from_fn(|_| random.below(IDS).to_string());
    let modes = [Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly];
    let asks = [0, 1, 2].map(|n: usize| {
        let cost = random.pick(&[0, 1, 1, 2, 5, 19]);
        Request::new(random.pick(&NAMES), &ids[n], cost).with_mode(random.pick(&modes))
    });
    let (kind, ask) = (random.below(12), asks[0]);
    limiters.map(|limiter| match kind {
        0 => (Some(limiter.check(ask.limit, ask.id, ask.cost, now)), None),
        1 => (Some(limiter.refund(ask.limit, ask.id, ask.cost, now)), None),
        2 => (Some(limiter.reset(ask.limit, ask.id, now)), None),
        3..7 => (None, Some(limiter.transaction(&asks, now))),
        _ => (Some(limiter.spend(ask.limit, ask.id, ask.cost, now)), None),
    })
}

fn pause(random: &mut Random) -> u64 {
    random.pick(&[0, 0, 1, 5, SECOND / 7, SECOND, 10 * SECOND])
}

#[test]
fn a_restart_changes_no_answer() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (limits, mut now) = (sample(&mut random), START);
        let twin = Limiter::with_secret(limits.clone(), MEMORY_MIN, SECRET).unwrap();
        let mut limiter = Limiter::with_secret(limits.clone(), MEMORY_MIN, SECRET).unwrap();
        for n in 0..3_000 {
            now = later(now, pause(&mut random));
            let [answer, expected] = step(&mut random, [&limiter, &twin], now);
            assert_eq!(answer, expected, "step {n} of seed {seed}");
            if random.chance(1, 100) {
                let (file, _) = save(&limiter, now);
                now = later(now, pause(&mut random));
                limiter = restore(&file, limits.clone(), MEMORY_MIN, now);
            }
        }
    }
}

#[test]
fn a_restart_with_other_limits_is_a_reload() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut now = START;
        let limits = sample(&mut random);
        let twin = Limiter::with_secret(limits.clone(), MEMORY_MIN, SECRET).unwrap();
        let mut limiter = Limiter::with_secret(limits, MEMORY_MIN, SECRET).unwrap();
        for n in 0..3_000 {
            now = later(now, pause(&mut random));
            let [answer, expected] = step(&mut random, [&limiter, &twin], now);
            assert_eq!(answer, expected, "step {n} of seed {seed}");
            if random.chance(1, 50) {
                let limits = sample(&mut random);
                let (file, _) = save(&limiter, now);
                now = later(now, pause(&mut random));
                twin.reload(limits.clone(), now).unwrap();
                if random.chance(1, 2) {
                    limiter = restore(&file, limits, MEMORY_MIN, now);
                } else {
                    limiter.reload(limits, now).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_restart_changes_no_average() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (twin, mut now) = (Keyed::<Average>::with_secret(MEMORY_MIN, SECRET).unwrap(), START);
        let mut averages = Keyed::<Average>::with_secret(MEMORY_MIN, SECRET).unwrap();
        let rules = [true, false].map(|strict| average::Rule::new(5.0, 100.0, strict).unwrap());
        // Less than the twenty periods after which an average may be forgotten.
        for _ in 0..1_500 {
            now = later(now, random.below(2 * SECOND));
            let key = random.below(30);
            let question = |keyed: &Keyed<Average>| {
                keyed.question(&[b"key", &key.to_le_bytes()], rules[usize::from(key < 15)])
            };
            let mut outcomes = [average::Outcome::default(); 2];
            averages.decide(&[question(&averages)], &mut outcomes[..1], now);
            twin.decide(&[question(&twin)], &mut outcomes[1..], now);
            assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
            if random.chance(1, 50) {
                averages = restart(&averages, now);
            }
        }
    }
}

#[test]
fn a_restart_changes_no_quota() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (twin, mut now) = (Keyed::<Quota>::with_secret(MEMORY_MIN, SECRET).unwrap(), START);
        let mut quotas = Keyed::<Quota>::with_secret(MEMORY_MIN, SECRET).unwrap();
        for _ in 0..3_000 {
            now = later(now, pause(&mut random));
            let (key, ask) = (random.below(30), quota_ask(&mut random));
            let question = |keyed: &Keyed<Quota>| keyed.question(&[&key.to_le_bytes()], ask);
            let mut outcomes = [quota::Outcome::default(); 2];
            quotas.decide(&[question(&quotas)], &mut outcomes[..1], now);
            twin.decide(&[question(&twin)], &mut outcomes[1..], now);
            assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
            if random.chance(1, 50) {
                quotas = restart(&quotas, now);
            }
        }
    }
}

fn quota_ask(random: &mut Random) -> quota::Ask {
    let value = random.below(20);
    let amend = random.pick(&[Amend::Patch, Amend::Increase, Amend::Decrease]);
    match random.below(10) {
        0 => quota::Ask::Query,
        1 => quota::Ask::AmendQuota(amend, value),
        2 => quota::Ask::AmendLifetime(amend, value),
        3 => quota::Ask::Touch,
        4 => quota::Ask::Purge,
        _ => quota::Ask::Insert {
            quota: 10,
            usage: random.below(4),
            ttl: 1 + value,
            unit: random.pick(&[Unit::Nanoseconds, Unit::Milliseconds, Unit::Seconds]),
        },
    }
}

const HOURLY: &str = "A: {burst: 10, count: 10, period: 1h}";

#[test]
fn buckets_that_are_full_again_are_not_saved() {
    let limiter = Limiter::with_memory(parse(HOURLY, ""), MEMORY_MIN).unwrap();
    let _ = limiter.spend("A", "one", 1, START).unwrap();
    let _ = limiter.spend("A", "ten", 10, START).unwrap();
    let size = |secs| save(&limiter, later(START, secs * SECOND)).1;
    assert_eq!([0, 359, 360, 3_599, 3_600].map(|secs| size(secs).buckets), [2, 2, 1, 1, 0]);
    assert_eq!(size(0).bytes - size(360).bytes, 32);

    let averages = Keyed::<Average>::with_secret(MEMORY_MIN, SECRET).unwrap();
    let question = averages.question(&[b"x"], average::Rule::new(1.0, 1.0, true).unwrap());
    averages.decide(&[question], &mut [average::Outcome::default()], START);
    assert_eq!(restart(&averages, later(START, SECOND)).held().keys, 1);
    assert_eq!(restart(&averages, later(START, 60 * SECOND)).held().keys, 0);
}

#[test]
fn in_less_memory_those_that_owe_least_are_forgotten_and_counted() {
    let (heavy, all) = (1_000, 200_000);
    let limiter = Limiter::with_memory(parse(HOURLY, ""), 64 << 20).unwrap();
    for n in 0..all {
        let (id, cost) = (n.to_string(), if n < heavy { 9 } else { 1 });
        assert!(limiter.spend("A", &id, cost, START).unwrap().allowed);
        // And some that are being denied.
        assert!(n % 1_000 != 0 || !limiter.check("A", &id, 10, START).unwrap().allowed);
    }
    let (file, saved) = save(&limiter, START);
    assert_eq!(saved.buckets, all);
    for memory in [MEMORY_MIN, 4 << 20] {
        let limiter = restore(&file, parse(HOURLY, ""), memory, START);
        let held = limiter.held();
        assert!(held.keys * 32 > memory / 2, "{held:?}");
        assert_eq!(held.keys as u64 + held.tally.evicted, all);
        assert_eq!(held.tally.tokens_forgiven, held.tally.evicted, "each owed one token");
        for n in (0..all).filter(|&n| n < heavy || n % 1_000 == 0) {
            let left = limiter.check("A", &n.to_string(), 0, START).unwrap().remaining;
            assert_eq!(left, if n < heavy { 1 } else { 9 }, "{n} was forgotten");
        }
    }
}

#[test]
fn where_all_are_being_denied_some_are_forgotten_and_counted() {
    let all = 60_000;
    let limiter = Limiter::with_memory(parse(HOURLY, ""), 64 << 20).unwrap();
    for n in 0..all {
        let id = n.to_string();
        let _ = limiter.spend("A", &id, 10, START).unwrap();
        let _ = limiter.spend("A", &id, 1, START).unwrap();
    }
    let limiter = restore(&save(&limiter, START).0, parse(HOURLY, ""), MEMORY_MIN, START);
    let held = limiter.held();
    assert_eq!(held.keys as u64 + held.tally.evicted, all);
    assert_eq!(held.tally.tokens_forgiven, 10 * held.tally.evicted);
}

#[test]
fn more_or_fewer_shards_hold_the_same() {
    let spend = |limiter: &Limiter, n: u64| {
        let _ = limiter.spend("A", &n.to_string(), 1 + n % 9, START).unwrap();
    };
    let mut limiter = Limiter::with_memory(parse(HOURLY, ""), 256 << 20).unwrap();
    (0..100_000).for_each(|n| spend(&limiter, n));
    for memory in [16 << 20, 512 << 20, 32 << 20] {
        limiter = restore(&save(&limiter, START).0, parse(HOURLY, ""), memory, START);
        assert_eq!((limiter.held().keys, limiter.held().tally.evicted), (100_000, 0));
    }
    for n in 0..100_000 {
        let left = limiter.check("A", &n.to_string(), 0, START).unwrap().remaining;
        assert_eq!(left, 9 - n % 9);
    }
}

#[test]
fn what_is_saved_under_load_is_what_was_spent_by_then() {
    let texts = [1_000_000, 2_000_000]
        .map(|burst| format!("PerUser: {{burst: {burst}, count: 1, period: 365d}}"));
    let limiter = Limiter::with_memory(parse(&texts[0], ""), 64 << 20).unwrap();
    let ids: Vec<_> = (0..100).map(|n| format!("user-{n}")).collect();
    let counters = || ids.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let (begun, done, is_over) = (counters(), counters(), AtomicBool::new(false));
    let read = |counters: &[AtomicU64]| -> Vec<_> {
        counters.iter().map(|counter| counter.load(Ordering::SeqCst)).collect()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..ids.len()).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                begun[n].fetch_add(1, Ordering::SeqCst);
                let _ = limiter.spend("PerUser", &ids[n], 1, START).unwrap();
                done[n].fetch_add(1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            for text in texts.iter().cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                limiter.reload(parse(text, ""), START).unwrap();
            }
        });
        for _ in 0..200 {
            let least = read(&done);
            let (file, _) = save(&limiter, START);
            let most = read(&begun);
            let restored = restore(&file, parse(&texts[0], ""), MEMORY_MIN, START);
            for (n, id) in ids.iter().enumerate() {
                let left = restored.check("PerUser", id, 0, START).unwrap().remaining;
                assert!((least[n]..=most[n]).contains(&(1_000_000 - left)), "{id}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
