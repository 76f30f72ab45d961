use super::*;

#[test]
fn a_time_that_is_written_is_read_back_to_the_nanosecond() {
    for nanos in [0, 1, 1_700_000_000_000_000_001, Moment::MAX.as_nanos()] {
        let utc = Utc(Moment::from_nanos(nanos));
        assert_eq!(utc.to_string().parse(), Ok(utc), "{utc}");
    }
    assert_eq!(Utc(Moment::EPOCH).to_string(), "1970-01-01T00:00:00Z");
    let offset: Utc = "2026-12-01T01:00:00+01:00".parse().unwrap();
    assert_eq!(offset.to_string(), "2026-12-01T00:00:00Z");
}

#[test]
fn what_no_moment_can_say_is_refused() {
    for text in ["", "tomorrow", "1969-12-31T23:59:59Z", "2263-01-01T00:00:00Z", "2026-12-01"] {
        assert_eq!(text.parse::<Utc>(), Err(UtcError), "{text}");
    }
}

#[test]
fn seconds_are_whole_where_they_can_be() {
    let written = |nanos| serde_json::to_string(&Seconds(Nanos::new(nanos))).unwrap();
    assert_eq!(written(10_800 * SECOND), "10800");
    assert_eq!(written(100_000_000), "0.1");
    assert_eq!(written(1), "0.000000001");
    assert_eq!(written(0), "0");
    assert_eq!(written(SECOND + 20_030), "1.00002003");
    assert_eq!(written(u128::MAX), "340282366920938463463374607431.768211455");
}
