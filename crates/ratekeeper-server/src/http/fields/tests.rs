use axum::http::HeaderMap;
use jiff::Timestamp;
use ratekeeper::limits::{Limit, Limits, Source};
use ratekeeper::{Decision, Limiter, Mode, Moment, Nanos, Request};
use ratekeeper_testkit::random::Random;

use super::parser::{Member, parse_list};
use super::{Answered, Answers, FIELD_BYTES_MAX, POLICIES_MAX, next_in, write};
use crate::settings::XRateLimit;

const DIALECTS: [XRateLimit; 5] = [
    XRateLimit::Off,
    XRateLimit::Seconds,
    XRateLimit::Unix,
    XRateLimit::UnixMs,
    XRateLimit::Iso8601,
];
const SECOND: u128 = 1_000_000_000;
/// 2026, in nanoseconds since 1970.
const START: u64 = 1_790_000_000_123_456_789;

fn limit(burst: u64, count: u64, period: Nanos) -> Limit {
    Limit::new(burst, count, period).unwrap()
}

fn answered<'a>(name: &'a str, limit: &'a Limit, decision: Decision) -> Answered<'a> {
    Answered { name, limit, decision, has_say: true }
}

fn allowed(remaining: u64, retry_in: u128, reset_in: u128) -> Decision {
    let (retry_in, reset_in) = (Nanos::new(retry_in), Nanos::new(reset_in));
    let waits = Decision { retry_in, reset_in, ..Decision::default() };
    Decision { allowed: true, remaining, ..waits }
}

fn denied(remaining: u64, retry_in: u128, reset_in: u128) -> Decision {
    Decision { allowed: false, ..allowed(remaining, retry_in, reset_in) }
}

