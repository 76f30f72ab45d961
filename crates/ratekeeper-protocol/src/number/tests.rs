use super::*;

fn assert_written(number: u64) {
    let mut out = b"before ".to_vec();
    write(number, &mut out);
    assert_eq!(out, format!("before {number}").as_bytes());
    for (end, text) in [(End::new(b""), ""), (End::new(b" behind!"), " behind!")] {
        out.truncate(7);
        write_with(number, end, &mut out);
        assert_eq!(out, format!("before {number}{text}").as_bytes());
    }
}

#[test]
fn numbers_are_written_as_the_standard_library_writes_them() {
    (0..1_000_000).for_each(assert_written);
    (0..SHORT_END).step_by(9_973).for_each(assert_written);
    for power in (0..20).map(|digits| 10_u64.pow(digits)) {
        (power - 1..=power + 1).for_each(assert_written);
    }
    (0..64).map(|bit| u64::MAX >> bit).for_each(assert_written);
}
