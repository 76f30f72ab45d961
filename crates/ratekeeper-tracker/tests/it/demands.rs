//! What an API demands that few of them do, and what callers may rely on.

use ratekeeper_tracker::headers::{Scope, Unit};
use ratekeeper_tracker::profile::{Body, BodyUnit, Paces, Profile};
use ratekeeper_tracker::{
    Costs, Limited, Reason, Request, Reservation, Response, Tracker, Verdict,
};
use ratekeeper_tracker::{Moment, Nanos};

const MILLI: u64 = 1_000_000;
const MESSAGES: &str = "/channels/1/messages";
const OTHER: &str = "/channels/2/messages";

type Fields = &'static [(&'static str, &'static str)];

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * MILLI)
}

fn bytes(path: &str, bytes: u64) -> Request<'_> {
    Request { costs: Costs { bytes, ..Costs::default() }, ..Request::new("POST", path) }
}

#[track_caller]
fn clear(tracker: &mut Tracker, request: &Request<'_>, ms: u64) -> Reservation {
    match tracker.reserve(request, at(ms)) {
        Verdict::Clear(reservation) => reservation,
        Verdict::Limited(limited) => panic!("{limited:?}"),
    }
}

#[track_caller]
fn limited(tracker: &mut Tracker, request: &Request<'_>, ms: u64) -> Limited {
    match tracker.reserve(request, at(ms)) {
        Verdict::Clear(_) => panic!("it is clear"),
        Verdict::Limited(limited) => limited,
    }
}

fn answer(
    tracker: &mut Tracker,
    reservation: Reservation,
    status: u16,
    fields: &[(&str, &str)],
    ms: u64,
) {
    answer_with(tracker, reservation, (status, ""), fields, ms);
}

fn answer_with(
    tracker: &mut Tracker,
    reservation: Reservation,
    (status, body): (u16, &str),
    fields: &[(&str, &str)],
    ms: u64,
) {
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let response = Response { status, fields, body: Some(body.as_bytes()) };
    tracker.track(reservation, response, at(ms));
}

