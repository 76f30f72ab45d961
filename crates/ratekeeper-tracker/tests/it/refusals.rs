//! What a refusal stops, and for how long.

use ratekeeper_tracker::headers::Scope;
use ratekeeper_tracker::{Limited, Profile, Reason, Request, Response, Tracker, Verdict};
use ratekeeper_tracker::{Moment, Nanos};

const SECOND: u64 = 1_000_000_000;
const MESSAGES: (&str, &str) = ("POST", "/channels/1/messages");
const OTHER: (&str, &str) = ("POST", "/channels/2/messages");
const INTERACTION: (&str, &str) = ("POST", "/interactions/1/aW50ZXJhY3Rpb246/callback");

fn at(secs: u64) -> Moment {
    Moment::from_nanos(secs * SECOND)
}

/// Sends a request at second 1 that is answered at once.
fn answered(
    tracker: &mut Tracker,
    (method, path): (&str, &str),
    status: u16,
    fields: &[(&str, &str)],
    body: &str,
) {
    answered_at(tracker, 1, (method, path), (status, fields, body));
}

/// Sends a request at a second, whatever the limits are, that is answered at once.
fn answered_at(
    tracker: &mut Tracker,
    secs: u64,
    (method, path): (&str, &str),
    (status, fields, body): (u16, &[(&str, &str)], &str),
) {
    let request = Request::new(method, path);
    let reservation = tracker.send_anyway(&request, at(secs)).expect("there is room");
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let response = Response { status, fields, body: Some(body.as_bytes()) };
    tracker.track(reservation, response, at(secs));
}

fn limited(tracker: &mut Tracker, (method, path): (&str, &str), secs: u64) -> Option<Limited> {
    match tracker.reserve(&Request::new(method, path), at(secs)) {
        Verdict::Clear(reservation) => {
            tracker.give_back(reservation, at(secs));
            None
        }
        Verdict::Limited(limited) => Some(limited),
    }
}

