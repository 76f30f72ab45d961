use super::*;

fn assert_spread(numbers: &[f64], [min, lower, median, upper, max]: [f64; 5]) {
    let expected = Spread { median, lower, upper, min, max };
    assert_eq!(Spread::of(numbers.iter().copied()), Some(expected), "{numbers:?}");
}

#[test]
fn quartiles_stand_between_numbers_where_they_must() {
    assert_spread(&[5.0, 1.0, 4.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_spread(&[4.0, 1.0, 3.0, 2.0], [1.0, 1.75, 2.5, 3.25, 4.0]);
    assert_spread(&[1.0, 2.0], [1.0, 1.25, 1.5, 1.75, 2.0]);
    assert_spread(&[7.0], [7.0; 5]);
}

#[test]
fn one_run_that_went_wrong_does_not_move_the_median() {
    assert_spread(&[1.0, 1.0, 1.0, 1.0, 99.0], [1.0, 1.0, 1.0, 1.0, 99.0]);
}

#[test]
fn what_is_no_number_does_not_count() {
    assert_eq!(Spread::of([]), None);
    assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
    assert_spread(&[f64::NAN, 7.0], [7.0; 5]);
}
