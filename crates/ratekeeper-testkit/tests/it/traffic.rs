//! The traffic keeps its bounds and reaches the corners.

use std::collections::HashSet;

use ratekeeper_testkit::compare::{Oracle, Subject};
use ratekeeper_testkit::sample::{BURST_MAX, COUNT_MAX, PERIOD_NS_MAX};
use ratekeeper_testkit::terms::Terms;
use ratekeeper_testkit::traffic::{AT_NS_MAX, Step, Traffic};

fn script(seed: u64, buckets: usize, steps: usize) -> Vec<(u64, Step)> {
    let mut traffic = Traffic::new(seed, buckets, Terms::are_valid);
    let (mut oracle, mut last) = (Oracle::default(), None);
    let next = |_| {
        let (at, step) = traffic.next(last.as_ref());
        last = oracle.apply(&step, at).answer().copied();
        (at, step)
    };
    (0..steps).map(next).collect()
}

fn changes(script: &[(u64, Step)]) -> Vec<Terms> {
    let terms = |(_, step): &(u64, Step)| match step {
        Step::Change { terms, .. } => Some(*terms),
        _ => None,
    };
    script.iter().filter_map(terms).collect()
}

#[test]
fn the_same_seed_gives_the_same_script() {
    assert_eq!(script(7, 3, 1_000), script(7, 3, 1_000));
    assert_ne!(script(7, 3, 1_000), script(8, 3, 1_000));
}

#[test]
fn a_bucket_is_created_before_it_is_used() {
    let script = script(9, 5, 2_000);
    for (bucket, (_, step)) in script[..5].iter().enumerate() {
        assert!(matches!(step, Step::Change { bucket: created, .. } if *created == bucket));
    }
}

#[test]
fn time_keeps_its_bounds_and_visits_all_magnitudes() {
    let script = script(10, 2, 200_000);
    assert!(script.iter().all(|(at, _)| *at <= AT_NS_MAX));
    let magnitudes: HashSet<_> = script.iter().filter_map(|(at, _)| at.checked_ilog2()).collect();
    assert!(magnitudes.len() > 40, "{magnitudes:?}");
}

#[test]
fn terms_keep_their_bounds_and_reach_them() {
    let terms = changes(&script(11, 2, 400_000));
    for terms in &terms {
        assert!(terms.are_valid() && terms.count <= terms.period_ns, "{terms}");
        assert!(terms.burst <= BURST_MAX && terms.period_ns <= PERIOD_NS_MAX, "{terms}");
        assert!(terms.count / terms.ticks_per_step() <= COUNT_MAX, "{terms}");
    }
    let some = |wanted: fn(&Terms) -> bool| terms.iter().any(wanted);
    assert!(some(|terms| terms.burst == 1) && some(|terms| terms.burst == BURST_MAX));
    assert!(some(|terms| (terms.count, terms.period_ns) == (1, PERIOD_NS_MAX)));
    assert!(some(|terms| terms.count == terms.period_ns));
    assert!(some(|terms| terms.ticks_per_step() == 1 && terms.count > 1 << 31));
    assert!(some(|terms| terms.count > COUNT_MAX), "not in lowest terms");
}

#[test]
fn only_accepted_terms_are_sent() {
    let mut traffic = Traffic::new(12, 2, |terms| terms.burst <= 1_000);
    let script: Vec<_> = (0..20_000).map(|_| traffic.next(None)).collect();
    assert!(changes(&script).iter().all(|terms| terms.burst <= 1_000));
}