fn fields(asks: &[Answered<'_>], decided_by: usize, dialect: XRateLimit, now: Moment) -> HeaderMap {
    let denied = !asks[decided_by].decision.allowed;
    let mut fields = HeaderMap::new();
    write(&mut fields, &Answers { asks, decided_by, denied }, dialect, now);
    fields
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    fields.get(name).map(|value| value.to_str().unwrap())
}

fn members(fields: &HeaderMap, name: &str) -> Vec<Member> {
    parse_list(text(fields, name).unwrap()).unwrap()
}

fn parameter(member: &Member, key: &str) -> Option<u64> {
    member.1.iter().find(|(other, _)| other == key).map(|(_, value)| *value)
}

#[test]
fn an_answer_says_the_policy_what_is_left_and_when_there_is_more() {
    let limit = limit(20, 10, Nanos::from_secs(1));
    let ask = answered("PerUser", &limit, allowed(17, 0, 250_000_000));
    let fields = fields(&[ask], 0, XRateLimit::Off, Moment::from_nanos(START));
    assert_eq!(text(&fields, "ratelimit-policy"), Some("\"PerUser\";q=20;w=2"));
    assert_eq!(text(&fields, "ratelimit"), Some("\"PerUser\";r=17;t=1"));
    assert_eq!(fields.len(), 2);
}

#[test]
fn a_denial_says_when_to_come_again() {
    let limit = limit(1, 1, Nanos::from_secs(60));
    let ask = answered("PerUser", &limit, denied(0, 1_000_000_001, 1_000_000_001));
    let fields = fields(&[ask], 0, XRateLimit::Seconds, Moment::from_nanos(START));
    assert_eq!(text(&fields, "ratelimit"), Some("\"PerUser\";r=0;t=2"));
    assert_eq!(text(&fields, "retry-after"), Some("2"));
    assert_eq!(text(&fields, "x-ratelimit-limit"), Some("1"));
    assert_eq!(text(&fields, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(text(&fields, "x-ratelimit-reset"), Some("2"));
}

#[test]
fn a_full_bucket_has_nothing_to_wait_for() {
    let limit = limit(3, 1, Nanos::from_secs(60));
    let ask = answered("PerUser", &limit, allowed(3, 0, 0));
    let now = Moment::from_nanos(START);
    let reset = |dialect| {
        let fields = fields(&[ask], 0, dialect, now);
        assert_eq!(text(&fields, "ratelimit"), Some("\"PerUser\";r=3"));
        text(&fields, "x-ratelimit-reset").map(str::to_owned)
    };
    assert_eq!(reset(XRateLimit::Off), None);
    assert_eq!(reset(XRateLimit::Seconds).as_deref(), Some("0"));
    assert_eq!(reset(XRateLimit::Unix).as_deref(), Some("1790000001"));
    assert_eq!(reset(XRateLimit::UnixMs).as_deref(), Some("1790000000124"));
    assert_eq!(reset(XRateLimit::Iso8601).as_deref(), Some("2026-09-21T14:13:21Z"));
}

#[test]
fn names_survive_whatever_they_are_made_of() {
    let limit = limit(1, 1, Nanos::from_secs(1));
    for name in ["a\"b\\c", "100%", "größe", "⛩-🦀", "a,b;q=1", "%41"] {
        let ask = answered(name, &limit, allowed(1, 0, 0));
        let fields = fields(&[ask], 0, XRateLimit::Off, Moment::EPOCH);
        let listed = members(&fields, "ratelimit-policy").remove(0).0;
        assert_eq!(percent_decoded(&listed), name);
    }
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_has_more_than_fifteen_digits_is_told_as_fifteen_nines() {
    let limit = limit(1 << 32, 1, Nanos::new(1 << 62));
    let ask = answered("Slow", &limit, denied(0, 1 << 94, 1 << 94));
    for dialect in DIALECTS {
        let fields = fields(&[ask], 0, dialect, Moment::from_nanos(START));
        let nines = Some(999_999_999_999_999);
        assert_eq!(parameter(&members(&fields, "ratelimit-policy")[0], "w"), nines);
        assert_eq!(parameter(&members(&fields, "ratelimit")[0], "t"), nines);
        let reset = text(&fields, "x-ratelimit-reset").map(str::to_owned);
        match dialect {
            XRateLimit::Off => assert_eq!(reset, None),
            XRateLimit::Iso8601 => assert!(reset.unwrap().starts_with("9999-12-")),
            _ => assert_eq!(reset.as_deref(), Some("999999999999999")),
        }
    }
}

#[test]
fn who_decided_is_told_first_then_who_denies_and_a_name_once() {
    let limit = limit(9, 1, Nanos::from_secs(1));
    let asks = [
        answered("Roomy", &limit, allowed(8, 0, SECOND)),
        answered("Tight", &limit, allowed(1, 0, 8 * SECOND)),
        answered("Denies", &limit, denied(0, 2 * SECOND, 9 * SECOND)),
        answered("Decides", &limit, denied(0, 5 * SECOND, 9 * SECOND)),
        answered("Denies", &limit, denied(0, 3 * SECOND, 9 * SECOND)),
        answered("Slow", &limit, allowed(0, 7 * SECOND, 9 * SECOND)),
        Answered { has_say: false, ..answered("Mute", &limit, denied(0, 6 * SECOND, 9 * SECOND)) },
    ];
    let fields = fields(&asks, 3, XRateLimit::Off, Moment::EPOCH);
    let names = |name| members(&fields, name).into_iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(names("ratelimit"), ["Decides", "Denies", "Slow", "Mute", "Tight", "Roomy"]);
    assert_eq!(names("ratelimit"), names("ratelimit-policy"));
    assert_eq!(text(&fields, "retry-after"), Some("5"));
    let waits =
        members(&fields, "ratelimit").iter().map(|it| parameter(it, "t")).collect::<Vec<_>>();
    // Nobody has to wait for what would have let him pass, or has no say.
    assert_eq!(waits, [Some(5), Some(3), None, None, Some(1), Some(1)]);
}

#[test]
fn many_asks_or_long_names_do_not_make_a_long_field() {
    let limit = limit(9, 1, Nanos::from_secs(1));
    for (length, listed_min) in [(1, POLICIES_MAX), (128, POLICIES_MAX), (1000, 1)] {
        let letter = if length == 1000 { "\u{1}" } else { "x" };
        let names: Vec<_> = (1000..1256).map(|n| letter.repeat(length) + &n.to_string()).collect();
        let ask = |name| answered(name, &limit, denied(0, SECOND, SECOND));
        let asks: Vec<_> = names.iter().map(|name| ask(&**name)).collect();
        let fields = fields(&asks, 255, XRateLimit::Off, Moment::EPOCH);
        for field in ["ratelimit", "ratelimit-policy"] {
            assert!(text(&fields, field).unwrap().len() <= FIELD_BYTES_MAX);
            let members = members(&fields, field);
            assert!((listed_min..=POLICIES_MAX).contains(&members.len()), "{}", members.len());
            assert_eq!(percent_decoded(&members[0].0), names[255]);
        }
    }
}

#[test]
fn an_answer_that_denies_nothing_has_no_time_to_come_again() {
    // A refund of a full bucket gives nothing back, which is no reason to wait.
    let limit = limit(3, 1, Nanos::from_secs(60));
    let asks = [answered("PerUser", &limit, denied(3, 0, 0))];
    let mut fields = HeaderMap::new();
    let answers = Answers { asks: &asks, decided_by: 0, denied: false };
    write(&mut fields, &answers, XRateLimit::Off, Moment::EPOCH);
    assert_eq!(text(&fields, "retry-after"), None);
    assert_eq!(text(&fields, "ratelimit"), Some("\"PerUser\";r=3"));
}

/// A limiter with some random limits, and the same limits to look at.
fn random_limits(random: &mut Random) -> (Limiter, Vec<(String, Limit)>) {
    let mut limits = Vec::new();
    while limits.len() < 3 {
        let (burst, count) = (random.log_between(1, 1 << 20), random.log_between(1, 1 << 20));
        let period = random.log_between(1, 1 << 50);
        if let Ok(limit) = Limit::new(burst, count, Nanos::new(period.into())) {
            limits.push((format!("Limit{}", limits.len()), limit));
        }
    }
    let line = |(name, limit): &(String, Limit)| {
        let (burst, count, period) = (limit.burst(), limit.count(), limit.period().get());
        format!("{name}: {{burst: {burst}, count: {count}, period: {period}ns}}\n")
    };
    let text: String = limits.iter().map(line).collect();
    let parsed = Limits::parse(&Source { name: "limits.yaml", text: &text }, None).unwrap();
    (Limiter::with_memory(parsed, 1 << 20).unwrap(), limits)
}

#[test]
fn waiting_as_long_as_any_field_says_is_always_enough() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (limiter, limits) = random_limits(&mut random);
        let mut now = Moment::from_nanos(START);
        for _ in 0..60 {
            let asks = random_asks(&mut random, &limits);
            let merged = limiter.transaction(&asks, now).unwrap();
            let answers = answers(&limits, &asks, &merged.each);
            for dialect in DIALECTS {
                let fields = fields(&answers, merged.decided_by, dialect, now);
                for end in ends(&fields, &answers, merged.decided_by, dialect, now) {
                    assert_passes(&limiter, &asks, &merged.decision, end);
                }
            }
            let longest = 1 << random.between(1, 40);
            now = now.after(Nanos::new(random.log_between(1, longest).into()));
        }
    }
}

fn random_asks<'a>(random: &mut Random, limits: &'a [(String, Limit)]) -> Vec<Request<'a>> {
    let count = random.index(limits.len()) + 1;
    let ask = |(name, limit): &'a (String, Limit)| {
        let cost = random.log_between(1, limit.burst());
        Request::new(name, "ada", if random.chance(1, 9) { 0 } else { cost })
    };
    limits[..count].iter().map(ask).collect()
}