#[test]
fn retry_after_beats_the_body_and_the_reset() {
    let mut tracker = Tracker::new(Profile::discord());
    let fields = [
        ("retry-after", "7"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset-after", "3"),
        ("x-ratelimit-scope", "user"),
    ];
    answered(&mut tracker, MESSAGES, 429, &fields, r#"{"retry_after": 5, "global": false}"#);
    let refused = limited(&mut tracker, MESSAGES, 1).expect("it was refused");
    assert_eq!((refused.reason, refused.scope), (Reason::Refused, Scope::User));
    assert_eq!(refused.retry_at, at(8));
    assert!(limited(&mut tracker, OTHER, 1).is_none(), "another bucket");
    assert!(limited(&mut tracker, MESSAGES, 8).is_none());
}

#[test]
fn the_body_counts_where_no_field_says_how_long() {
    let mut tracker = Tracker::new(Profile::discord());
    answered(&mut tracker, MESSAGES, 429, &[], r#"{"retry_after": 2.5, "global": false}"#);
    let refused = limited(&mut tracker, MESSAGES, 1).expect("it was refused");
    assert_eq!(refused.retry_in, Nanos::new(2_500_000_000));
}

#[test]
fn a_body_that_makes_no_sense_says_nothing_of_how_long() {
    for number in ["-5", "-1e300", "\"NaN\"", "null"] {
        let mut tracker = Tracker::new(Profile::discord());
        let body = format!(r#"{{"retry_after": {number}, "global": false}}"#);
        for (sent, secs) in [(1, 1), (2, 2), (4, 4)] {
            answered_at(&mut tracker, sent, MESSAGES, (429, &[], &body));
            let refused = limited(&mut tracker, MESSAGES, sent).expect("it was refused");
            assert_eq!(refused.retry_in, Nanos::from_secs(secs), "{number}");
        }
    }
}

#[test]
fn a_global_refusal_stops_all_but_what_is_exempt() {
    let mut tracker = Tracker::new(Profile::discord());
    let fields = [("x-ratelimit-global", "true"), ("retry-after", "4")];
    answered(&mut tracker, MESSAGES, 429, &fields, r#"{"retry_after": 4.0, "global": true}"#);
    let refused = limited(&mut tracker, OTHER, 2).expect("it is for all");
    assert_eq!((refused.reason, refused.scope), (Reason::Refused, Scope::Global));
    assert_eq!(refused.retry_at, at(5));
    assert!(limited(&mut tracker, INTERACTION, 2).is_none(), "it is exempt");
    assert!(limited(&mut tracker, OTHER, 5).is_none());
}

#[test]
fn a_page_of_a_proxy_stops_everything() {
    let mut tracker = Tracker::new(Profile::discord());
    answered(&mut tracker, MESSAGES, 429, &[("retry-after", "60")], "<h1>You are banned</h1>");
    for route in [MESSAGES, OTHER, INTERACTION] {
        let refused = limited(&mut tracker, route, 2).expect("it is for everybody");
        assert_eq!((refused.scope, refused.retry_at), (Scope::Global, at(61)));
    }
}

#[test]
fn refusals_that_do_not_say_how_long_are_doubled() {
    // No time at all does not say how long, and nor does a date that is past.
    let past = ("retry-after", "Thu, 01 Jan 1970 00:00:01 GMT");
    for fields in [&[][..], &[("retry-after", "0")], &[past]] {
        let mut tracker = Tracker::new(Profile::generic());
        let route = ("GET", "/things");
        for sent in [1, 2, 4, 8, 16] {
            answered_at(&mut tracker, sent, route, (429, fields, ""));
            let refused = limited(&mut tracker, route, sent).expect("it was refused");
            assert_eq!(refused.retry_in, Nanos::from_secs(sent), "{fields:?}");
        }
        answered_at(&mut tracker, 32, route, (200, &[], ""));
        answered_at(&mut tracker, 33, route, (429, fields, ""));
        let refused = limited(&mut tracker, route, 33);
        assert!(refused.is_none_or(|it| it.retry_in <= Nanos::from_secs(1)), "{fields:?}");
    }
}

#[test]
fn very_short_waits_are_believed_twice_in_a_row() {
    let mut tracker = Tracker::new(Profile::discord());
    let body = r#"{"retry_after": 0.01, "global": false}"#;
    for (sent, millis) in [(1, 10), (2, 10), (3, 4_000), (7, 8_000)] {
        answered_at(&mut tracker, sent, MESSAGES, (429, &[], body));
        let refused = limited(&mut tracker, MESSAGES, sent).expect("it was refused");
        assert_eq!(refused.retry_in, Nanos::new(millis * 1_000_000), "sent at {sent} s");
    }
}

#[test]
fn a_request_sent_during_a_block_does_not_double_it() {
    let route = Request::new("GET", "/things");
    let mut tracker = Tracker::new(Profile::generic());
    answered(&mut tracker, ("GET", "/things"), 200, &[], "");
    let tenth = |n: u64| Moment::from_nanos(SECOND + n * SECOND / 10);
    let permits: Vec<_> = (0..16).map(|_| tracker.reserve(&route, at(1))).collect();
    for (n, verdict) in (0..).zip(permits) {
        let Verdict::Clear(permit) = verdict else { panic!("nothing is known against it") };
        tracker.sent(&permit, tenth(n));
        let refused = Response { status: 429, fields: [], body: None };
        tracker.track(permit, refused, tenth(n + 1));
        let Verdict::Limited(limited) = tracker.reserve(&route, tenth(n + 1)) else {
            assert_eq!(n, 10, "it is over after a second");
            continue;
        };
        // The last ones were sent after it was over, and there it is doubled once.
        let longest = if n <= 10 { 2_100_000_000 } else { 4_200_000_000 };
        assert!(limited.retry_at <= Moment::from_nanos(longest), "{n}: {limited:?}");
    }
}

#[test]
fn a_server_that_fails_does_not_end_a_block() {
    let mut tracker = Tracker::new(Profile::discord());
    for (sent, secs) in [(1, 1), (2, 2), (4, 4), (8, 8)] {
        answered_at(&mut tracker, sent, MESSAGES, (502, &[], ""));
        answered_at(&mut tracker, sent, MESSAGES, (429, &[], r#"{"global": false}"#));
        let refused = limited(&mut tracker, MESSAGES, sent).expect("it was refused");
        assert_eq!(refused.retry_in, Nanos::from_secs(secs));
    }
    answered_at(&mut tracker, 16, MESSAGES, (500, &[], ""));
    let request = Request::new(MESSAGES.0, MESSAGES.1);
    let Verdict::Clear(_first) = tracker.reserve(&request, at(16)) else {
        panic!("one goes first")
    };
    assert!(limited(&mut tracker, MESSAGES, 16).is_some(), "and only one");
}

#[test]
fn an_answer_to_an_exempt_request_does_not_end_a_block_of_all_others() {
    let mut tracker = Tracker::new(Profile::discord());
    answered(&mut tracker, MESSAGES, 429, &[], r#"{"retry_after": 4.0, "global": true}"#);
    answered_at(&mut tracker, 5, INTERACTION, (200, &[], ""));
    let request = Request::new(OTHER.0, OTHER.1);
    let Verdict::Clear(_first) = tracker.reserve(&request, at(5)) else { panic!("one goes first") };
    assert!(limited(&mut tracker, MESSAGES, 5).is_some(), "until it is answered");
}

#[test]
fn github_says_403_for_its_limits_too() {
    let core = ("GET", "/repos/x/y");
    let left = [("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "4321")];
    let spent = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "301"),
    ];
    let cases: [(&[_], &str, Option<u64>); 4] = [
        (&left, r#"{"message": "Resource not accessible"}"#, None),
        (&left, r#"{"message": "You have exceeded a secondary rate limit."}"#, Some(60)),
        (&spent, "", Some(301)),
        (&[("retry-after", "30")], "", Some(30)),
    ];
    for (fields, body, secs) in cases {
        let mut tracker = Tracker::new(Profile::github());
        answered(&mut tracker, core, 403, fields, body);
        let refused = limited(&mut tracker, core, 1);
        assert_eq!(refused.map(|it| it.retry_in), secs.map(Nanos::from_secs), "{fields:?} {body}");
        assert!(limited(&mut tracker, ("GET", "/search/issues"), 1).is_none(), "another budget");
    }
}

#[test]
fn too_many_refused_requests_stop_everything_before_the_server_does() {
    let mut tracker = Tracker::new(Profile::discord());
    for n in 0..9_998 {
        let reservation =
            tracker.send_anyway(&Request::new("GET", "/users/1"), at(1)).expect("room");
        let status = [401, 403][n % 2];
        tracker.track(reservation, Response { status, fields: [], body: None }, at(1));
    }
    let shared = [("x-ratelimit-scope", "shared"), ("retry-after", "1")];
    answered(&mut tracker, OTHER, 429, &shared, "");
    let Verdict::Clear(last) = tracker.reserve(&Request::new("GET", "/users/1"), at(60)) else {
        panic!("one more may be refused")
    };
    let refused = limited(&mut tracker, INTERACTION, 60).expect("two more may not");
    assert_eq!((refused.reason, refused.limit), (Reason::Invalid, Some(10_000)));
    // The second in which they were refused is over ten minutes ago.
    assert_eq!(refused.retry_at, at(602));
    tracker.give_back(last, at(60));
    assert!(limited(&mut tracker, INTERACTION, 602).is_none());
}

#[test]
fn a_server_that_is_overloaded_and_says_for_how_long_is_left_alone() {
    let mut tracker = Tracker::new(Profile::generic());
    answered(&mut tracker, ("GET", "/things"), 503, &[("retry-after", "20")], "");
    let refused = limited(&mut tracker, ("GET", "/things"), 1).expect("it asked for it");
    assert_eq!((refused.reason, refused.retry_at), (Reason::Refused, at(21)));
}
