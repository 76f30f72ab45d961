//! The table against a sorted map that does the same.

use std::collections::BTreeMap;

use ratekeeper_testkit::random::Random;

use super::*;
use crate::algorithm::quota::{self, Ask, Quota, QuotaCell, Unit};
use crate::algorithm::{Change, OnFull, Share};

const NOW: Moment = Moment::from_nanos(1_000);

/// One of several, so that not all of the memory is its own.
fn table(slots: usize) -> ShardTable<Quota> {
    let shares = Arc::new(Shares::new(ShardTable::<Quota>::keys_max(slots)));
    ShardTable::new(ShardMemory::reserve(3, slots).unwrap().of_shard(1), slots, shares)
}

fn makes_room(table: &mut ShardTable<Quota>, key: u128) -> bool {
    makes_room_at(table, key, NOW)
}

fn makes_room_at(table: &mut ShardTable<Quota>, key: u128, now: Moment) -> bool {
    let newcomer = Newcomer { owner: Owner::NOBODY, key, on_full: OnFull::Deny };
    if table.shares.is_old() {
        table.shares.survey(|| |_| Share::default());
    }
    let room = table.find_room(&(), newcomer, &[], now);
    room.is_ok_and(|room| {
        table.make_room(&(), Owner::NOBODY, room, now);
        true
    })
}

fn cell(remaining: u64, ttl: u64) -> QuotaCell {
    let ask = Ask::Insert { quota: remaining, usage: 0, ttl, unit: Unit::Nanoseconds };
    match quota::answer(None, &ask, NOW) {
        (_, Change::Put(cell)) => cell,
        other => panic!("a new quota is stored: {other:?}"),
    }
}

/// Keys are in order, none stands before its home, and there is no gap between home and key.
fn check(table: &ShardTable<Quota>) {
    let mut last = NO_KEY;
    let mut first_of_run = 0;
    let mut len = 0;
    for slot in 0..table.end() {
        let key = table.key(slot);
        if key == NO_KEY {
            first_of_run = slot + 1;
            continue;
        }
        assert!(key > last, "slot {slot} is out of order");
        let home = home(key, table.capacity);
        assert!((first_of_run..=slot).contains(&home), "slot {slot} cannot be found");
        (last, len) = (key, len + 1);
    }
    assert_eq!(table.key(table.end()), NO_KEY, "searches end here");
    assert_eq!(len, table.len);
}

#[test]
fn it_holds_what_a_sorted_map_holds() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut table = table(40_000);
        let mut model = BTreeMap::new();
        // Few distinct high bits make long runs.
        let spread = 64 - random.below(50);
        for step in 0..30_000_u64 {
            let key = (u128::from(random.below(1 << 15)) << (49 + spread)) | 1;
            let in_slot = |slot: Option<Slot<'_, Quota>>| slot.map(|slot| slot.cell());
            let expected = model.get(&key).copied();
            assert_eq!(in_slot(table.slot_of(key)), expected);
            assert_eq!(in_slot(table.slot_soon(key)), expected);
            let near = in_slot(table.slot_near_home(key));
            assert!(near.is_none() || near == expected, "a slot of another key");
            match (random.below(4), table.find(key)) {
                (0, Place::At(slot)) => {
                    table.remove(&(), slot);
                    assert!(model.remove(&key).is_some());
                }
                (0, Place::Absent) => assert!(!model.contains_key(&key)),
                (_, Place::At(slot)) => {
                    assert_eq!(Some(&table.cell(slot)), model.get(&key));
                    table.set_cell(&(), slot, cell(step, u64::MAX));
                    model.insert(key, cell(step, u64::MAX));
                }
                (_, Place::Absent) => {
                    if table.len() < 100 || spread > 60 {
                        assert!(makes_room(&mut table, key));
                        table.insert(&(), key, cell(step, u64::MAX), NOW);
                        model.insert(key, cell(step, u64::MAX));
                    }
                }
            }
            if step.is_multiple_of(1_000) {
                check(&table);
            }
        }
        check(&table);
        assert_eq!(table.len(), model.len());
        for (&key, expected) in &model {
            let Place::At(slot) = table.find(key) else { panic!("{key} is lost") };
            assert_eq!(table.cell(slot), *expected);
        }
    }
}

