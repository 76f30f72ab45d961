//! Whatever a server says, nothing panics and nobody waits for ever.

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::headers::{Rounded, Said, Scope, Told, Unit, WAIT_MAX, Wait};
use ratekeeper_tracker::profile::LONGEST_WAIT_DEFAULT;
use ratekeeper_tracker::{Costs, Profile, Request, Response, Tracker, Verdict};
use ratekeeper_tracker::{Moment, Nanos};
use smallvec::SmallVec;

const SECOND: Nanos = Nanos::from_secs(1);
const UNITS: [Unit; 6] = [
    Unit::Requests,
    Unit::Tokens,
    Unit::InputTokens,
    Unit::OutputTokens,
    Unit::Bytes,
    Unit::Concurrent,
];
const STATUSES: [u16; 9] = [200, 200, 204, 401, 403, 404, 429, 500, 503];
const BODIES: [Option<&[u8]>; 12] = [
    None,
    Some(b""),
    Some(b"<html>banned</html>"),
    Some(br#"{"retry_after": 1e300, "global": true}"#),
    Some(br#"{"retry_after": -5}"#),
    Some(br#"{"retry_after": "NaN", "global": 1}"#),
    Some(br#"{"retry_after": 0.25, "global": false}"#),
    Some(br#"{"retry_after": 1500}"#),
    Some(br#"{"retry_after": 18446744073709551615}"#),
    Some(br#"{"retry_after": 1e-300}"#),
    Some(b"[[[[[[[["),
    Some(b"\xff\xfe"),
];

#[test]
fn no_response_panics_and_every_wait_ends() {
    let profiles = [
        Profile::generic(),
        Profile::discord(),
        Profile::github(),
        Profile::openai(),
        Profile::anthropic(),
    ];
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let mut tracker = Tracker::new(random.pick(&profiles));
        let mut now = Moment::from_nanos(random.pick(&[0, 1 << 60, i64::MAX as u64 - 5]));
        for _ in 0..random.between(1, 40) {
            let path =
                random.pick(&["", "/", "//?#", "/channels/1/messages", "/webhooks/1/t", "/é"]);
            let costs = Costs { tokens: number(&mut random), ..Costs::default() };
            let request = Request { costs, ..Request::new("GET", path) };
            let reservation = match tracker.reserve(&request, now) {
                Verdict::Clear(reservation) => reservation,
                Verdict::Limited(limited) => {
                    // A second is for the rounding of what was said.
                    assert!(limited.retry_at <= now.after(WAIT_MAX).after(SECOND), "{limited:?}");
                    now = limited.retry_at;
                    continue;
                }
            };
            match random.below(8) {
                0 => tracker.give_back(reservation, now),
                1 => tracker.lost(reservation, now),
                _ => {
                    let (said, body) = (said(&mut random), random.pick(&BODIES));
                    tracker.learn(reservation, random.pick(&STATUSES), &said, body, now);
                }
            }
            now = now.after(Nanos::new(random.log_between(1, 1 << 33).into()));
        }
        assert_clear_in_the_end(&mut tracker, now);
    }
}

/// Who always comes when told to is served before long, unless the end of time is near.
fn assert_clear_in_the_end(tracker: &mut Tracker, mut now: Moment) {
    let request = Request::new("GET", "/channels/1/messages");
    for _ in 0..100 {
        match tracker.reserve(&request, now) {
            Verdict::Clear(_) => return,
            Verdict::Limited(limited) => now = limited.retry_at,
        }
    }
    assert_eq!(now, Moment::MAX, "it waits for ever: {tracker:?}");
}

fn said(random: &mut Random) -> Said<'static> {
    let budgets: SmallVec<_> = (0..random.below(4)).map(|_| told(random)).collect();
    Said {
        budgets,
        retry_after: random.chance(1, 4).then(|| wait(random)),
        bucket: random.chance(1, 2).then(|| random.pick(&["a", "b", "", "\u{0}"])),
        resource: random.chance(1, 4).then(|| random.pick(&["a", "c", ""])),
        global: random.chance(1, 10),
        cached: random.chance(1, 10),
        date_secs: random.pick(&[None, Some(0), Some(1_790_000_000), Some(u64::MAX)]),
        scope: random.pick(&[None, Some(Scope::User), Some(Scope::Global), Some(Scope::Shared)]),
    }
}

fn told(random: &mut Random) -> Told<'static> {
    Told {
        name: random.pick(&["", "", "burst", "daily"]),
        unit: random.pick(&UNITS),
        limit: random.chance(3, 4).then(|| number(random)),
        remaining: random.chance(3, 4).then(|| number(random)),
        reset_in: random.chance(3, 4).then(|| wait(random)),
        rounded: rounded(random),
        only_more: random.chance(1, 3),
        window: random.chance(1, 4).then(|| wait(random).length),
    }
}

fn rounded(random: &mut Random) -> Option<Rounded> {
    let point = Rounded::Point(random.pick(&[0, 1, 1_790_000_000, 1_790_000_001, u64::MAX]));
    random.pick(&[None, None, Some(Rounded::Length), Some(point)])
}

fn number(random: &mut Random) -> u64 {
    random.pick(&[0, 0, 1, 2, 5, 1_000, 1 << 40, u64::MAX - 1, u64::MAX])
}

fn wait(random: &mut Random) -> Wait {
    let length = random.pick(&[0, 1, 1_000_000, 1_000_000_000, 60_000_000_000, u128::MAX]);
    let length = Nanos::new(length).min(WAIT_MAX);
    Wait { length, truly_secs: (length == WAIT_MAX).then_some(1e300) }
}

#[test]
fn a_wait_until_the_year_9999_is_capped_and_the_truth_is_told() {
    let mut tracker = Tracker::new(Profile::generic());
    let request = Request::new("GET", "/");
    let now = Moment::from_nanos(1_790_000_000_000_000_000);
    let Verdict::Clear(reservation) = tracker.reserve(&request, now) else { panic!("unknown") };
    let fields: [(&str, &[u8]); 2] =
        [("retry-after", b"Fri, 31 Dec 9999 23:59:59 GMT"), ("x-ratelimit-remaining", b"0")];
    tracker.track(reservation, Response { status: 429, fields, body: None }, now);
    let Verdict::Limited(limited) = tracker.reserve(&request, now) else { panic!("refused") };
    assert_eq!(limited.retry_in, LONGEST_WAIT_DEFAULT);
    assert!(limited.truly_secs.is_some_and(|secs| secs > 2.4e11), "{limited:?}");
}
