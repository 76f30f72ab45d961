use tollgate::{Moment, Nanos};

use super::super::till::Answer;
use super::Freshness;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn with(granted: u32, lacks: u32) -> Answer {
    Answer { granted, left: 2 - lacks, lacks, retry_in: Nanos::ZERO, second: None }
}

fn fifty() -> Freshness {
    Freshness::new(Nanos::new(20_000_000))
}

#[test]
fn an_answer_that_took_much_longer_than_they_do_is_too_late() {
    let mut freshness = fifty();
    assert!(freshness.judge(&with(1, 1), at(0), at(1)));
    assert!(freshness.judge(&with(1, 1), at(100), at(109)));
    assert!(!freshness.judge(&with(1, 1), at(200), at(210)));
}

#[test]
fn after_a_denial_a_token_may_come_later_by_as_long_as_one_takes_to_come() {
    for (late_ms, is_fresh) in [(20, true), (21, false)] {
        let mut freshness = fifty();
        assert!(freshness.judge(&with(0, 2), at(99), at(100)));
        assert_eq!(freshness.judge(&with(1, 2), at(104), at(99 + late_ms)), is_fresh, "{late_ms}");
    }
}

#[test]
fn a_bucket_of_one_token_is_as_full_as_it_gets_after_a_denial() {
    let mut freshness = fifty();
    assert!(freshness.judge(&with(0, 1), at(99), at(100)));
    assert!(!freshness.judge(&with(1, 1), at(104), at(115)));
}

#[test]
fn a_way_that_became_longer_is_not_too_late_for_ever() {
    let mut freshness = fifty();
    assert!(freshness.judge(&with(1, 1), at(0), at(1)));
    let mut late = |n: u64| !freshness.judge(&with(1, 1), at(1_000 * n), at(1_000 * n + 30));
    let refused = (1..1_000).filter(|&n| late(n)).count();
    assert!((1..300).contains(&refused), "{refused}");
}
