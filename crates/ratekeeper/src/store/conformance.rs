//! The behaviour that every store must show.
//!
//! A store's tests call [`suite!`](crate::store_suite) with a function that makes one for a book
//! of rules; each law becomes a test of its own. A store whose clock is coarser than a nanosecond
//! also says how coarse: its waits are rounded up to that, and no earlier.
#![expect(clippy::missing_panics_doc, reason = "a law that does not hold panics")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Fingerprint, Question, Secret, Store};
use crate::algorithm::book::{Action, Ask, Book, Gcra, RuleId};
use crate::algorithm::gcra::{Outcome, Rule, Verdict};
use crate::{Moment, Nanos};

/// Makes a test of each law, for the store that the function `$make` makes of a book.
#[macro_export]
macro_rules! store_suite {
    ($make:expr) => {
        $crate::store_suite!($make, $crate::Nanos::new(1));
    };
    ($make:expr, $resolution:expr) => {
        #[test]
        fn a_burst_passes_and_then_nothing_until_retry_in() {
            $crate::store::conformance::a_burst_passes_and_then_nothing_until_retry_in(
                $make,
                $resolution,
            );
        }
        $crate::store_suite!(@ $make;
            a_denied_transaction_spends_nothing,
            an_allowed_transaction_spends_everything_but_what_is_only_checked,
            a_spend_only_ask_never_denies,
            a_refund_gives_back_what_is_missing_and_no_more,
            a_reset_fills_the_bucket_and_can_be_repeated,
            questions_are_answered_in_order,
            buckets_do_not_mix,
            a_new_rule_keeps_what_was_spent_from_the_moment_it_came,
            a_bucket_that_moves_to_another_rule_keeps_what_was_spent,
            concurrent_spends_admit_exactly_the_burst,
            concurrent_transactions_are_never_seen_half_done
        );
    };
    (@ $make:expr; $($law:ident),+) => {
        $(
            #[test]
            fn $law() {
                $crate::store::conformance::$law($make);
            }
        )+
    };
}

/// The time all laws start at.
const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

fn per_second(burst: u64, count: u64) -> Rule {
    Rule::new(burst, count, Nanos::from_secs(1)).expect("the rule is within bounds")
}

fn book(rules: &[Rule]) -> (Book, Vec<RuleId>) {
    let mut book = Book::default();
    let ids = rules.iter().map(|&rule| book.add(rule).expect("there is room")).collect();
    (book, ids)
}

fn bucket(name: &str) -> Fingerprint {
    Secret::new(3, 4).seal().fingerprint(name.as_bytes())
}

fn question(name: &str, rule: RuleId, action: Action, cost: u64) -> Question<Gcra> {
    let ask = Ask { rule, action, is_shadow: false, cost };
    Question { bucket: bucket(name), ask, joined: true }
}

/// Asks one transaction.
fn ask(store: &impl Store<Gcra>, questions: &[Question<Gcra>], now: Moment) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::default(); questions.len()];
    store.decide(questions, &mut outcomes, now);
    outcomes
}

fn spend(store: &impl Store<Gcra>, name: &str, rule: RuleId, cost: u64, now: Moment) -> Outcome {
    ask(store, &[question(name, rule, Action::CheckAndSpend, cost)], now)[0]
}

fn left(store: &impl Store<Gcra>, name: &str, rule: RuleId, now: Moment) -> u64 {
    ask(store, &[question(name, rule, Action::CheckOnly, 0)], now)[0].remaining
}

/// The burst passes at once; then nothing does, until exactly when a denial said. It says the first
/// moment, of those `resolution` apart, at which a token is there.
pub fn a_burst_passes_and_then_nothing_until_retry_in<S: Store<Gcra>>(
    make: impl Fn(Book) -> S,
    resolution: Nanos,
) {
    let (book, rules) = book(&[per_second(3, 3)]);
    let store = make(book);
    for left in [2, 1, 0] {
        let outcome = spend(&store, "a", rules[0], 1, START);
        assert_eq!((outcome.verdict, outcome.remaining), (Verdict::Allow, left));
    }
    let denied = spend(&store, "a", rules[0], 1, START);
    let wait = 333_333_334_u128.next_multiple_of(resolution.get());
    assert_eq!((denied.verdict, denied.retry_in), (Verdict::Deny, Nanos::new(wait)));
    let at = START.after(denied.retry_in);
    let early = at.before(resolution);
    assert_eq!(spend(&store, "a", rules[0], 1, early).verdict, Verdict::Deny);
    assert_eq!(spend(&store, "a", rules[0], 1, at).verdict, Verdict::Allow);
}

