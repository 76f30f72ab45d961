//! Refusals are counted for a while and never for less.

use ratekeeper_time::{Moment, Nanos};

use super::{Invalid, InvalidMax};

fn at(secs: u64) -> Moment {
    Moment::from_nanos(secs * 1_000_000_000)
}

#[test]
fn one_less_than_too_many_may_be_refused_and_those_in_flight_count() {
    let mut invalid = Invalid::new(InvalidMax { count: 4, window: Nanos::from_secs(10) });
    assert_eq!((invalid.left(0, at(100)), invalid.left(2, at(100))), (3, 1));
    invalid.add(at(100));
    assert_eq!((invalid.left(0, at(100)), invalid.left(2, at(100))), (2, 0));
}

#[test]
fn a_refusal_is_forgotten_when_it_says_so_and_not_within_the_window() {
    let mut invalid = Invalid::new(InvalidMax { count: 2, window: Nanos::from_secs(10) });
    invalid.add(at(100));
    let frees_at = invalid.frees_at().expect("one is counted");
    assert!(frees_at >= at(110), "{frees_at:?}");
    assert_eq!(invalid.left(0, frees_at.before(Nanos::new(1))), 0);
    assert_eq!(invalid.left(0, frees_at), 1);
    assert_eq!(invalid.frees_at(), None);
}
