//! A slot finds its value and no other.

use ratekeeper_testkit::random::Random;

use super::Arena;

#[test]
fn a_slot_finds_nothing_once_its_value_is_gone_whatever_took_its_place() {
    let mut arena = Arena::new();
    let first = arena.insert("first").expect("room");
    assert_eq!(arena.remove(first), Some("first"));
    let second = arena.insert("second").expect("room");
    assert_eq!(first.index(), second.index());
    assert_eq!((arena.at(first), arena.at(second)), (None, Some(&"second")));
    assert_eq!((arena.remove(first), arena.len()), (None, 1));
}

#[test]
fn an_arena_holds_what_a_list_would() {
    let mut random = Random::new(1);
    let (mut arena, mut list) = (Arena::new(), Vec::new());
    for n in 0..10_000_u64 {
        if list.is_empty() || random.chance(1, 2) {
            list.push((arena.insert(n).expect("room"), n));
        } else {
            let (slot, value) = list.swap_remove(random.index(list.len()));
            assert_eq!(arena.remove(slot), Some(value));
            assert_eq!(arena.at(slot), None);
        }
        assert_eq!(arena.len(), list.len());
    }
    assert!(list.iter().all(|(slot, value)| arena.at(*slot) == Some(value)));
}