/// All or nothing: nothing.
pub fn a_denied_transaction_spends_nothing<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(2, 2), per_second(5, 5)]);
    let store = make(book);
    spend(&store, "a", rules[0], 2, START);
    let outcomes = ask(
        &store,
        &[
            question("b", rules[1], Action::CheckAndSpend, 1),
            question("a", rules[0], Action::CheckAndSpend, 1),
            question("c", rules[1], Action::SpendOnly, 1),
        ],
        START,
    );
    assert_eq!(outcomes[1].verdict, Verdict::Deny);
    assert_eq!(left(&store, "b", rules[1], START), 5);
    assert_eq!(left(&store, "c", rules[1], START), 5);
}

/// All or nothing: all.
pub fn an_allowed_transaction_spends_everything_but_what_is_only_checked<S: Store<Gcra>>(
    make: impl Fn(Book) -> S,
) {
    let (book, rules) = book(&[per_second(5, 5)]);
    let store = make(book);
    let transaction = [
        question("a", rules[0], Action::CheckAndSpend, 1),
        question("b", rules[0], Action::CheckOnly, 2),
        question("c", rules[0], Action::SpendOnly, 3),
    ];
    let outcomes = ask(&store, &transaction, START);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Allow));
    let all_left = ["a", "b", "c"].map(|name| left(&store, name, rules[0], START));
    assert_eq!(all_left, [4, 5, 2]);
}

/// What is only to be spent is spent if there is room.
pub fn a_spend_only_ask_never_denies<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(5, 5)]);
    let store = make(book);
    spend(&store, "c", rules[0], 4, START);
    let transaction = [
        question("a", rules[0], Action::CheckAndSpend, 1),
        question("c", rules[0], Action::SpendOnly, 2),
    ];
    let outcomes = ask(&store, &transaction, START);
    assert_eq!(outcomes[0].verdict, Verdict::Allow);
    assert_eq!(left(&store, "a", rules[0], START), 4);
    assert_eq!(left(&store, "c", rules[0], START), 1);
}

/// A refund is clamped at full, and creates nothing.
pub fn a_refund_gives_back_what_is_missing_and_no_more<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(5, 5)]);
    let store = make(book);
    let refund = |cost| ask(&store, &[question("a", rules[0], Action::Refund, cost)], START)[0];
    assert_eq!((refund(1).verdict, refund(1).remaining), (Verdict::Deny, 5));
    spend(&store, "a", rules[0], 4, START);
    let given = refund(1);
    assert_eq!((given.verdict, given.remaining), (Verdict::Allow, 2));
    let given = refund(5);
    assert_eq!((given.verdict, given.remaining, given.reset_in), (Verdict::Allow, 5, Nanos::ZERO));
    assert_eq!(refund(1).verdict, Verdict::Deny);
}

/// A reset forgets what was spent.
pub fn a_reset_fills_the_bucket_and_can_be_repeated<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(5, 5)]);
    let store = make(book);
    spend(&store, "a", rules[0], 5, START);
    for _ in 0..2 {
        let reset = ask(&store, &[question("a", rules[0], Action::Reset, 0)], START)[0];
        assert_eq!((reset.verdict, reset.remaining), (Verdict::Allow, 5));
    }
    assert_eq!(spend(&store, "a", rules[0], 5, START).verdict, Verdict::Allow);
}

/// A batch is as good as its questions one by one.
pub fn questions_are_answered_in_order<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(3, 3)]);
    let store = make(book);
    let one = Question { joined: false, ..question("a", rules[0], Action::CheckAndSpend, 1) };
    let outcomes = ask(&store, &[one; 100], START);
    let allowed = outcomes.iter().take_while(|outcome| outcome.verdict == Verdict::Allow).count();
    assert_eq!(allowed, 3);
    assert!(outcomes[3..].iter().all(|outcome| outcome.verdict == Verdict::Deny));
}