fn answers<'a>(
    limits: &'a [(String, Limit)],
    asks: &[Request<'_>],
    each: &[Decision],
) -> Vec<Answered<'a>> {
    let answered = |((name, limit), decision): (&'a (String, Limit), &Decision)| Answered {
        name,
        limit,
        decision: *decision,
        has_say: true,
    };
    limits[..asks.len()].iter().zip(each).map(answered).collect()
}

/// Every moment that one of the fields promises for the transaction as a whole.
fn ends(
    fields: &HeaderMap,
    answers: &[Answered<'_>],
    decided_by: usize,
    dialect: XRateLimit,
    now: Moment,
) -> Vec<Moment> {
    let states = members(fields, "ratelimit");
    let after = |secs: u64| now.after(Nanos::from_secs(secs));
    let retry_after = text(fields, "retry-after").map(|secs| secs.parse::<u64>().unwrap());
    assert_eq!(retry_after.is_some(), !answers[decided_by].decision.allowed);
    assert!(retry_after.is_none_or(|secs| secs >= 1));
    for state in &states {
        assert!(parameter(state, "t").is_none_or(|t| retry_after.is_none_or(|end| t <= end)));
    }
    let decided = parameter(&states[0], "t").unwrap_or(0);
    let mut ends = vec![after(decided)];
    ends.extend(retry_after.map(after));
    ends.extend(text(fields, "x-ratelimit-reset").map(|reset| moment(reset, dialect, now)));
    ends
}

fn moment(reset: &str, dialect: XRateLimit, now: Moment) -> Moment {
    let number = || reset.parse::<u64>().unwrap();
    match dialect {
        XRateLimit::Off => unreachable!("it is off"),
        XRateLimit::Seconds => now.after(Nanos::from_secs(number())),
        XRateLimit::Unix => Moment::EPOCH.after(Nanos::from_secs(number())),
        XRateLimit::UnixMs => Moment::EPOCH.after(Nanos::new(u128::from(number()) * 1_000_000)),
        XRateLimit::Iso8601 => {
            let date: Timestamp = reset.parse().unwrap();
            Moment::EPOCH.after(Nanos::from_secs(date.as_second().unsigned_abs()))
        }
    }
}

/// Checks each ask, as the transaction did, without spending.
fn assert_passes(limiter: &Limiter, asks: &[Request<'_>], was: &Decision, end: Moment) {
    if end == Moment::MAX {
        return;
    }
    let checks: Vec<_> = asks.iter().map(|ask| ask.with_mode(Mode::CheckOnly)).collect();
    let then = limiter.transaction(&checks, end).unwrap();
    assert!(then.decision.allowed, "{was:?} then {:?} at {end:?}", then.decision);
}

#[test]
fn one_more_token_is_there_at_the_end_of_next_in_and_not_long_before() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (limiter, limits) = random_limits(&mut random);
        let (name, limit) = &limits[0];
        let mut now = Moment::from_nanos(START);
        for _ in 0..30 {
            let cost = random.log_between(1, limit.burst());
            let decision = limiter.spend(name, "ada", cost, now).unwrap();
            let wait = next_in(limit, &decision);
            let left_at = |at| limiter.check(name, "ada", 0, at).unwrap().remaining;
            if wait.is_zero() {
                assert_eq!(left_at(now), limit.burst());
            } else {
                assert!(left_at(now.after(wait)) > decision.remaining);
                let early = now.after(Nanos::new(wait.get().saturating_sub(2)));
                assert_eq!(left_at(early), decision.remaining);
            }
            now = now.after(Nanos::new(random.log_between(1, 1 << 44).into()));
        }
    }
}

#[test]
fn the_window_is_what_an_empty_bucket_takes_to_fill() {
    let cases = [
        (limit(20, 10, Nanos::from_secs(1)), 2),
        (limit(1, 1000, Nanos::from_secs(1)), 1),
        (limit(10, 3, Nanos::from_secs(1)), 4),
        (limit(300, 300, Nanos::from_secs(3 * 3600)), 3 * 3600),
    ];
    for (limit, secs) in cases {
        let ask = answered("L", &limit, allowed(limit.burst(), 0, 0));
        let fields = fields(&[ask], 0, XRateLimit::Off, Moment::EPOCH);
        assert_eq!(parameter(&members(&fields, "ratelimit-policy")[0], "w"), Some(secs));
        assert_eq!(parameter(&members(&fields, "ratelimit-policy")[0], "q"), Some(limit.burst()));
    }
}
