//! What the parts do that no file shows. The files themselves are tested in `tests/limits_*.rs`.

use std::net::Ipv6Addr;

use super::address::write_ipv6;
use super::duration::{DurationError, parse_duration};
use super::name::{NAME_BYTES_MAX, NameError, check_name, near_known_name, nearest};
use super::{
    COMMENT_BYTES_MAX, DefineError, IdBuffer, IdError, IdFormat, Limit, Limits, Origin, Override,
    Source, changes,
};
use crate::Nanos;
use crate::algorithm::gcra::{BURST_MAX, PERIOD_MAX, RuleError};

#[test]
fn durations_are_exact_sums_of_their_parts() {
    for (text, nanos) in [
        ("1ns", 1),
        ("1us", 1_000),
        ("1\u{b5}s", 1_000),
        ("1\u{3bc}s", 1_000),
        ("1ms", 1_000_000),
        ("1s", 1_000_000_000),
        ("180m", 10_800_000_000_000),
        ("3h", 10_800_000_000_000),
        ("1d", 86_400_000_000_000),
        ("1w", 604_800_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1h0.5m", 3_630_000_000_000),
        ("0h1s", 1_000_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("0.1us", 100),
        ("1.000000000000000000000000000000000000000000000s", 1_000_000_000),
        ("0.000000001s", 1),
        ("0.3s", 300_000_000),
        ("007s", 7_000_000_000),
        // The most decimals that can leave whole nanoseconds.
        ("0.0000152587890625w", 9_228_515_625),
    ] {
        assert_eq!(parse_duration(text), Ok(Nanos::new(nanos)), "{text}");
    }
}

#[test]
fn what_is_not_a_duration_is_told_why() {
    for (text, error) in [
        ("", DurationError::Empty),
        ("-1s", DurationError::Negative),
        ("0s", DurationError::Zero),
        ("0h0m0.0s", DurationError::Zero),
        ("180", DurationError::NoUnit),
        ("1.5", DurationError::NoUnit),
        ("1h30", DurationError::NoLastUnit),
        ("1min", DurationError::UnknownUnit),
        ("1S", DurationError::UnknownUnit),
        ("1 s", DurationError::UnknownUnit),
        ("1s ", DurationError::UnknownUnit),
        ("1,5h", DurationError::UnknownUnit),
        ("1h-30m", DurationError::UnknownUnit),
        ("s", DurationError::NoNumber),
        (".s", DurationError::NoNumber),
        ("1s.", DurationError::NoNumber),
        ("1.2.3s", DurationError::NoNumber),
        (" 1s", DurationError::NoNumber),
        ("1h+30m", DurationError::UnknownUnit),
        ("0.5ns", DurationError::NotWhole),
        ("0.0000000001s", DurationError::NotWhole),
        ("0.33333333333333333333333333333333333333333333h", DurationError::NotWhole),
        ("200y", DurationError::UnknownUnit),
        ("8000w", DurationError::TooLong),
        ("4611686018427387905ns", DurationError::TooLong),
        ("999999999999999999999999999999999999999999999999s", DurationError::TooLong),
        ("340282366920938463463374607431768211455ns1ns", DurationError::TooLong),
        ("340282366920938463463374607431768211455w", DurationError::TooLong),
    ] {
        assert_eq!(parse_duration(text), Err(error), "{text}");
    }
}

#[test]
fn the_longest_period_can_be_written() {
    assert_eq!(parse_duration(&format!("{}ns", PERIOD_MAX.get())), Ok(PERIOD_MAX));
    assert_eq!(parse_duration(&PERIOD_MAX.to_string()), Ok(PERIOD_MAX));
}

#[test]
fn what_is_displayed_reads_back() {
    for nanos in [1, 999, 1_000, 90_061_001_001_001, 86_400_000_000_000, PERIOD_MAX.get()] {
        let length = Nanos::new(nanos);
        assert_eq!(parse_duration(&length.to_string()), Ok(length));
    }
}

#[test]
fn addresses_are_spelled_as_the_standard_library_spells_them() {
    let mut words = 1_u64;
    for round in 0_u32..20_000 {
        words =
            words.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let segments = words.to_be_bytes().map(|byte| match byte % 4 {
            0 | 1 => 0,
            2 => u16::from(byte),
            _ => u16::from(byte) << (round % 9),
        });
        let address = Ipv6Addr::from(segments);
        let mut buffer = IdBuffer::new();
        let written = buffer.write(|cursor| write_ipv6(cursor, address));
        if address.to_ipv4_mapped().is_none() {
            assert_eq!(written, Some(&*address.to_string()));
        }
    }
}

#[test]
fn a_limit_is_written_as_it_is_said() {
    let limit = |burst, count, secs| Limit::new(burst, count, Nanos::from_secs(secs)).unwrap();
    assert_eq!(limit(300, 300, 10_800).to_string(), "300 per 3h");
    assert_eq!(limit(20, 40, 1).to_string(), "40 per 1s, burst 20");
    assert!(limit(2, 2, 2).has_effect_of(&limit(2, 1, 1)));
    assert!(!limit(2, 2, 2).has_effect_of(&limit(1, 1, 1)));
    assert_ne!(limit(2, 2, 2), limit(2, 1, 1));
}

#[test]
fn there_is_no_limit_that_the_arithmetic_cannot_apply() {
    let second = Nanos::from_secs(1);
    assert_eq!(Limit::new(0, 1, second), Err(RuleError::Burst));
    assert_eq!(Limit::new(BURST_MAX + 1, 1, second), Err(RuleError::Burst));
    assert_eq!(Limit::new(1, 0, second), Err(RuleError::Count));
    assert_eq!(Limit::new(1, 1, Nanos::ZERO), Err(RuleError::Period));
    assert_eq!(Limit::new(1, (1 << 32) + 1, second), Err(RuleError::TooFine));
}

#[test]
fn names_are_short_and_have_neither_colons_nor_spaces() {
    for (name, expected) in [
        ("NewFoosPerIPAddress", Ok(())),
        ("größe", Ok(())),
        ("6th", Ok(())),
        ("", Err(NameError::Empty)),
        ("a:b", Err(NameError::Colon)),
        ("a b", Err(NameError::Blank)),
        ("a\u{a0}b", Err(NameError::Blank)),
        ("a\u{7f}b", Err(NameError::Blank)),
        ("6", Err(NameError::Number)),
    ] {
        assert_eq!(check_name(name), expected, "{name:?}");
    }
    assert_eq!(check_name(&"x".repeat(NAME_BYTES_MAX)), Ok(()));
    assert_eq!(check_name(&"x".repeat(NAME_BYTES_MAX + 1)), Err(NameError::TooLong));
}

#[test]
fn a_misspelling_is_recognised_and_a_different_word_is_not() {
    let near = |text| nearest(text, ["burst", "count", "period"].into_iter());
    assert_eq!(near("bust"), Some("burst"));
    assert_eq!(near("brust"), Some("burst"));
    assert_eq!(near("Period"), Some("period"));
    assert_eq!(near("conut"), Some("count"));
    assert_eq!(near("limit"), None);
    assert_eq!(near(""), None);
    assert_eq!(near(&"burst".repeat(1000)), None);
    assert_eq!(nearest("x", ["id"].into_iter()), None);
}

#[test]
fn a_known_name_is_not_near_itself() {
    assert_eq!(near_known_name("NewOrdersPerAccount"), None);
    assert_eq!(near_known_name("NewOrderPerAccount"), Some("NewOrdersPerAccount"));
    assert_eq!(near_known_name("NewFoosPerIPAddress"), None);
    assert_eq!(IdFormat::default(), IdFormat::Any);
}

#[test]
fn a_program_can_define_what_a_file_can() {
    let limit = |count| Limit::new(20, count, Nanos::from_secs(1)).unwrap();
    let limits = Limits::new()
        .with("NewOrdersPerAccount", limit(20))
        .and_then(|limits| limits.with_override("NewOrdersPerAccount", "007", limit(40)))
        .and_then(|limits| limits.with("Mine", limit(1)))
        .and_then(|limits| limits.with_ids("PerAddress", IdFormat::IpAddress, limit(2)))
        .unwrap();
    let orders = limits.named("NewOrdersPerAccount").unwrap();
    assert_eq!((orders.number(), orders.id_format()), (Some(6), IdFormat::RegId));
    assert_eq!(orders.limit_for("7"), Some(&limit(40)));
    assert_eq!(orders.overrides()[0].origin.to_string(), "the program");
    assert_eq!(limits.iter().count(), 3);

    let refused = |result: Result<Limits, DefineError>| result.unwrap_err().to_string();
    assert_eq!(
        refused(limits.clone().with("a:b", limit(1))),
        "`a:b` cannot name a limit: the name contains a colon"
    );
    assert_eq!(
        refused(limits.clone().with_ids("NewOrdersPerAccount", IdFormat::Any, limit(1))),
        "the ids of `NewOrdersPerAccount` are of the format `regId`: leave the format out, or use that"
    );
    assert_eq!(
        refused(limits.clone().with_override("Nonsense", "1", limit(1))),
        "there is no limit `Nonsense`: define it first"
    );
    assert!(limits.with_override("PerAddress", "ada", limit(1)).is_err());
}

#[test]
fn an_override_says_where_it_comes_from_and_why() {
    let limit = |count| Limit::new(20, count, Nanos::from_secs(1)).unwrap();
    let add = |limits: Limits, name: &str, id: &str, count, comment: &str| {
        let origin = Origin::named("the desk");
        limits.with_override_from(name, id, limit(count), origin, Some(comment))
    };
    let orders = "NewOrdersPerAccount";
    let limits = Limits::new().with(orders, limit(20)).unwrap();
    let limits = add(limits, orders, "10", 30, "first").unwrap();
    let limits = add(limits, orders, "007", 40, "second").unwrap();
    let limits = add(limits, orders, "7", 50, "third").unwrap();
    let overrides = limits.named(orders).unwrap().overrides();
    let shown =
        |over: &Override| format!("{} {} {:?} {}", over.id, over.limit, over.comment, over.origin);
    let shown: Vec<_> = overrides.iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "10 30 per 1s, burst 20 Some(\"first\") the desk",
            "7 50 per 1s, burst 20 Some(\"third\") the desk"
        ]
    );
    assert_eq!(overrides[0].origin.line(), 0);

    let longest = "x".repeat(COMMENT_BYTES_MAX);
    assert!(add(limits.clone(), orders, "1", 1, &longest).is_ok());
    let refused = |name, id, comment: &str| {
        add(limits.clone(), name, id, 1, comment).unwrap_err().to_string()
    };
    assert_eq!(
        refused(orders, "01", &(longest.clone() + "x")),
        "the comment on `NewOrdersPerAccount:1` is longer than 1024 bytes: shorten it"
    );
    assert_eq!(
        refused("FailedAuthorizationsPerAccount", "1", ""),
        "there is no limit `FailedAuthorizationsPerAccount`: define it first"
    );
}

