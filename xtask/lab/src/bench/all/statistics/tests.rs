use super::*;

#[test]
fn the_quartiles_lie_between_neighbours() {
    let spread = |numbers: &[f64]| Spread::of(numbers.to_vec());
    assert_eq!(spread(&[]), None);
    assert_eq!(spread(&[f64::NAN, f64::INFINITY]), None);
    let one = Spread { median: 7.0, lower: 7.0, upper: 7.0 };
    assert_eq!(spread(&[7.0]), Some(one));
    let five = Spread { median: 3.0, lower: 2.0, upper: 4.0 };
    assert_eq!(spread(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some(five));
    let two = Spread { median: 1.5, lower: 1.25, upper: 1.75 };
    assert_eq!(spread(&[2.0, 1.0]), Some(two));
}
