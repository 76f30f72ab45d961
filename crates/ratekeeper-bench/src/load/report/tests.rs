use super::*;

#[test]
fn times_have_three_digits_and_a_unit() {
    let times = [(0, "0.00 us"), (1_234, "1.23 us"), (12_345, "12.3 us"), (999_600, "1.00 ms")];
    for (nanos, words) in times {
        assert_eq!(time(nanos), words);
    }
    assert_eq!(time(2_000_000_000), "2.00 s");
    assert_eq!(time(123_456_000), "123 ms");
}

#[test]
fn a_part_of_nothing_is_nothing() {
    assert_eq!(share(0, 0), "0.0 %");
    assert_eq!(share(1, 3), "33.3 %");
}
