//! Laws: what is formatted is read again, clocks do not matter, and nothing does harm.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::time::{Duration, UNIX_EPOCH};

use ratekeeper_testkit::random::Random;
use ratekeeper_time::{Moment, Nanos};

use super::format::{self, Policy, Reset, ResetStyle};
use super::span::{EPOCH_MILLIS_MIN, EPOCH_SECS_MIN};
use super::{BUDGETS_MAX, Said, WAIT_MAX, fuzz_one, read};

const SECOND: u128 = 1_000_000_000;
/// 2026-11-16 10:00:00 UTC.
const NOON: u64 = 1_794_823_200_000_000_000;
const STYLES: [ResetStyle; 4] =
    [ResetStyle::Seconds, ResetStyle::Unix, ResetStyle::UnixMillis, ResetStyle::Iso8601];

fn read_owned<'a>(fields: &'a [(&'static str, String)], now: Moment) -> Said<'a> {
    read(fields.iter().map(|(name, value)| (*name, value.as_bytes())), now)
}

fn http_date(at: Moment) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at.as_nanos() / 1_000_000_000))
}

/// A length of any size, often a short one.
fn any_length(random: &mut Random) -> Nanos {
    let shift = random.below(70);
    Nanos::new(u128::from(random.log_between(1, u64::MAX - 1)) << shift >> random.below(64))
}

fn any_policy<'a>(random: &mut Random, name: &'a str) -> Policy<'a> {
    let quota = random.log_between(1, 1 << 40);
    Policy {
        name,
        quota,
        window: any_length(random),
        remaining: if random.chance(1, 3) { 0 } else { random.between(0, quota) },
        more_in: if random.chance(1, 9) { Nanos::ZERO } else { any_length(random) },
    }
}

