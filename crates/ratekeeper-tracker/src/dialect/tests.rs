use ratekeeper_time::Moment;

use super::*;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(1_000 * SECOND + ms * 1_000_000)
}

#[test]
fn the_servers_clock_is_known_the_better_the_more_seconds_were_seen_to_begin() {
    let mut clock = ServerClock::default();
    assert_eq!((clock.ahead().least, clock.ahead().most), (0, 0), "as far as anybody knows");
    // It is 300 ms ahead, and each way takes 40 ms.
    for sent_ms in [0, 350, 620, 1_250, 1_680] {
        let there = at(sent_ms + 40 + 300).as_nanos();
        clock.learn(there / SECOND, at(sent_ms), at(sent_ms + 80));
        let ahead = clock.ahead();
        assert!(ahead.least <= 300_000_000 && 300_000_000 <= ahead.most, "{ahead:?}");
    }
    assert!(clock.ahead().width() < 200_000_000, "{:?}", clock.ahead());
    // It steps by an hour.
    clock.learn(4_600, at(2_000), at(2_080));
    assert!(clock.ahead().least > 3_500_000_000_000, "{:?}", clock.ahead());
}

#[test]
fn what_one_budget_has_shown_is_expected_of_others_until_one_shows_otherwise() {
    let mut dialect = Dialect::default();
    assert_eq!(dialect.rounding(), Rounding::Unknown);
    for (shown, expected) in [
        (Rounding::Exact, Rounding::Unknown),
        (Rounding::Exact, Rounding::Exact),
        (Rounding::Up, Rounding::Down),
        (Rounding::Exact, Rounding::Down),
    ] {
        dialect.hear_rounding(shown);
        assert_eq!(dialect.rounding(), expected, "after {shown:?}");
    }
}
