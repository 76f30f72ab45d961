//! The memory store: the laws of every store, and its own about memory.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::Nanos;
use crate::algorithm::book::{Action, Ask, Book, Gcra, RuleId};
use crate::algorithm::gcra::{Outcome, Rule, Verdict};
use crate::store::table::home_of;
use crate::store::{Fingerprint, Secret};

fn make(book: Book) -> MemoryStore<Gcra> {
    MemoryStore::new(&Arc::new(book), MEMORY_MIN).unwrap()
}

crate::store_suite!(make);

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

fn store(burst: u64, period_secs: u64) -> (MemoryStore<Gcra>, RuleId) {
    let mut book = Book::default();
    let rule = Rule::new(burst, burst, Nanos::from_secs(period_secs)).unwrap();
    let id = book.add(rule).unwrap();
    (make(book), id)
}

fn bucket(n: usize) -> Fingerprint {
    Secret::new(5, 6).seal().fingerprint(&n.to_le_bytes())
}

fn spend(store: &MemoryStore<Gcra>, n: usize, rule: RuleId, cost: u64, now: Moment) -> Outcome {
    let ask = Ask { rule, action: Action::CheckAndSpend, is_shadow: false, cost };
    let mut outcome = [Outcome::default()];
    store.decide(&[Question { bucket: bucket(n), ask, joined: false }], &mut outcome, now);
    outcome[0]
}

/// Nothing else would show it: what is asked for in vain is only slower.
#[test]
fn memory_is_asked_for_where_keys_are() {
    let (store, rule) = store(10, 1_000);
    let assert_told = |what: &str| {
        for (number, shard) in store.shards.iter().enumerate() {
            let table = &shard.0.lock().table;
            let hint = store.hints.capacities[number].load(Ordering::Relaxed);
            assert_eq!(hint as usize, table.capacity(), "{what}");
            for key in table.cells().map(|(key, _)| key) {
                let upper = Fingerprint::from_bits(key).unwrap().upper();
                let home = home_of(upper, table.capacity());
                let address = store.hints.first.of_shard(number).first_word(home);
                assert_eq!(store.hints.address(number, upper), address, "{what}");
            }
        }
    };
    assert_told("none yet");
    let mut next = 0..;
    for n in next.by_ref().take(2_000) {
        spend(&store, n, rule, 1, START);
    }
    assert_told("spent");
    let ask = Ask { rule, action: Action::CheckAndSpend, is_shadow: false, cost: 1 };
    for n in next.by_ref().take(4_000).step_by(2) {
        let questions = [n, n + 1].map(|n| Question { bucket: bucket(n), ask, joined: n % 2 == 1 });
        store.decide(&questions, &mut [Outcome::default(); 2], START);
    }
    assert_told("in transactions");
    let cell = store.look(bucket(0), |_, cell| cell).unwrap();
    for n in next.by_ref().take(4_000) {
        store.learn(bucket(n), Some(cell), START);
    }
    assert_told("learnt");
    for n in next.take(4_000) {
        assert!(store.put_back(bucket(n), cell, 1_000, START));
    }
    assert_told("put back");
    assert!(store.held().keys > 10_000, "{:?}", store.held());
}

#[test]
fn a_bucket_that_has_filled_up_makes_room_for_another() {
    let (store, rule) = store(10, 1);
    // Far more than memory holds at once, but never many at a time.
    for n in 0..500_000 {
        let now = START.after(Nanos::new(n as u128 * 100_000));
        assert_eq!(spend(&store, n, rule, 1, now).verdict, Verdict::Allow);
    }
    assert_eq!(store.held().tally, Tally::default());
    assert!(store.held().keys < 20_000, "{:?}", store.held());
}

#[test]
fn under_the_cap_the_bucket_that_owes_least_goes_first_and_is_counted() {
    let (store, rule) = store(10, 3_600);
    let heavy = 1_000;
    for n in 0..heavy {
        spend(&store, n, rule, 9, START);
    }
    for n in heavy..200_000 {
        spend(&store, n, rule, 1, START);
    }
    let held = store.held();
    assert_eq!(held.keys + usize::try_from(held.tally.evicted).unwrap(), 200_000);
    assert_eq!(held.tally.tokens_forgiven, held.tally.evicted, "each owed one token");
    for n in 0..heavy {
        assert_eq!(spend(&store, n, rule, 2, START).verdict, Verdict::Deny, "{n} was forgotten");
    }
}

#[test]
fn an_empty_bucket_is_as_protected_as_one_that_is_being_denied() {
    let (store, rule) = store(10, 3_600);
    let (denied, empty, waited) = (0..1_000, 1_000..2_000, 2_000..3_000);
    for n in 0..3_000 {
        assert_eq!(spend(&store, n, rule, 10, START).verdict, Verdict::Allow);
    }
    for n in denied.clone() {
        assert_eq!(spend(&store, n, rule, 1, START).verdict, Verdict::Deny);
    }
    // Owing four tenths is as much as the flood owes; but these were empty before.
    let later = START.after(Nanos::from_secs(6 * 360));
    for n in waited.clone() {
        assert_eq!(spend(&store, n, rule, 0, later).remaining, 6);
    }
    for n in 3_000..200_000 {
        assert_eq!(spend(&store, n, rule, 4, later).verdict, Verdict::Allow);
    }
    for n in denied.chain(empty).chain(waited) {
        assert_eq!(spend(&store, n, rule, 0, later).remaining, 6, "{n} was forgotten");
    }
}