/// Each of many buckets has its own tokens.
pub fn buckets_do_not_mix<S: Store<Gcra>>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(2, 1)]);
    let store = make(book);
    let names: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
    for left in [1, 0] {
        for name in &names {
            assert_eq!(spend(&store, name, rules[0], 1, START).remaining, left, "{name}");
        }
    }
    for name in &names {
        assert_eq!(spend(&store, name, rules[0], 1, START).verdict, Verdict::Deny, "{name}");
    }
}

/// Until the change it refills as it did, from then on as it does.
pub fn a_new_rule_keeps_what_was_spent_from_the_moment_it_came<S: Store<Gcra>>(
    make: impl Fn(Book) -> S,
) {
    let (mut book, rules) = book(&[per_second(300, 100)]);
    let store = make(book.clone());
    spend(&store, "a", rules[0], 300, START);
    let slow = book.add(per_second(300, 10)).expect("there is room");
    book.replace(&HashMap::from([(rules[0], slow)]));
    // A second at 100 per second, then two at 10, whoever still asks by the old rule.
    store.install(&Arc::new(book.clone()));
    store.carry_over(&[], START.after(Nanos::from_secs(1)));
    assert_eq!(left(&store, "a", slow, START.after(Nanos::from_secs(3))), 120);
    assert_eq!(left(&store, "a", rules[0], START.after(Nanos::from_secs(3))), 120);
    // And back again: two more at 10, and one at 100.
    book.replace(&HashMap::from([(slow, rules[0])]));
    store.install(&Arc::new(book));
    store.carry_over(&[], START.after(Nanos::from_secs(5)));
    assert_eq!(left(&store, "a", rules[0], START.after(Nanos::from_secs(6))), 240);
}

/// An override comes and goes; what was spent stays.
pub fn a_bucket_that_moves_to_another_rule_keeps_what_was_spent<S: Store<Gcra>>(
    make: impl Fn(Book) -> S,
) {
    let (book, rules) = book(&[per_second(300, 100), per_second(50, 10)]);
    let store = make(book.clone());
    for name in ["a", "b"] {
        spend(&store, name, rules[0], 200, START);
    }
    let moved = question("a", rules[1], Action::CheckOnly, 0);
    let at = START.after(Nanos::from_secs(1));
    store.install(&Arc::new(book));
    store.carry_over(&[moved], at);
    let later = START.after(Nanos::from_secs(2));
    assert_eq!(left(&store, "a", rules[1], later), 10, "100 owed of 50, then a second at 10");
    assert_eq!(left(&store, "b", rules[0], later), 300, "the other has not moved");
}

/// Whoever comes at once, no more than the burst pass.
pub fn concurrent_spends_admit_exactly_the_burst<S: Store<Gcra> + Sync>(make: impl Fn(Book) -> S) {
    let (book, rules) = book(&[per_second(20, 20)]);
    let store = make(book);
    for round in 0..20 {
        let allowed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let outcome = spend(&store, &round.to_string(), rules[0], 1, START);
                        let passed = usize::from(outcome.verdict == Verdict::Allow);
                        allowed.fetch_add(passed, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(allowed.into_inner(), 20);
    }
}

/// Two buckets that are only ever spent together never differ.
pub fn concurrent_transactions_are_never_seen_half_done<S: Store<Gcra> + Sync>(
    make: impl Fn(Book) -> S,
) {
    let (book, rules) = book(&[per_second(10_000, 1)]);
    let store = make(book);
    let both =
        |action, cost| ["a", "b"].map(|name| question(name, rules[0], action, cost)).to_vec();
    std::thread::scope(|scope| {
        for reverse in [false, true] {
            let mut transaction = both(Action::CheckAndSpend, 1);
            if reverse {
                transaction.reverse();
            }
            let store = &store;
            scope.spawn(move || (0..2_000).for_each(|_| drop(ask(store, &transaction, START))));
        }
        for _ in 0..2_000 {
            let seen = ask(&store, &both(Action::CheckOnly, 0), START);
            assert_eq!(seen[0].remaining, seen[1].remaining);
        }
    });
    assert_eq!(left(&store, "a", rules[0], START), 6_000);
    assert_eq!(left(&store, "b", rules[0], START), 6_000);
}
