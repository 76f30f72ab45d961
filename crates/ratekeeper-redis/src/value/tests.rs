use ratekeeper_testkit::random::Random;

use super::*;

#[test]
fn a_value_is_written_as_it_was_read_without_what_is_held() {
    let text = "1763273645123456 300000 100000/1 20";
    let read = |text: &str| Value::read(Kind::Bucket, text).map(|it| it.to_string());
    assert_eq!(read(text).as_deref(), Ok(text));
    assert_eq!(read(&format!("{text} 00aa 5 1763273645123000")).as_deref(), Ok(text));
    let more = format!("{text} +980");
    assert_eq!(read(&more).as_deref(), Ok(&*more));
    assert_eq!(read(&format!("{more} 00aa 5 1763273645123000")).as_deref(), Ok(&*more));
    let back = "1763273645123456 -99999 100000/1 20 +980";
    assert_eq!(read(back).as_deref(), Ok("1763273645123456 0 100000/1 20 +980"));
    for (kind, text) in [
        (Kind::Average, "1763273645123456 3.25 20"),
        (Kind::Quota, "18446744073709551615 1763273705.123456000 ms"),
    ] {
        assert_eq!(Value::read(kind, text).map(|it| it.to_string()).as_deref(), Ok(text));
    }
}

#[test]
fn what_is_no_value_is_refused_with_what_was_expected() {
    for text in [
        "",
        "1",
        "1 2 3/4",
        "1 2 3 4",
        "-1 2 3/4 5",
        "1 2 0/4 5",
        "1 2 3/0 5",
        "1 16 3/4 5",
        "1 2 3/4 5 6",
        "1 2 3/4 9007199254740992",
        "9223372036854775 1 1/1 1x",
        "1 2 3/4 +5",
        "1 -2 3/4 5",
        "1 2 3/4 5 +",
        "1 2 3/4 5 +4294967297",
    ] {
        let refused = Value::read(Kind::Bucket, text).unwrap_err().to_string();
        assert!(refused.contains("AT DEBT STEP/RATE BURST"), "{text}: {refused}");
    }
    for text in ["1 x 20", "1 -1 20", "1 2 0", "1 inf 20", "1 2"] {
        assert!(Value::read(Kind::Average, text).is_err(), "{text}");
    }
    for text in ["1 2 s", "1 2.5 s", "1 2.000000000 h", "-1 2.000000000 s"] {
        assert!(Value::read(Kind::Quota, text).is_err(), "{text}");
    }
}

#[test]
fn there_and_back_owes_at_least_as_much_and_less_than_a_tick_and_a_microsecond_more() {
    let mut random = Random::new(11);
    for _ in 0..20_000 {
        let burst = random.log_between(1, 1 << 32);
        let count = random.log_between(1, 1 << 32);
        let period = random.log_between(1, 1 << 62);
        let Ok(rule) = gcra::Rule::new(burst, count, Nanos::new(period.into())) else {
            continue;
        };
        let (nanos, per_nanos) = rule.emission_interval();
        let depth = (u128::from(burst) * u128::from(nanos)).div_ceil(per_nanos.into());
        let most = u64::try_from(depth.min(1 << 62)).unwrap();
        let full_in = Nanos::new(random.log_between(1, most.max(1)).into());
        let now = Moment::from_nanos(random.log_between(1, 1 << 61));
        let Ok(value) = BucketValue::of(&rule, Owed { full_in, hidden: 0 }, now) else {
            continue;
        };
        let value = value.unwrap();
        assert_eq!(value.to_string().parse(), Ok(value));
        let back = value.owed(&rule, now).full_in;
        // It counts from the beginning of the microsecond.
        let since = u128::from(now.as_nanos() % NANOS_PER_MICRO);
        let least = full_in.get().saturating_add(since).min(depth);
        assert!(back.get() >= least, "{rule:?}: {back:?} of {full_in:?}");
        let tick = u128::from(nanos).div_ceil(u128::from(value.step) * u128::from(per_nanos));
        let more = back.get() - least;
        assert!(more <= tick + 1, "{rule:?}: {back:?} of {full_in:?}, {more} more");
    }
}