#[test]
fn a_search_looks_at_no_more_slots_than_its_bounds_say() {
    let mut table = table(40_000);
    let mut random = Random::new(8);
    // All of them denied a use, so nothing may be forgotten.
    let mut denied = 0;
    while denied < 1_000 {
        let key = u128::from(random.bits()) << 64 | 1;
        if makes_room(&mut table, key) {
            table.insert(&(), key, cell(0, u64::MAX), NOW);
        } else {
            denied += 1;
            let way: Vec<usize> = table.way(key).collect();
            assert_eq!(way.len(), search::RUN_SLOTS * search::RUNS_MAX);
            assert!(way.iter().all(|slot| *slot < table.end()));
        }
    }
    assert_eq!(search::RUN_SLOTS * search::RUNS_MAX, 256, "as docs/engine.md says");
}

#[test]
fn most_keys_are_near_their_homes() {
    let mut table = table(SLOTS_MIN * 100);
    let mut random = Random::new(5);
    while table.capacity < SLOTS_MIN * 50 {
        let key = u128::from(random.bits()) << 64 | 1;
        assert!(makes_room(&mut table, key));
        table.insert(&(), key, cell(1, u64::MAX), NOW);
    }
    let near = table.cells().filter(|&(key, _)| table.slot_near_home(key).is_some()).count();
    assert!(near * 10 >= table.len() * 8, "{near} of {}", table.len());
}

#[test]
fn as_many_as_were_expected_find_room_without_growing() {
    for keys in 1..1_000 {
        let mut table = table(SLOTS_MIN * 4);
        table.expect(keys);
        assert!(table.fits(keys));
        let capacity = table.capacity();
        let mut random = Random::new(keys as u64);
        for _ in 0..keys {
            let key = u128::from(random.bits()) << 64 | 1;
            assert!(makes_room(&mut table, key));
            table.insert(&(), key, cell(1, u64::MAX), NOW);
        }
        assert_eq!((table.len(), table.capacity()), (keys, capacity));
        check(&table);
    }
    let table = table(SLOTS_MIN * 4);
    let most = load_max(table.capacity_max());
    assert!(table.fits(most) && !table.fits(most + 1));
}

#[test]
fn it_never_takes_more_slots_than_it_was_given() {
    let mut table = table(SLOTS_MIN);
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let key = u128::from(random.below(u64::MAX)) << 64 | 1;
        if table.find(key) == Place::Absent && makes_room(&mut table, key) {
            table.insert(&(), key, cell(1, u64::MAX), NOW);
        }
    }
    check(&table);
    assert_eq!(table.capacity, SLOTS_MIN - TAIL_SLOTS);
    assert_eq!(table.len(), load_max(table.capacity));
    assert!(table.tally().evicted > 0);
}

#[test]
fn keys_that_all_want_the_last_place_do_not_break_it() {
    let mut table = table(SLOTS_MIN);
    for n in 0..5_000_u128 {
        let key = u128::MAX - n;
        if makes_room(&mut table, key) {
            table.insert(&(), key, cell(1, u64::MAX), NOW);
        }
        check(&table);
    }
    assert!(table.tally().evicted > 0);
}

#[test]
fn what_has_expired_is_forgotten_before_more_memory_is_taken() {
    let mut table = table(100_000);
    let mut random = Random::new(3);
    for step in 0..200_000 {
        let now = NOW.after(crate::Nanos::new(step));
        let key = u128::from(random.below(u64::MAX)) << 64 | 1;
        assert!(makes_room_at(&mut table, key, now));
        let ask = Ask::Insert { quota: 1, usage: 0, ttl: 500, unit: Unit::Nanoseconds };
        let (_, Change::Put(cell)) = quota::answer(None, &ask, now) else { panic!("stored") };
        table.insert(&(), key, cell, now);
    }
    check(&table);
    assert!(table.capacity < 2_000, "{} homes for 500 live keys", table.capacity);
    assert_eq!(table.tally(), Tally::default());
}