/// What a server that decided at `now` sends.
fn response(
    policies: &[Policy<'_>],
    wait: Option<Nanos>,
    style: ResetStyle,
    now: Moment,
) -> Vec<(&'static str, String)> {
    let retry_after = wait.map(format::retry_after_secs);
    let lists = format::lists(policies.iter().copied(), retry_after);
    let reset = match format::reset(style, policies[0].more_in, now) {
        Reset::Number(number) => number.to_string(),
        Reset::Date(date) => date,
    };
    let mut fields = vec![
        (format::RATELIMIT, lists.states),
        (format::RATELIMIT_POLICY, lists.policies),
        (format::X_RATELIMIT_LIMIT, policies[0].quota.to_string()),
        (format::X_RATELIMIT_REMAINING, policies[0].remaining.to_string()),
        (format::X_RATELIMIT_RESET, reset),
    ];
    fields.extend(retry_after.map(|secs| ("retry-after", secs.to_string())));
    fields
}

/// Whether the number of a reset says what it is. A length of 31 years looks like an epoch, and an
/// epoch in the year 5138 like milliseconds.
fn is_told_apart(style: ResetStyle, more_in: Nanos, now: Moment) -> bool {
    let secs = |nanos: u128| nanos.div_ceil(SECOND);
    let at = secs(u128::from(now.as_nanos()) + more_in.get());
    match style {
        ResetStyle::Seconds => secs(more_in.get()) < EPOCH_SECS_MIN.into(),
        ResetStyle::Unix => at < EPOCH_MILLIS_MIN.into(),
        ResetStyle::UnixMillis | ResetStyle::Iso8601 => true,
    }
}

fn assert_long_enough(said: &super::Wait, meant: Nanos, slack: u128, what: &str) {
    assert!(said.length >= meant.min(WAIT_MAX), "{what}: {said:?} is less than {meant:?}");
    let is_cut = said.truly_secs.is_some();
    assert!(is_cut || said.length.get() < meant.get() + slack, "{what}: {said:?} for {meant:?}");
}

#[test]
fn reading_what_we_format_never_promises_an_earlier_retry() {
    let mut random = Random::new(11);
    for _ in 0..100_000 {
        let now = Moment::from_nanos(NOON + random.below(1 << 60));
        let names = ["burst", "per day", "größe \"5%\""];
        let count = 1 + random.index(names.len());
        let policies: Vec<_> =
            names[..count].iter().map(|it| any_policy(&mut random, it)).collect();
        let wait = random.chance(1, 2).then_some(policies[0].more_in);
        let style = random.pick(&STYLES);
        let mut fields = response(&policies, wait, style, now);
        // Whoever has no Date has a clock that is right.
        let is_dated = random.chance(2, 3);
        if is_dated {
            fields.push(("date", http_date(now)));
        }
        let clock = if is_dated { Moment::from_nanos(random.bits()) } else { now };
        let said = read_owned(&fields, clock);
        assert_means(&said, &policies, wait, style, now);
    }
}

fn assert_means(
    said: &Said<'_>,
    policies: &[Policy<'_>],
    wait: Option<Nanos>,
    style: ResetStyle,
    now: Moment,
) {
    assert_eq!(said.retry_after.is_some(), wait.is_some());
    if let (Some(said), Some(wait)) = (&said.retry_after, wait) {
        // At least a second, even if there is nothing to wait for.
        assert_long_enough(said, wait, SECOND + 1, "retry-after");
    }
    let only = said.budgets.iter().find(|told| told.name.is_empty()).unwrap();
    let first = &policies[0];
    assert_eq!((only.limit, only.remaining), (Some(first.quota), Some(first.remaining)));
    if is_told_apart(style, first.more_in, now) {
        let reset = only.reset_in.unwrap();
        assert_long_enough(&reset, first.more_in, 2 * SECOND, "x-ratelimit-reset");
    }
    for (policy, told) in policies.iter().zip(said.budgets.iter().skip(1)) {
        assert_eq!((told.limit, told.remaining), (Some(policy.quota), Some(policy.remaining)));
        // Cut to the longest that anybody is told to wait.
        let window = told.window.unwrap();
        assert!(window >= policy.window.min(WAIT_MAX), "{window:?} for {policy:?}");
        match told.reset_in {
            Some(reset) => assert_long_enough(&reset, policy.more_in, SECOND, "t"),
            // It is left out where there is nothing to wait for, or less than what is told.
            None => assert!(policy.more_in.is_zero() || wait.is_some()),
        }
    }
    assert_eq!(said.budgets.len(), policies.len() + 1);
}

#[test]
fn a_clock_that_is_an_hour_off_makes_no_wait_wrong_by_more_than_a_second() {
    let mut random = Random::new(12);
    for _ in 0..50_000 {
        let sent = Moment::from_nanos(NOON + random.below(1 << 60));
        let truth = Nanos::new(random.log_between(1, 1 << 49).into());
        let hour = Nanos::from_secs(3_600);
        let clock = if random.chance(1, 2) { sent.before(hour) } else { sent.after(hour) };
        // What says it to the nanosecond, so that only the clock can make it wrong.
        let at = u128::from(sent.as_nanos()) + truth.get();
        let (secs, rest) = (at / SECOND, at % SECOND);
        let moment = jiff::Timestamp::from_nanosecond(i128::try_from(at).unwrap()).unwrap();
        let resets = [
            format!("{secs}.{rest:09}"),
            format!("{}.{:06}", at / 1_000_000, at % 1_000_000),
            moment.to_string(),
        ];
        for reset in resets {
            let fields = [("date", http_date(sent)), ("x-ratelimit-reset", reset)];
            let wait = read_owned(&fields, clock).budgets[0].reset_in.unwrap();
            if truth.get() + SECOND <= WAIT_MAX.get() {
                assert!(wait.length >= truth && wait.length.get() < truth.get() + SECOND);
            }
        }
    }
}

#[test]
fn of_ten_thousand_policies_the_strictest_is_kept_wherever_it_is() {
    for strict in [0, 1, 17, 5_000, 9_999] {
        let state = |n: usize| match n {
            n if n == strict => format!("\"p{n}\";r=0;t=77"),
            n => format!("\"p{n}\";r={};t=5", n + 1),
        };
        let list =
            |item: &dyn Fn(usize) -> String| (0..10_000).map(item).collect::<Vec<_>>().join(", ");
        let policies = list(&|n| format!("\"p{n}\";q=20000;w=60"));
        let fields = [("ratelimit", list(&state)), ("ratelimit-policy", policies)];
        let said = read_owned(&fields, Moment::EPOCH);
        assert_eq!(said.budgets.len(), BUDGETS_MAX);
        let name = format!("p{strict}");
        let told = said.budgets.iter().find(|told| told.name == name).unwrap();
        assert_eq!((told.remaining, told.limit), (Some(0), Some(20_000)));
        assert_eq!(told.window, Some(Nanos::from_secs(60)));
        assert_eq!(told.reset_in.unwrap().length, Nanos::from_secs(77));
    }
}

#[test]
fn sixty_four_kibibytes_of_anything_do_no_harm() {
    let names = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-ratelimit-reset-after",
        "x-ratelimit-bucket",
        "ratelimit",
        "ratelimit-policy",
        "retry-after",
        "retry-after-ms",
        "date",
        "age",
    ];
    let fillings = [
        "9",
        "0",
        " ",
        "\"",
        "\\",
        "a",
        ",",
        ";",
        "1,",
        "1m",
        "a;b;",
        "\"a\";r=1,",
        "é",
        "-",
        "1e",
        ".",
    ];
    for name in names {
        for filling in fillings {
            let value = filling.repeat((64 << 10) / filling.len());
            fuzz_one(format!("{name}:{value}\n{name}:1{value}").as_bytes());
        }
    }
    let nines = [("retry-after", "9".repeat(64 << 10))];
    let wait = read_owned(&nines, Moment::EPOCH).retry_after.unwrap();
    assert_eq!((wait.length, wait.truly_secs), (WAIT_MAX, Some(f64::MAX)));
}

/// Fields of every dialect, and pieces that are close to them.
const NAMES: [&str; 24] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-RateLimit-Reset-After",
    "X-RateLimit-Used",
    "X-RateLimit-Bucket",
    "X-RateLimit-Global",
    "X-RateLimit-Scope",
    "X-RateLimit-Resource",
    "x-rate-limit-reset",
    "RateLimit",
    "RateLimit",
    "RateLimit-Policy",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "Retry-After",
    "retry-after-ms",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-tokens-reset",
    "X-RateLimit-Limit-Minute",
    "X-Shopify-Shop-Api-Call-Limit",
    "Date",
    "Age",
];
const VALUES: [&str; 36] = [
    "0",
    "5",
    "-1",
    "999999999",
    "1794823260",
    "1794823260.5",
    "1794823260000",
    "1e300",
    "NaN",
    "inf",
    "99999999999999999999",
    "6m0s",
    "1h2m3.5s",
    "20ms",
    "2026-11-16T10:00:30Z",
    "9999-12-31T23:59:59Z",
    "Mon, 16 Nov 2026 10:00:30 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Monday, 16-Nov-26 10:00:30 GMT",
    "Mon Nov 16 10:00:30 2026",
    "\"a\";r=1;t=2",
    "\"a\";r=1, \"b\";r=0;t=9",
    "\"a\";q=9;w=60",
    "\"b\";q=9;qu=\"content-bytes\"",
    "\"c\";q=9;qu=\"mana\"",
    "limit=9, remaining=3, reset=30",
    "9, 9;w=1, 50;w=60",
    "100;w=21600",
    "32/40",
    "core",
    "user",
    "global",
    "true",
    "größe",
    "",
    "\"\";r=3",
];

fn lines(random: &mut Random) -> Vec<u8> {
    let mut lines = String::new();
    for _ in 0..=random.index(8) {
        lines.push_str(random.pick(&NAMES));
        lines.push_str(": ");
        lines.push_str(random.pick(&VALUES));
        for _ in 0..random.below(2) * random.below(3) {
            lines.push_str(", ");
            lines.push_str(random.pick(&VALUES));
        }
        lines.push('\n');
    }
    lines.into_bytes()
}

#[test]
fn ten_million_mutated_bytes_do_no_harm() {
    let mut random = Random::new(13);
    let mut tried = 0;
    while tried < 10_000_000 {
        let mut data = lines(&mut random);
        for _ in 0..random.below(4) {
            let at = random.index(data.len());
            data[at] = u8::try_from(random.below(256)).unwrap();
        }
        tried += data.len();
        fuzz_one(&data);
    }
}
