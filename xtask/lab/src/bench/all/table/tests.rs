use super::*;
use crate::bench::all::cases::{KEYS, all};

fn sample(rate: f64) -> Sample {
    Sample { rate, p50: 1e6 / rate, cpu: 5e5 / rate }
}

#[test]
fn a_row_tells_both_sides_their_ratio_and_the_verdict() {
    let group = &all(KEYS)[0];
    let measured = [
        Measured { name: group.contenders[0].name, samples: Ok(vec![sample(1_800_000.0)]) },
        Measured { name: group.contenders[1].name, samples: Ok(vec![sample(2_000_000.0)]) },
    ];
    let rows = rows(group, &measured);
    assert_eq!(rows[0].verdict, Verdict::Ok);
    let markdown = markdown(&rows);
    assert!(markdown.contains("| 1,800,000 | 278 ns | 0.56 us |"), "{markdown}");
    assert!(markdown.contains("| 2,000,000 | 250 ns | 0.50 us |"), "{markdown}");
    assert!(markdown.contains("per second: 0.90 (0.90 to 0.90) | at least 0.9 | ok |"));
    assert_eq!(text(&rows).lines().count(), 1 + group.comparisons.len());
}

#[test]
fn what_was_not_measured_is_said_and_no_goal_is_reached() {
    let group = &all(KEYS)[0];
    let measured = [
        Measured { name: group.contenders[0].name, samples: Ok(vec![sample(1.0)]) },
        Measured { name: group.contenders[1].name, samples: Err("it is away".into()) },
    ];
    let rows = rows(group, &measured);
    assert_eq!(rows[0].verdict, Verdict::NotMeasured);
    assert_eq!(
        rows[0].notes,
        ["udp, 4 sockets, 64 in flight on each, bare recvmmsg/sendmmsg: it is away"]
    );
}

#[test]
fn numbers_have_three_digits_or_commas() {
    assert_eq!([0.994, 9.99, 10.04, 123.4].map(digits), ["0.99", "9.99", "10.0", "123"]);
    let numbers = [0.4, 999.0, 1_000.0, 1_234_567.0].map(thousands);
    assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
}
