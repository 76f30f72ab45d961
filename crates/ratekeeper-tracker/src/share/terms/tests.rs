use ratekeeper_time::{Moment, Nanos};

use super::{Terms, kept_max, kept_min};

const SECOND: Nanos = Nanos::from_secs(1);

fn at(ms: u64) -> Terms {
    Terms::at(Moment::from_nanos(ms * 1_000_000), SECOND)
}

#[test]
fn a_token_is_of_the_current_term_and_of_two_before() {
    let terms = |ms: u64| at(ms).iter().collect::<Vec<_>>();
    assert_eq!(terms(0), [0], "there was none before");
    assert_eq!(terms(2_999), [0, 1]);
    assert_eq!(terms(3_000), [0, 1, 2]);
    assert_eq!(terms(4_499), [0, 1, 2]);
    assert_eq!(terms(4_500), [1, 2, 3]);
    assert_eq!(at(3_000).end(SECOND), Moment::from_nanos(4_500_000_000));
}

#[test]
fn when_terms_have_begun_a_token_lacks_only_these() {
    assert_eq!(at(60_000).beyond(&at(60_000)), None);
    assert_eq!(at(60_000).beyond(&at(61_500)), None, "a clock was put right");
    let beyond =
        |ms: u64| at(60_000 + ms).beyond(&at(60_000)).map(|it| it.iter().collect::<Vec<_>>());
    assert_eq!(beyond(1_500).unwrap(), [41]);
    assert_eq!(beyond(3_000).unwrap(), [41, 42]);
    assert!(at(63_000).overlaps(&at(60_000)));
    assert!(!at(64_500).overlaps(&at(60_000)), "it was away for longer than tokens are kept");
}

/// From whenever a process died, as long as that its tokens are in the way of others, and no longer.
#[test]
fn a_token_that_nobody_renews_is_kept_within_its_bounds() {
    assert_eq!(
        (kept_min(SECOND), kept_max(SECOND)),
        (Nanos::from_secs(3), Nanos::new(4_500_000_000))
    );
    for died_ms in 60_000..64_500 {
        let taken = at(died_ms);
        let free_ms = (died_ms..60_000_000).find(|&ms| !at(ms).overlaps(&taken)).unwrap();
        assert!((3_000..=4_500).contains(&(free_ms - died_ms)), "{}", free_ms - died_ms);
    }
}
