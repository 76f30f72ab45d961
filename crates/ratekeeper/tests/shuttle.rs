//! Transactions in every order that threads can run in, as far as a random walk gets.

#![cfg(feature = "shuttle")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::HashMap;
use std::sync::Arc;

use ratekeeper::algorithm::book::{Action, Ask, Book, Gcra, RuleId};
use ratekeeper::algorithm::gcra::{Outcome, Rule, Verdict};
use ratekeeper::store::{MEMORY_MIN, MemoryStore, Question, Secret, Store};
use ratekeeper::{Moment, Nanos};
use shuttle::thread;

const SCHEDULES: usize = 5_000;
const NOW: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

/// A few buckets with two tokens each, in different shards.
#[derive(Clone)]
struct World {
    store: Arc<MemoryStore<Gcra>>,
    rule: RuleId,
}

impl World {
    fn new() -> Self {
        let mut book = Book::default();
        let rule = book.add(Rule::new(2, 1, Nanos::from_secs(3_600)).unwrap()).unwrap();
        let store = MemoryStore::new(&Arc::new(book), MEMORY_MIN).unwrap();
        Self { store: Arc::new(store), rule }
    }

    fn transact(&self, buckets: &[&str], action: Action, cost: u64) -> Vec<Outcome> {
        let question = |name: &&str| Question {
            bucket: Secret::new(1, 2).seal().fingerprint(name.as_bytes()),
            ask: Ask { rule: self.rule, action, is_shadow: false, cost },
            joined: true,
        };
        let questions: Vec<_> = buckets.iter().map(question).collect();
        let mut outcomes = vec![Outcome::default(); questions.len()];
        self.store.decide(&questions, &mut outcomes, NOW);
        outcomes
    }

    fn spend(&self, buckets: &[&str]) -> bool {
        let outcomes = self.transact(buckets, Action::CheckAndSpend, 1);
        outcomes.iter().all(|outcome| outcome.verdict == Verdict::Allow)
    }

    fn left(&self, buckets: &[&str]) -> Vec<u64> {
        let outcomes = self.transact(buckets, Action::CheckOnly, 0);
        outcomes.iter().map(|outcome| outcome.remaining).collect()
    }
}

#[test]
fn no_spend_is_lost_and_none_is_made_up() {
    shuttle::check_random(
        || {
            let world = World::new();
            let spenders: Vec<_> = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]]
                .into_iter()
                .map(|buckets| {
                    let world = world.clone();
                    thread::spawn(move || (buckets, world.spend(&buckets)))
                })
                .collect();
            let mut expected = [("a", 2), ("b", 2), ("c", 2)];
            for spender in spenders {
                let (buckets, allowed) = spender.join().unwrap();
                for (name, left) in &mut expected {
                    *left -= u64::from(allowed && buckets.contains(name));
                }
            }
            assert_eq!(world.left(&["a", "b", "c"]), expected.map(|(_, left)| left));
        },
        SCHEDULES,
    );
}

#[test]
fn nobody_sees_a_transaction_half_done() {
    shuttle::check_random(
        || {
            let world = World::new();
            let spenders = [["a", "b"], ["b", "a"]].map(|buckets| {
                let world = world.clone();
                thread::spawn(move || world.spend(&buckets))
            });
            for buckets in [["a", "b"], ["b", "a"]] {
                let seen = world.left(&buckets);
                assert_eq!(seen[0], seen[1], "they are only ever spent together");
            }
            for spender in spenders {
                assert!(spender.join().unwrap());
            }
            assert_eq!(world.left(&["a", "b"]), [0, 0]);
        },
        SCHEDULES,
    );
}

#[test]
fn a_denied_transaction_leaves_the_other_bucket_to_others() {
    shuttle::check_random(
        || {
            let world = World::new();
            assert!(world.spend(&["a"]) && world.spend(&["a"]), "a is empty");
            let denied = {
                let world = world.clone();
                thread::spawn(move || world.spend(&["b", "a"]))
            };
            assert!(world.spend(&["b"]) && world.spend(&["b"]), "b was not touched");
            assert!(!denied.join().unwrap());
        },
        SCHEDULES,
    );
}

#[test]
fn rules_that_change_meanwhile_lose_no_spend() {
    shuttle::check_random(
        || {
            let mut book = Book::default();
            let second = |burst| Rule::new(burst, 1, Nanos::from_secs(3_600)).unwrap();
            let old = book.add(second(4)).unwrap();
            let store = Arc::new(MemoryStore::new(&Arc::new(book.clone()), MEMORY_MIN).unwrap());
            let world = World { store: Arc::clone(&store), rule: old };
            let spender = {
                let world = world.clone();
                thread::spawn(move || world.spend(&["a", "b"]) && world.spend(&["b", "a"]))
            };
            let new = book.add(second(6)).unwrap();
            book.replace(&HashMap::from([(old, new)]));
            store.install(&Arc::new(book));
            store.carry_over(&[], NOW);
            assert!(spender.join().unwrap());
            assert_eq!(world.left(&["a", "b"]), [4, 4]);
        },
        SCHEDULES,
    );
}
