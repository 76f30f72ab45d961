use tollgate::{Moment, Nanos};

use super::{Held, SKEW_MAX, Terms};

const SECOND: Nanos = Nanos::from_secs(1);

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn near_the_end_of_a_term_a_request_counts_in_both() {
    let terms = |ms: u64| {
        let terms = Terms::at(at(ms), SECOND);
        (terms.current, terms.other)
    };
    assert_eq!(terms(0), (0, None), "there was none before");
    assert_eq!(terms(57_999), (0, None));
    assert_eq!(terms(58_000), (0, Some(1)));
    assert_eq!(terms(59_999), (0, Some(1)));
    assert_eq!(terms(60_000), (1, Some(0)));
    assert_eq!(terms(62_999), (1, Some(0)));
    assert_eq!(terms(63_000), (1, None));
}

/// Any two requests in one window, of processes whose clocks differ, have a term in common, also if
/// the first is two seconds longer on its way.
#[test]
fn whatever_the_api_counts_in_one_window_is_counted_in_one_term() {
    for first_ms in 55_000..66_000 {
        let usual = [(-2_000_i64, 999), (2_000, 999), (0, 1), (1_999, 0), (-2_000, 0)];
        for (skew, apart) in usual.into_iter().chain([(-2_000, 2_999), (2_000, 2_999)]) {
            let second_ms = first_ms + apart;
            let first = Terms::at(at(first_ms), SECOND);
            let second = Terms::at(at(second_ms.checked_add_signed(skew).unwrap()), SECOND);
            let common = first.iter().any(|term| second.iter().any(|other| other == term));
            assert!(common, "{first:?} at {first_ms}, {second:?} {apart} ms later, {skew}");
        }
    }
    assert_eq!(SKEW_MAX, Nanos::from_secs(2));
}

#[test]
fn what_is_due_goes_back_to_the_terms_it_came_from() {
    let mut held = Held::default();
    let [both, one] = [at(60_500), at(70_000)].map(|at| Terms::at(at, SECOND));
    held.until(at(61_500), both);
    held.until(at(71_000), one);
    held.until(at(70_000), one);
    held.release(one);
    assert_eq!(held.due(at(61_000)), [(1, 1)]);
    assert_eq!(held.next(), Some(at(61_500)));
    assert_eq!(held.due(at(61_500)), [(1, 1), (0, 1)]);
    assert_eq!(held.due(at(70_999)), []);
    assert_eq!(held.due(at(71_000)), [(1, 2)]);
    assert_eq!(held.next(), None);
}