#[test]
fn as_many_are_sent_at_the_same_time_as_a_policy_says() {
    let mut tracker = Tracker::new(Profile::generic());
    let request = Request::new("GET", "/");
    let policy =
        [("ratelimit-policy", r#""c";q=3;qu="concurrent-requests""#), ("ratelimit", r#""c";r=2"#)];
    let probe = clear(&mut tracker, &request, 0);
    answer(&mut tracker, probe, 200, &policy, 10);
    let mut held: Vec<_> = (0..3).map(|_| clear(&mut tracker, &request, 20)).collect();
    let refused = limited(&mut tracker, &request, 20);
    assert_eq!((refused.reason, refused.unit), (Reason::InFlight, Unit::Concurrent));
    assert_eq!((&*refused.policy, refused.limit), ("c", Some(3)));
    // No time frees a place, only an answer does; and one that waits in line has it.
    assert!(matches!(tracker.reserve(&request, at(100_000)), Verdict::Limited(_)));
    let waiter_id = tracker.join(&request, Moment::MAX, at(100_000)).expect("there is room");
    assert!(tracker.release(at(100_000)).is_none());
    answer(&mut tracker, held.remove(0), 200, &policy, 100_010);
    assert_eq!(tracker.release(at(100_010)).map(|(whose, _)| whose), Some(waiter_id));
}

#[test]
fn bytes_are_reserved_as_a_policy_counts_them() {
    let mut tracker = Tracker::new(Profile::generic());
    let policy = [
        ("ratelimit-policy", r#""b";q=1000;qu="content-bytes";w=10"#),
        ("ratelimit", r#""b";r=600;t=10"#),
    ];
    let probe = clear(&mut tracker, &bytes("/", 400), 0);
    answer(&mut tracker, probe, 200, &policy, 10);
    let _held = clear(&mut tracker, &bytes("/", 500), 20);
    let refused = limited(&mut tracker, &bytes("/", 101), 20);
    assert_eq!((refused.unit, refused.retry_at), (Unit::Bytes, at(10_010)));
    assert_eq!((refused.limit, refused.remaining), (Some(1_000), Some(600)));
    let _held = clear(&mut tracker, &bytes("/", 100), 20);
}

#[test]
fn the_body_of_a_refusal_counts_milliseconds_where_the_profile_says_so() {
    let body =
        r#"{"message": "You are being rate limited.", "retry_after": 1337, "global": false}"#;
    for (unit, length) in [
        (BodyUnit::Milliseconds, Nanos::new(1_337_000_000)),
        (BodyUnit::Seconds, Nanos::from_secs(1_337)),
    ] {
        let body_is = Body::Json { retry_after: unit };
        let mut tracker = Tracker::new(Profile { body: body_is, ..Profile::discord() });
        let request = Request::new("POST", MESSAGES);
        let reservation = clear(&mut tracker, &request, 0);
        answer_with(&mut tracker, reservation, (429, body), &[], 10);
        assert_eq!(limited(&mut tracker, &request, 10).retry_in, length);
        let _other = clear(&mut tracker, &Request::new("POST", OTHER), 10);
    }
}

#[test]
fn refusals_that_are_our_own_count_towards_a_ban() {
    const TO_BAN: usize = 10_000;
    let cases: [(u16, Fields, bool); 5] = [
        (429, &[("x-ratelimit-scope", "user"), ("retry-after", "0")], true),
        (429, &[("x-ratelimit-global", "true"), ("retry-after", "0")], true),
        (429, &[("x-ratelimit-scope", "shared"), ("retry-after", "0")], false),
        (404, &[], false),
        (500, &[], false),
    ];
    for (status, fields, counts) in cases {
        let mut tracker = Tracker::new(Profile { paces: Paces::NONE, ..Profile::discord() });
        for _ in 0..TO_BAN {
            let request = Request::new("POST", MESSAGES);
            let reservation = tracker.send_anyway(&request, at(1)).expect("there is room");
            answer_with(&mut tracker, reservation, (status, "{}"), fields, 1);
        }
        let verdict = tracker.reserve(&Request::new("POST", OTHER), at(2_000));
        let is_stopped =
            matches!(verdict, Verdict::Limited(Limited { reason: Reason::Invalid, .. }));
        assert_eq!(is_stopped, counts, "{status} {fields:?}: {verdict:?}");
    }
}

/// A tracker whose pace and whose bucket are both spent, for so long.
fn spent_twice(all_secs: &str, bucket_secs: &str) -> Limited {
    let mut tracker = Tracker::new(Profile::discord());
    let request = Request::new("POST", MESSAGES);
    let reservations =
        [(); 2].map(|()| tracker.send_anyway(&request, at(0)).expect("there is room"));
    let [of_all, of_bucket] = reservations;
    let global = [("x-ratelimit-global", "true"), ("retry-after", all_secs)];
    answer_with(&mut tracker, of_all, (429, "{}"), &global, 10);
    let spent = [
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset-after", bucket_secs),
        ("x-ratelimit-bucket", "hash"),
    ];
    answer(&mut tracker, of_bucket, 200, &spent, 10);
    limited(&mut tracker, &request, 10)
}

#[test]
fn of_the_bucket_and_the_limit_on_everything_the_stricter_is_named() {
    let by_all = spent_twice("7", "3.000");
    assert_eq!((by_all.scope, by_all.reason), (Scope::Global, Reason::Refused));
    assert_eq!((&*by_all.bucket, by_all.retry_at), ("discord", at(7_010)));
    let by_bucket = spent_twice("3", "7.000");
    assert_eq!((by_bucket.scope, by_bucket.reason), (Scope::User, Reason::Spent));
    assert_eq!(&*by_bucket.bucket, "hash = POST/channels/1/messages");
    // A millisecond is for the rounding.
    assert_eq!(by_bucket.retry_at, at(7_011));
}

#[test]
fn what_a_cache_remembers_does_not_show_that_there_is_no_limit() {
    let mut tracker = Tracker::new(Profile::generic());
    let request = Request::new("GET", "/");
    let old = [("age", "30"), ("x-ratelimit-limit", "900"), ("x-ratelimit-remaining", "800")];
    let probe = clear(&mut tracker, &request, 0);
    answer(&mut tracker, probe, 200, &old, 10);
    let probe = clear(&mut tracker, &request, 20);
    assert_eq!(limited(&mut tracker, &request, 20).reason, Reason::Probing);
    answer(&mut tracker, probe, 200, &[], 30);
    let all: Vec<_> = (0..100).map(|_| clear(&mut tracker, &request, 40)).collect();
    assert_eq!(all.len(), 100, "the server itself says nothing of limits");
}

#[test]
fn a_caller_whose_clock_steps_back_gets_nothing_twice() {
    let mut tracker = Tracker::new(Profile::discord());
    let request = Request::new("POST", MESSAGES);
    let fields = |left| {
        [
            ("x-ratelimit-limit", "2"),
            ("x-ratelimit-remaining", left),
            ("x-ratelimit-reset-after", "10.000"),
        ]
    };
    let probe = clear(&mut tracker, &request, 60_000);
    answer(&mut tracker, probe, 200, &fields("1"), 60_100);
    let last = clear(&mut tracker, &request, 30_000);
    answer(&mut tracker, last, 200, &fields("0"), 1);
    let refused = limited(&mut tracker, &request, 2);
    assert_eq!((refused.reason, refused.retry_at), (Reason::Spent, at(70_101)));
    assert_eq!(refused.retry_in, Nanos::new(10_001_000_000), "on a clock that did not step");
}

/// Where only the size of a limit is told, what was sent counts for a window, and hardly longer.
#[test]
fn a_limit_of_which_only_the_size_is_told_is_used_and_not_exceeded() {
    const WINDOW_MS: u64 = 60_000;
    for (every_ms, least) in [(6_000, 2_000), (700, 2_000), (300, 870)] {
        let mut tracker = Tracker::new(Profile::generic());
        let mut sent = Vec::new();
        for ms in (0..2_000).map(|n| n * every_ms) {
            if let Verdict::Clear(reservation) = tracker.reserve(&bytes(OTHER, 1), at(ms)) {
                sent.push(ms);
                let policy = [("ratelimit-policy", "\"all\";q=100;w=60")];
                answer(&mut tracker, reservation, 200, &policy, ms + 50);
            }
        }
        let in_window = |from: u64| {
            let window = from..from + WINDOW_MS;
            sent.iter().filter(|ms| window.contains(ms)).count()
        };
        let most = sent.iter().map(|&from| in_window(from)).max();
        assert!(most <= Some(100), "every {every_ms} ms: {most:?} in a window");
        assert!(sent.len() >= least, "every {every_ms} ms: {} were sent", sent.len());
    }
}
