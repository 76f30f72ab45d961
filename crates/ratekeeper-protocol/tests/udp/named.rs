//! Rules that ask a named limit.

use crate::udp_fixture::UdpFixture;

const LIMITS: &str = "
Logins: {burst: 2, count: 1, period: 30s}
PerAddress: {burst: 3, count: 1, period: 1s, id: ipAddress}
Site: {burst: 1, count: 1, period: 100ms}
";

#[test]
fn the_bucket_is_the_one_that_others_ask() {
    let rules = r"rules: [{match: '^login (\w+)$', use: Logins}, {match: '^site$', use: Site}]";
    let mut fixture = UdpFixture::with_limits(rules, LIMITS);
    let _ = fixture.limiter.spend("Logins", "ada", 1, fixture.now).unwrap();
    fixture.says("over_limit login ada", "ok N 1.0 2.0 30");
    assert!(!fixture.limiter.spend("Logins", "ada", 1, fixture.now).unwrap().allowed);
    fixture.says("over_limit login bob", "ok N 0.0 2.0 30");
    // Without a group, the limit is everybody's.
    assert!(fixture.limiter.spend("Site", "*", 1, fixture.now).unwrap().allowed);
    fixture.says("over_limit site", "ok Y 1.0 1.0 1");
}

#[test]
fn an_override_is_what_is_printed() {
    let mut fixture =
        UdpFixture::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", LIMITS);
    let limit = ratekeeper::limits::Limit::new(9, 9, ratekeeper::Nanos::from_secs(3)).unwrap();
    let limits = crate::udp_fixture::limits(LIMITS).with_override("Logins", "ada", limit).unwrap();
    fixture.limiter.reload(limits, fixture.now).unwrap();
    fixture.says("over_limit login ada", "ok N 0.0 9.0 3");
    fixture.says("over_limit login bob", "ok N 0.0 2.0 30");
}

#[test]
fn an_id_that_does_not_fit_is_answered_by_the_default() {
    let rules = r"
rules:
  - {match: '^from (.*)$', use: PerAddress, stats: true}
default: {over_limit: false, limit: 7, period: 8}
";
    let mut fixture = UdpFixture::with_limits(rules, LIMITS);
    fixture.says("over_limit from 192.0.2.1", "ok N 0.0 3.0 1");
    fixture.says("over_limit from nowhere", "ok N 0.0 7.0 8");
    fixture.says("over_limit from ", "ok N 0.0 7.0 8");
    assert_eq!(fixture.send(b"over_limit from \xff"), b"ok N 0.0 7.0 8");
    fixture.says("get_stats default", "n_req=3 n_over=0 last_max_rate=0 key=default");
    assert_eq!(fixture.counts.allowed, 4);
    assert_eq!(fixture.counts.malformed, 0);
}

#[test]
fn the_default_can_ask_a_named_limit_too() {
    let mut fixture = UdpFixture::with_limits("default: {use: Logins, id: '$0'}", LIMITS);
    fixture.says("over_limit ada", "ok N 0.0 2.0 30");
    fixture.says("over_limit ada", "ok N 1.0 2.0 30");
    fixture.says("over_limit bob", "ok N 0.0 2.0 30");
    fixture.says("over_limit ", "ok N 0.0 1.0 1");
    let mut fixture = UdpFixture::with_limits("default: {use: Logins}", LIMITS);
    fixture.says("over_limit ada", "ok N 0.0 2.0 30");
    fixture.says("over_limit bob", "ok N 1.0 2.0 30");
}

#[test]
fn a_limit_in_shadow_is_never_over_nor_at_its_rate() {
    let limits = "Logins: {burst: 2, count: 1, period: 30s, shadow: true}";
    let mut fixture =
        UdpFixture::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", limits);
    for said in ["ok N 0.0 2.0 30", "ok N 1.0 2.0 30", "ok N 1.0 2.0 30"] {
        fixture.says("over_limit login ada", said);
    }
}

#[test]
fn a_denial_says_that_the_rate_is_the_limit() {
    let mut fixture =
        UdpFixture::with_limits(r"rules: [{match: '^login (\w+)$', use: Logins}]", LIMITS);
    for step in 0..200_u32 {
        let said = String::from_utf8(fixture.send("over_limit login ada")).unwrap();
        let [_, over, rate, limit, _] = said.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (rate, limit): (f64, f64) = (rate.parse().unwrap(), limit.parse().unwrap());
        assert_eq!(over == "Y", rate >= limit, "{said}");
        fixture.wait_secs(u64::from(step % 23));
    }
}
