//! Rules that ask a named limit.

use crate::house::House;

const LIMITS: &str = "
Logins: {burst: 2, count: 1, period: 30s}
PerAddress: {burst: 3, count: 1, period: 1s, id: ipAddress}
Site: {burst: 1, count: 1, period: 100ms}
";

#[test]
fn the_bucket_is_the_one_that_others_ask() {
    let rules = r"rules: [{match: '^login (\w+)$', use: Logins}, {match: '^site$', use: Site}]";
    let mut house = House::with_limits(rules, LIMITS);
    let _ = house.limiter.spend("Logins", "ada", 1, house.now).unwrap();
    house.says("over_limit login ada", "ok N 1.0 2.0 30");
    assert!(!house.limiter.spend("Logins", "ada", 1, house.now).unwrap().allowed);
    house.says("over_limit login bob", "ok N 0.0 2.0 30");
    // Without a group, the limit is everybody's.
    assert!(house.limiter.spend("Site", "*", 1, house.now).unwrap().allowed);
    house.says("over_limit site", "ok Y 1.0 1.0 1");
}

#[test]
fn an_override_is_what_is_printed() {
    let mut house = House::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", LIMITS);
    let limit = ratekeeper::limits::Limit::new(9, 9, ratekeeper::Nanos::from_secs(3)).unwrap();
    let limits = crate::house::limits(LIMITS).with_override("Logins", "ada", limit).unwrap();
    house.limiter.reload(limits, house.now).unwrap();
    house.says("over_limit login ada", "ok N 0.0 9.0 3");
    house.says("over_limit login bob", "ok N 0.0 2.0 30");
}

#[test]
fn an_id_that_does_not_fit_is_answered_by_the_default() {
    let rules = r"
rules:
  - {match: '^from (.*)$', use: PerAddress, stats: true}
default: {over_limit: false, limit: 7, period: 8}
";
    let mut house = House::with_limits(rules, LIMITS);
    house.says("over_limit from 192.0.2.1", "ok N 0.0 3.0 1");
    house.says("over_limit from nowhere", "ok N 0.0 7.0 8");
    house.says("over_limit from ", "ok N 0.0 7.0 8");
    assert_eq!(house.send(b"over_limit from \xff"), b"ok N 0.0 7.0 8");
    house.says("get_stats default", "n_req=3 n_over=0 last_max_rate=0 key=default");
    assert_eq!(house.counts.allowed, 4);
    assert_eq!(house.counts.malformed, 0);
}

#[test]
fn the_default_can_ask_a_named_limit_too() {
    let mut house = House::with_limits("default: {use: Logins, id: '$0'}", LIMITS);
    house.says("over_limit ada", "ok N 0.0 2.0 30");
    house.says("over_limit ada", "ok N 1.0 2.0 30");
    house.says("over_limit bob", "ok N 0.0 2.0 30");
    house.says("over_limit ", "ok N 0.0 1.0 1");
    let mut house = House::with_limits("default: {use: Logins}", LIMITS);
    house.says("over_limit ada", "ok N 0.0 2.0 30");
    house.says("over_limit bob", "ok N 1.0 2.0 30");
}

#[test]
fn a_limit_in_shadow_is_never_over_nor_at_its_rate() {
    let limits = "Logins: {burst: 2, count: 1, period: 30s, shadow: true}";
    let mut house = House::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", limits);
    for said in ["ok N 0.0 2.0 30", "ok N 1.0 2.0 30", "ok N 1.0 2.0 30"] {
        house.says("over_limit login ada", said);
    }
}

#[test]
fn a_denial_says_that_the_rate_is_the_limit() {
    let mut house = House::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", LIMITS);
    for step in 0..200_u32 {
        let said = String::from_utf8(house.send("over_limit login ada")).unwrap();
        let [_, over, rate, limit, _] = said.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (rate, limit): (f64, f64) = (rate.parse().unwrap(), limit.parse().unwrap());
        assert_eq!(over == "Y", rate >= limit, "{said}");
        house.wait_secs(u64::from(step % 23));
    }
}
