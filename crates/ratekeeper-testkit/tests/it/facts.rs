//! The worked facts of the definition.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper_testkit::oracle::{Answer, Bucket, Mistake};
use ratekeeper_testkit::terms::Terms;

const SECOND_NS: u64 = 1_000_000_000;

fn terms(burst: u64, count: u64, period_ns: u64) -> Terms {
    Terms { burst, count, period_ns }
}

fn spent(terms: Terms, cost: u64, at: u64) -> Bucket {
    let mut bucket = Bucket::new(terms);
    assert!(bucket.spend(cost, at).unwrap().allowed);
    bucket
}

/// Spends as soon as it may, until `end`; how often it was admitted.
fn saturate(bucket: &mut Bucket, end: u64) -> u64 {
    let (mut now, mut admitted) = (0, 0);
    while now <= end {
        let answer = bucket.spend(1, now).unwrap();
        admitted += u64::from(answer.allowed);
        now += u64::try_from(answer.retry_in).unwrap();
    }
    admitted
}

#[test]
fn three_per_second_admits_exactly_three_per_second_for_ever() {
    for seconds in [1, 2, 7, 86_400] {
        let mut bucket = Bucket::new(terms(3, 3, SECOND_NS));
        assert_eq!(saturate(&mut bucket, seconds * SECOND_NS), 3 + 3 * seconds);
    }
}

#[test]
fn seven_hundred_million_per_second_does_not_run_fast() {
    let mut bucket = Bucket::new(terms(1, 700_000_000, SECOND_NS));
    // A bucket of one loses what flows in while it waits for a whole nanosecond; two lose nothing.
    assert!(saturate(&mut bucket, 1_000_000) <= 1 + 700_000);
    let mut bucket = Bucket::new(terms(2, 700_000_000, SECOND_NS));
    assert_eq!(saturate(&mut bucket, 1_000_000), 2 + 700_000);
}

#[test]
fn waiting_exactly_retry_in_is_enough_and_one_nanosecond_less_is_not() {
    let bucket = spent(terms(5, 7, 11 * SECOND_NS), 5, 100);
    let retry_in = u64::try_from(bucket.check(2, 100).unwrap().retry_in).unwrap();
    // 2 * 11/7 s is not whole.
    assert_eq!(retry_in, 3_142_857_143);
    assert!(bucket.check(2, 100 + retry_in).unwrap().allowed);
    assert!(!bucket.check(2, 100 + retry_in - 1).unwrap().allowed);
}

#[test]
fn raising_50_to_300_leaves_250() {
    let mut bucket = spent(terms(50, 50, 60 * SECOND_NS), 50, 9);
    bucket.change(terms(300, 300, 60 * SECOND_NS), 9);
    assert_eq!(bucket.check(0, 9).unwrap().remaining, 250);
}

#[test]
fn lowering_300_to_50_after_100_leaves_none_and_refills_at_the_new_rate() {
    let mut bucket = spent(terms(300, 300, 60 * SECOND_NS), 100, 9);
    bucket.change(terms(50, 50, 60 * SECOND_NS), 9);
    let answer = bucket.check(1, 9).unwrap();
    assert_eq!((answer.allowed, answer.remaining), (false, 0));
    assert_eq!(answer.retry_in, 1_200_000_000);
    assert_eq!(answer.reset_in, 60_000_000_000);
    assert_eq!(bucket.check(0, 9 + 6 * SECOND_NS).unwrap().remaining, 5);
}

#[test]
fn lowering_and_raising_again_leaves_what_came_back_meanwhile() {
    let (wide, narrow) = (terms(1_000, 1_000, 60 * SECOND_NS), terms(10, 10, 60 * SECOND_NS));
    let after = |secs: u64| {
        let mut bucket = spent(wide, 1_000, 9);
        bucket.change(narrow, 9);
        bucket.change(wide, 9 + secs * SECOND_NS);
        bucket.check(0, 9 + secs * SECOND_NS).unwrap().remaining
    };
    // The bucket of ten is full after a minute; those that it hides come back from then on.
    assert_eq!([0, 5, 6, 60, 65, 66, 5_999, 6_000].map(after), [0, 0, 1, 10, 10, 11, 999, 1_000]);
}

#[test]
fn what_is_hidden_is_given_back_last() {
    let mut bucket = spent(terms(100, 1, SECOND_NS), 100, 9);
    bucket.change(terms(3, 1, SECOND_NS), 9);
    assert_eq!(bucket.refund(2, 9).unwrap().remaining, 2);
    let answer = bucket.refund(2, 9).unwrap();
    assert_eq!((answer.allowed, answer.remaining), (true, 3));
    assert_eq!(*bucket.hidden(), 96.into());
    bucket.change(terms(100, 1, SECOND_NS), 9);
    assert_eq!(bucket.check(0, 9).unwrap().remaining, 4);
}

#[test]
fn a_change_rounds_up_to_the_finest_step_of_the_new_rate() {
    // One of 7 per 11 ns, seen 1 ns later: (11/7 - 1) / (11/7) = 4/11 of a token is owed.
    let mut bucket = spent(terms(10, 7, 11), 1, 0);
    // At 2 per 10 ns that is 20/11 ns; the rate is 1 per 5 ns, so the finest step is 1 ns.
    bucket.change(terms(10, 2, 10), 1);
    assert_eq!(bucket.tat(), Some(&(3 * 2).into()));
}

#[test]
fn a_change_of_an_absent_bucket_stores_nothing() {
    let mut bucket = Bucket::new(terms(3, 3, 7));
    bucket.change(terms(5, 5, 7), 100);
    assert_eq!(bucket.tat(), None);
}

#[test]
fn a_cost_above_the_burst_is_a_mistake_and_not_a_denial() {
    let mut bucket = spent(terms(3, 3, 7), 1, 0);
    let tat = bucket.tat().cloned();
    assert_eq!(bucket.spend(4, 0), Err(Mistake::CostAboveBurst));
    assert_eq!(bucket.check(4, 0), Err(Mistake::CostAboveBurst));
    assert_eq!(bucket.refund(4, 0), Err(Mistake::CostAboveBurst));
    assert_eq!(bucket.tat(), tat.as_ref());
}

#[test]
fn a_reset_is_idempotent() {
    let mut bucket = spent(terms(3, 3, 7), 3, 0);
    let full = Answer { allowed: true, remaining: 3, retry_in: 0, reset_in: 0 };
    assert_eq!([bucket.reset(), bucket.reset()], [full, full]);
}

#[test]
fn remaining_is_not_negative_when_time_steps_back() {
    let bucket = spent(terms(3, 1, 10), 3, 1_000);
    let answer = bucket.check(0, 900).unwrap();
    let behind = Answer { allowed: false, remaining: 0, retry_in: 100, reset_in: 130 };
    assert_eq!(answer, behind);
}

#[test]
fn the_largest_terms_do_not_overflow() {
    let widest = terms(u64::MAX, 1, u64::MAX);
    let mut bucket = spent(widest, u64::MAX, u64::MAX);
    let wait = u128::from(u64::MAX) * u128::from(u64::MAX);
    let answer = bucket.check(0, 0).unwrap();
    assert_eq!(answer.reset_in, wait + u128::from(u64::MAX));
    bucket.change(terms(u64::MAX, u64::MAX, 1), u64::MAX);
    assert_eq!(bucket.check(0, u64::MAX).unwrap().reset_in, 1);
}
