//! Credit is earned by round trips that were seen, and is less than any of them.

use ratekeeper_testkit::random::Random;
use ratekeeper_time::Moment;

use super::{CREDIT_MAX, Credit, SAMPLES_MIN};
use crate::length::Length;

const MS: u64 = 1_000_000;

#[test]
fn nothing_is_given_before_enough_was_seen() {
    let mut credit = Credit::new();
    for n in 1..u64::from(SAMPLES_MIN) {
        credit.learn(Moment::from_nanos(n * MS), Moment::from_nanos((n + 40) * MS));
        assert_eq!(credit.given(), Length::ZERO);
    }
}

#[test]
fn credit_is_always_less_than_the_shortest_round_trip_and_than_its_bound() {
    let mut random = Random::new(1);
    let (mut credit, mut shortest, mut now) = (Credit::new(), u64::MAX, 0);
    for _ in 0..10_000 {
        let took = 40 * MS + random.below(5 * MS);
        (now, shortest) = (now + MS, shortest.min(took));
        credit.learn(Moment::from_nanos(now), Moment::from_nanos(now + took));
        assert!(credit.given() < Length::from_nanos(shortest) && credit.given() <= CREDIT_MAX);
    }
    assert!(credit.given() >= Length::from_nanos(20 * MS), "{:?}", credit.given());
}