#[test]
fn a_bucket_has_neither_overrides_nor_a_shadow() {
    let source = Source { name: "buckets.conf", text: "search 1" };
    let limits = Limits::new().with_buckets(&source).unwrap();
    let limit = Limit::new(1, 1, Nanos::from_secs(1)).unwrap();
    let refused = "`search` is a bucket that all share: only a limit has overrides or is in shadow";
    let result = limits.clone().with_override("search", "*", limit);
    assert_eq!(result.unwrap_err().to_string(), refused);
    assert_eq!(limits.clone().with_shadow("search", true).unwrap_err().to_string(), refused);
    assert!(matches!(limits.with_shadow("find", true), Err(DefineError::Undefined { .. })));
}

#[test]
fn a_program_puts_a_limit_in_shadow_as_a_file_does() {
    let file = Source { name: "f", text: "A: {burst: 1, count: 1, period: 1s, shadow: true}" };
    let file = Limits::parse(&file, None).unwrap();
    let limit = Limit::new(1, 1, Nanos::from_secs(1)).unwrap();
    let limits = Limits::new().with("A", limit).unwrap();
    assert!(!limits.named("A").unwrap().is_shadow());
    let limits = limits.with_shadow("A", true).unwrap();
    assert!(limits.named("A").unwrap().is_shadow());
    assert!(changes(&file, &limits).is_empty());
    let limits = limits.with_shadow("A", false).unwrap();
    assert_eq!(changes(&file, &limits).len(), 1);
}

#[test]
fn a_limit_spells_its_ids_as_files_do() {
    let limit = Limit::new(1, 1, Nanos::from_secs(1)).unwrap();
    let limits = Limits::new().with("NewRegistrationsPerIPv6Range", limit).unwrap();
    let named = limits.named("NewRegistrationsPerIPv6Range").unwrap();
    assert_eq!(named.canonical_id("2001:0DB8::/48").as_deref(), Ok("2001:db8::/48"));
    assert_eq!(named.canonical_id("2001:db8::1"), Err(IdError::RangeNotWhole));
    assert_eq!(named.canonical_id(""), Err(IdError::Empty));
}
