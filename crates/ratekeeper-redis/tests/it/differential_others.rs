//! The scripts of averages and quotas against the engine's functions.

use std::collections::HashMap;

use ratekeeper::algorithm::Change;
use ratekeeper::algorithm::average::{self, AverageCell};
use ratekeeper::algorithm::quota::{self, Amend, QuotaCell, Unit};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{AverageAsk, QuotaAsk, Visit};
use ratekeeper_testkit::random::Random;

use crate::servers::{Blocking, GENEROUS, START, Single};

const BATCHES: usize = 1_000;
const BATCH: usize = 100;

/// The cell after a change.
fn apply<C: Copy>(cells: &mut HashMap<usize, C>, key: usize, change: Change<C>) {
    match change {
        Change::Keep => {}
        Change::Put(cell) | Change::Mark(cell) => drop(cells.insert(key, cell)),
        Change::Remove => drop(cells.remove(&key)),
    }
}

#[test]
fn an_average_is_the_same_double_in_redis_and_in_the_engine() {
    let server = Single::valkey();
    let link = Blocking::open(&server.url());
    let seed = 5;
    let mut random = Random::new(seed);
    let mut rules = Vec::new();
    for _ in 0..16 {
        let mut number =
            |bits| f64::from(u32::try_from(random.log_between(1, 1_u64 << bits)).unwrap());
        let (limit, period) = (number(20) / 16.0, number(30) / 1_024.0);
        rules.push(average::Rule::new(limit, period, random.chance(1, 2)).unwrap());
    }
    let mut cells: HashMap<usize, AverageCell> = HashMap::new();
    let (mut now, mut answers) = (START, Vec::new());
    for _ in 0..BATCHES {
        let keys: Vec<_> = (0..BATCH).map(|_| random.index(32)).collect();
        let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let ask = |(name, key): (&'_ String, &usize)| (name.clone(), rules[key % rules.len()]);
        let uses: Vec<_> = names.iter().zip(&keys).map(ask).collect();
        let asks: Vec<_> = uses
            .iter()
            .map(|(key, rule)| AverageAsk { key: key.as_bytes(), rule: *rule })
            .collect();
        let visit = Visit { within: GENEROUS, now: Some(now) };
        link.wait(link.link.average(&asks, &visit, &mut answers));
        for ((key, ask), answer) in keys.iter().zip(&asks).zip(&answers) {
            let (expected, change) = average::use_once(&ask.rule, cells.get(key).copied(), now);
            apply(&mut cells, *key, change);
            let told = answer.as_ref().unwrap().outcome;
            assert_eq!(told.rate.to_bits(), expected.rate.to_bits(), "seed {seed}: {ask:?}");
            assert_eq!(told.over, expected.over, "seed {seed}: {ask:?}");
        }
        let back = random.chance(1, 20);
        let step = Nanos::new(u128::from(random.log_between(1, 1 << 26)) * 1_000);
        now = if back { now.before(step) } else { now.after(step) };
    }
}

fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX - random.below(3),
        2 => random.log_between(1, u64::MAX),
        3 => 1_000_000_000 * random.below(20),
        _ => random.below(1_000),
    }
}

fn request(random: &mut Random) -> quota::Ask {
    let unit = random.pick(&[Unit::Nanoseconds, Unit::Milliseconds, Unit::Seconds]);
    let amend = random.pick(&[Amend::Patch, Amend::Increase, Amend::Decrease]);
    match random.below(10) {
        0 => quota::Ask::Query,
        1 => quota::Ask::Touch,
        2 => quota::Ask::Purge,
        3 => quota::Ask::AmendQuota(amend, number(random)),
        4 => quota::Ask::AmendLifetime(amend, number(random)),
        _ => {
            let (quota, usage, ttl) = (number(random), number(random), number(random));
            quota::Ask::Insert { quota, usage, ttl, unit }
        }
    }
}

#[test]
fn a_quota_is_the_same_to_the_last_of_64_bits_in_redis_and_in_the_engine() {
    let server = Single::valkey();
    let link = Blocking::open(&server.url());
    let seed = 6;
    let mut random = Random::new(seed);
    let mut cells: HashMap<usize, QuotaCell> = HashMap::new();
    let (mut now, mut answers) = (START, Vec::new());
    for _ in 0..BATCHES {
        let keys: Vec<_> = (0..BATCH).map(|_| random.index(32)).collect();
        let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let asks: Vec<_> = names
            .iter()
            .map(|name| QuotaAsk { key: name.as_bytes(), ask: request(&mut random) })
            .collect();
        let visit = Visit { within: GENEROUS, now: Some(now) };
        link.wait(link.link.quota(&asks, &visit, &mut answers));
        for ((key, ask), answer) in keys.iter().zip(&asks).zip(&answers) {
            let before = cells.get(key).copied();
            let (expected, change) = quota::answer(before, &ask.ask, now);
            apply(&mut cells, *key, change);
            let told = answer.as_ref().unwrap().outcome;
            assert_eq!(told, expected, "seed {seed}: {ask:?} of {before:?} at {now:?}");
        }
        if random.chance(1, 2) {
            now = now.after(Nanos::new(u128::from(random.log_between(1, 1 << 24)) * 1_000));
        }
    }
    assert!(now < Moment::MAX);
}
