//! What a refusal stops, and for how long.

use tollgate::{Moment, Nanos};
use tollgate_tracker::headers::Scope;
use tollgate_tracker::{Limited, Profile, Reason, Request, Response, Tracker, Verdict};

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
    let permit = tracker.send_anyway(&Request::new(method, path), at(1)).expect("there is room");
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let response = Response { status, fields, body: Some(body.as_bytes()) };
    tracker.track(permit, response, at(1));
}

fn limited(tracker: &mut Tracker, (method, path): (&str, &str), secs: u64) -> Option<Limited> {
    match tracker.limited(&Request::new(method, path), at(secs)) {
        Verdict::Clear(permit) => {
            tracker.give_back(permit, at(secs));
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
        for secs in [1, 2, 4] {
            answered(&mut tracker, MESSAGES, 429, &[], &body);
            let refused = limited(&mut tracker, MESSAGES, 1).expect("it was refused");
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
    let mut tracker = Tracker::new(Profile::generic());
    let route = ("GET", "/things");
    for secs in [1, 2, 4, 8] {
        answered(&mut tracker, route, 429, &[], "");
        let refused = limited(&mut tracker, route, 1).expect("it was refused");
        assert_eq!(refused.retry_in, Nanos::from_secs(secs));
    }
    answered(&mut tracker, route, 200, &[], "");
    answered(&mut tracker, route, 429, &[], "");
    let refused = limited(&mut tracker, route, 1).expect("the longest is still in force");
    assert_eq!(refused.retry_in, Nanos::from_secs(8));
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
        let permit = tracker.send_anyway(&Request::new("GET", "/users/1"), at(1)).expect("room");
        let status = [401, 403][n % 2];
        tracker.track(permit, Response { status, fields: [], body: None }, at(1));
    }
    let shared = [("x-ratelimit-scope", "shared"), ("retry-after", "1")];
    answered(&mut tracker, OTHER, 429, &shared, "");
    let Verdict::Clear(last) = tracker.limited(&Request::new("GET", "/users/1"), at(60)) else {
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
