//! The table against a sorted map that does the same.

use std::collections::BTreeMap;

use ratekeeper_testkit::random::Random;

use super::*;
use crate::algorithm::quota::{self, Ask, Quota, QuotaCell, Unit};
use crate::algorithm::{Change, OnFull, Share};

const NOW: Moment = Moment::from_nanos(1_000);

/// One of several, so that not all of the memory is its own.
fn region(slots: usize) -> Region<Quota> {
    let shares = Arc::new(Shares::new(Region::<Quota>::keys_max(slots)));
    Region::new(Strip::reserve(3, slots).unwrap().of_shard(1), slots, shares)
}

fn makes_room(region: &mut Region<Quota>, key: u128) -> bool {
    makes_room_at(region, key, NOW)
}

fn makes_room_at(region: &mut Region<Quota>, key: u128, now: Moment) -> bool {
    let newcomer = Newcomer { owner: Owner::NOBODY, key, on_full: OnFull::Deny };
    if region.shares.is_old() {
        region.shares.survey(|| |_| Share::default());
    }
    let room = region.find_room(&(), newcomer, &[], now);
    room.is_ok_and(|room| {
        region.make_room(&(), Owner::NOBODY, room, now);
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
fn check(region: &Region<Quota>) {
    let mut last = NO_KEY;
    let mut first_of_run = 0;
    let mut len = 0;
    for slot in 0..region.end() {
        let key = region.key(slot);
        if key == NO_KEY {
            first_of_run = slot + 1;
            continue;
        }
        assert!(key > last, "slot {slot} is out of order");
        let home = home(key, region.capacity);
        assert!((first_of_run..=slot).contains(&home), "slot {slot} cannot be found");
        (last, len) = (key, len + 1);
    }
    assert_eq!(region.key(region.end()), NO_KEY, "searches end here");
    assert_eq!(len, region.len);
}

#[test]
fn it_holds_what_a_sorted_map_holds() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut region = region(40_000);
        let mut model = BTreeMap::new();
        // Few distinct high bits make long runs.
        let spread = 64 - random.below(50);
        for step in 0..30_000_u64 {
            let key = (u128::from(random.below(1 << 15)) << (49 + spread)) | 1;
            let in_slot = |slot: Option<Slot<'_, Quota>>| slot.map(|slot| slot.cell());
            let expected = model.get(&key).copied();
            assert_eq!(in_slot(region.slot_of(key)), expected);
            assert_eq!(in_slot(region.slot_soon(key)), expected);
            let near = in_slot(region.slot_near_home(key));
            assert!(near.is_none() || near == expected, "a slot of another key");
            match (random.below(4), region.find(key)) {
                (0, Place::At(slot)) => {
                    region.remove(&(), slot);
                    assert!(model.remove(&key).is_some());
                }
                (0, Place::Absent) => assert!(!model.contains_key(&key)),
                (_, Place::At(slot)) => {
                    assert_eq!(Some(&region.cell(slot)), model.get(&key));
                    region.set_cell(&(), slot, cell(step, u64::MAX));
                    model.insert(key, cell(step, u64::MAX));
                }
                (_, Place::Absent) => {
                    if region.len() < 100 || spread > 60 {
                        assert!(makes_room(&mut region, key));
                        region.insert(&(), key, cell(step, u64::MAX), NOW);
                        model.insert(key, cell(step, u64::MAX));
                    }
                }
            }
            if step.is_multiple_of(1_000) {
                check(&region);
            }
        }
        check(&region);
        assert_eq!(region.len(), model.len());
        for (&key, expected) in &model {
            let Place::At(slot) = region.find(key) else { panic!("{key} is lost") };
            assert_eq!(region.cell(slot), *expected);
        }
    }
}

#[test]
fn a_search_looks_at_no_more_slots_than_its_bounds_say() {
    let mut region = region(40_000);
    let mut random = Random::new(8);
    // All of them denied a use, so nothing may be forgotten.
    let mut denied = 0;
    while denied < 1_000 {
        let key = u128::from(random.bits()) << 64 | 1;
        if makes_room(&mut region, key) {
            region.insert(&(), key, cell(0, u64::MAX), NOW);
        } else {
            denied += 1;
            let way: Vec<usize> = region.way(key).collect();
            assert_eq!(way.len(), search::RUN_SLOTS * search::RUNS_MAX);
            assert!(way.iter().all(|slot| *slot < region.end()));
        }
    }
    assert_eq!(search::RUN_SLOTS * search::RUNS_MAX, 256, "as docs/engine.md says");
}

#[test]
fn most_keys_are_near_their_homes() {
    let mut region = region(SLOTS_MIN * 100);
    let mut random = Random::new(5);
    while region.capacity < SLOTS_MIN * 50 {
        let key = u128::from(random.bits()) << 64 | 1;
        assert!(makes_room(&mut region, key));
        region.insert(&(), key, cell(1, u64::MAX), NOW);
    }
    let near = region.cells().filter(|&(key, _)| region.slot_near_home(key).is_some()).count();
    assert!(near * 10 >= region.len() * 8, "{near} of {}", region.len());
}

#[test]
fn as_many_as_were_expected_find_room_without_growing() {
    for keys in 1..1_000 {
        let mut region = region(SLOTS_MIN * 4);
        region.expect(keys);
        assert!(region.fits(keys));
        let capacity = region.capacity();
        let mut random = Random::new(keys as u64);
        for _ in 0..keys {
            let key = u128::from(random.bits()) << 64 | 1;
            assert!(makes_room(&mut region, key));
            region.insert(&(), key, cell(1, u64::MAX), NOW);
        }
        assert_eq!((region.len(), region.capacity()), (keys, capacity));
        check(&region);
    }
    let region = region(SLOTS_MIN * 4);
    let most = load_max(region.capacity_max());
    assert!(region.fits(most) && !region.fits(most + 1));
}

#[test]
fn it_never_takes_more_slots_than_it_was_given() {
    let mut region = region(SLOTS_MIN);
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let key = u128::from(random.below(u64::MAX)) << 64 | 1;
        if region.find(key) == Place::Absent && makes_room(&mut region, key) {
            region.insert(&(), key, cell(1, u64::MAX), NOW);
        }
    }
    check(&region);
    assert_eq!(region.capacity, SLOTS_MIN - TAIL_SLOTS);
    assert_eq!(region.len(), load_max(region.capacity));
    assert!(region.tally().evicted > 0);
}

#[test]
fn keys_that_all_want_the_last_place_do_not_break_it() {
    let mut region = region(SLOTS_MIN);
    for n in 0..5_000_u128 {
        let key = u128::MAX - n;
        if makes_room(&mut region, key) {
            region.insert(&(), key, cell(1, u64::MAX), NOW);
        }
        check(&region);
    }
    assert!(region.tally().evicted > 0);
}

#[test]
fn what_has_expired_is_forgotten_before_more_memory_is_taken() {
    let mut region = region(100_000);
    let mut random = Random::new(3);
    for step in 0..200_000 {
        let now = NOW.after(crate::Nanos::new(step));
        let key = u128::from(random.below(u64::MAX)) << 64 | 1;
        assert!(makes_room_at(&mut region, key, now));
        let ask = Ask::Insert { quota: 1, usage: 0, ttl: 500, unit: Unit::Nanoseconds };
        let (_, Change::Put(cell)) = quota::answer(None, &ask, now) else { panic!("stored") };
        region.insert(&(), key, cell, now);
    }
    check(&region);
    assert!(region.capacity < 2_000, "{} homes for 500 live keys", region.capacity);
    assert_eq!(region.tally(), Tally::default());
}