#[test]
fn ids_that_spend_all_they_may_push_nobody_out_who_did_so_before() {
    let (store, rule) = store(5, 3_600);
    for n in 0..1_000 {
        assert_eq!(spend(&store, n, rule, 5, START).verdict, Verdict::Allow);
    }
    let passed = (1_000..200_000)
        .filter(|&n| spend(&store, n, rule, 5, START).verdict == Verdict::Allow)
        .count();
    assert_eq!(store.held().keys, 1_000 + passed, "nobody was forgotten for them");
    for n in 0..1_000 {
        assert_eq!(spend(&store, n, rule, 1, START).verdict, Verdict::Deny, "{n} was forgotten");
    }
}

#[test]
fn where_nothing_may_be_forgotten_the_newcomer_is_told_how_long_to_wait() {
    let (store, rule) = store(1, 3_600);
    let mut turned_away = None;
    for n in 0..200_000 {
        let first = spend(&store, n, rule, 1, START);
        if first.verdict == Verdict::Deny {
            turned_away = Some((n, first));
            break;
        }
        spend(&store, n, rule, 1, START);
    }
    let (n, outcome) = turned_away.expect("memory is full at some time");
    assert_eq!(store.held().tally, Tally { turned_away: 1, ..Tally::default() });
    assert_eq!(outcome.retry_in, Nanos::from_secs(3_600));
    let at = START.after(outcome.retry_in);
    let early = Moment::from_nanos(at.as_nanos() - 1);
    assert_eq!(spend(&store, n, rule, 1, early).verdict, Verdict::Deny);
    assert_eq!(spend(&store, n, rule, 1, at).verdict, Verdict::Allow);
}

#[test]
fn a_transaction_that_memory_has_no_room_for_spends_nothing() {
    let (store, rule) = store(2, 3_600);
    let joined = |n, action, cost| Question {
        bucket: bucket(n),
        ask: Ask { rule, action, is_shadow: false, cost },
        joined: true,
    };
    for n in 1..200_000 {
        let now = START;
        let transaction = [
            joined(0, Action::CheckAndSpend, 0),
            joined(n, Action::CheckAndSpend, 2),
            joined(200_000 + n, Action::CheckAndSpend, 2),
        ];
        let mut outcomes = [Outcome::default(); 3];
        store.decide(&transaction, &mut outcomes, now);
        if outcomes.iter().any(|outcome| outcome.verdict == Verdict::Deny) {
            let before = store.held().keys;
            store.decide(&transaction, &mut outcomes, now);
            assert_eq!(store.held().keys, before);
            let alone = [n, 200_000 + n].map(|n| spend(&store, n, rule, 1, now));
            assert!(alone.iter().all(|outcome| outcome.remaining != 0), "{alone:?}");
            return;
        }
        // Being denied, they stay.
        spend(&store, n, rule, 2, now);
        spend(&store, 200_000 + n, rule, 2, now);
    }
    panic!("memory was never full");
}

#[test]
fn a_newcomer_gets_in_once_refused_averages_have_faded() {
    use crate::algorithm::average::{self, Average};
    let store = MemoryStore::<Average>::new(&Arc::new(()), MEMORY_MIN).unwrap();
    let rule = average::Rule::new(1.0, 1.0, true).unwrap();
    let use_once = |n, now| {
        let mut outcome = [average::Outcome::default()];
        store.decide(
            &[Question { bucket: bucket(n), ask: rule, joined: false }],
            &mut outcome,
            now,
        );
        outcome[0]
    };
    for n in 0..60_000 {
        for _ in 0..3 {
            use_once(n, START);
        }
    }
    let later = START.after(Nanos::from_secs(3_600));
    assert!((60_000..61_000).all(|n| !use_once(n, later).over));
}

#[test]
fn a_denied_transaction_forgets_nobody() {
    let (store, rule) = store(10, 3_600);
    for n in 0..100_000 {
        spend(&store, n, rule, 1, START);
    }
    spend(&store, 0, rule, 10, START);
    spend(&store, 0, rule, 9, START);
    let before = store.held();
    for n in 200_000..201_000 {
        let joined = |n| Question {
            bucket: bucket(n),
            ask: Ask { rule, action: Action::CheckAndSpend, is_shadow: false, cost: 2 },
            joined: true,
        };
        let mut outcomes = [Outcome::default(); 2];
        store.decide(&[joined(n), joined(0)], &mut outcomes, START);
        assert_eq!(outcomes[1].verdict, Verdict::Deny);
    }
    assert_eq!(store.held(), before);
}

#[test]
fn new_rules_may_make_room_sooner_than_the_old_ones_promised() {
    let mut book = Book::default();
    let slow = book.add(Rule::new(1, 1, Nanos::from_secs(365 * 86_400)).unwrap()).unwrap();
    let store = make(book.clone());
    let full = (0..200_000).find(|&n| {
        let first = spend(&store, n, slow, 1, START);
        spend(&store, n, slow, 1, START);
        first.verdict == Verdict::Deny
    });
    let newcomer = full.expect("memory is full at some time");
    let fast = book.add(Rule::new(1, 1, Nanos::from_secs(1)).unwrap()).unwrap();
    book.replace(&HashMap::from([(slow, fast)]));
    store.install(&Arc::new(book));
    store.carry_over(&[], START);
    let later = START.after(Nanos::from_secs(1));
    assert_eq!(spend(&store, newcomer, fast, 1, later).verdict, Verdict::Allow);
}
