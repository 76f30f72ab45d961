//! What the numbers of refusals count, and for how long that is believed.

use ratekeeper_tracker::profile::{Body, BodyUnit};
use ratekeeper_tracker::{Moment, Profile, Request, Response, Tracker, Verdict};

const ITEMS: &str = "/items/1";

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

/// Sends a request now, which must be permitted, and tells the answer.
fn answer(tracker: &mut Tracker, method: &str, (status, fields, body): Answer<'_>, ms: u64) {
    let Verdict::Clear(reservation) = tracker.reserve(&Request::new(method, ITEMS), at(ms)) else {
        panic!("at {ms} ms it may be sent");
    };
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let response = Response { status, fields, body: body.map(str::as_bytes) };
    tracker.track(reservation, response, at(ms));
}

type Answer<'a> = (u16, &'a [(&'a str, &'a str)], Option<&'a str>);

/// For how many milliseconds nothing may be sent to a path.
fn shut_for(tracker: &mut Tracker, path: &str, ms: u64) -> u128 {
    match tracker.reserve(&Request::new("GET", path), at(ms)) {
        Verdict::Clear(reservation) => {
            tracker.give_back(reservation, at(ms));
            0
        }
        Verdict::Limited(limited) => limited.retry_in.get() / 1_000_000,
    }
}

/// A refusal whose field and body have the same number beside a reset.
fn refused<'a>(fields: &'a [(&'a str, &'a str)], body: &'a str) -> Answer<'a> {
    (429, fields, Some(body))
}

const MILLIS: (&[(&str, &str)], &str) = (
    &[
        ("retry-after", "6457"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-reset-after", "6.457"),
    ],
    r#"{"retry_after": 6457}"#,
);
const LONGER_THAN_THE_RESET: (&[(&str, &str)], &str) = (
    &[
        ("retry-after", "60"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-reset-after", "1"),
    ],
    r#"{"retry_after": 60}"#,
);
const ONLY_THE_FIELD: &[(&str, &str)] = &[("retry-after", "64")];

#[test]
fn a_wait_that_is_longer_than_the_reset_counts_seconds() {
    for unit in [BodyUnit::AsTold, BodyUnit::Seconds] {
        let body = Body::Json { retry_after: unit };
        let mut tracker = Tracker::new(Profile { body, ..Profile::generic() });
        let (fields, body) = LONGER_THAN_THE_RESET;
        answer(&mut tracker, "GET", refused(fields, body), 0);
        assert_eq!(shut_for(&mut tracker, ITEMS, 0), 60_000);
    }
}

#[test]
fn milliseconds_that_were_shown_count_until_a_refusal_shows_otherwise() {
    for (second, waits) in [(200, 64), (429, 64_000)] {
        let mut tracker = Tracker::new(Profile::generic());
        answer(&mut tracker, "GET", refused(MILLIS.0, MILLIS.1), 0);
        assert_eq!(shut_for(&mut tracker, ITEMS, 0), 6_457);
        // Whoever was told to wait for so many milliseconds comes back.
        let fields: &[_] = if second == 200 { &[] } else { ONLY_THE_FIELD };
        answer(&mut tracker, "GET", (second, fields, None), 8_000);
        if second == 200 {
            // It was right: a refusal later is one of its own.
            for ms in [9_000, 9_100] {
                answer(&mut tracker, "GET", (429, ONLY_THE_FIELD, None), ms);
            }
            assert_eq!(shut_for(&mut tracker, ITEMS, 9_100), waits);
        } else {
            assert_eq!(shut_for(&mut tracker, ITEMS, 8_000), waits);
        }
    }
}

#[test]
fn units_are_forgotten_with_all() {
    let mut tracker = Tracker::new(Profile::generic());
    answer(&mut tracker, "GET", refused(MILLIS.0, MILLIS.1), 0);
    tracker.forget_all(at(0));
    answer(&mut tracker, "GET", (429, ONLY_THE_FIELD, None), 0);
    assert_eq!(shut_for(&mut tracker, ITEMS, 0), 64_000);
}

#[test]
fn a_refusal_without_a_body_that_was_read_is_the_apis() {
    for (method, body, others_wait) in [
        ("GET", Some("<h1>You are banned</h1>"), 60_000),
        ("GET", Some(""), 60_000),
        // It came too late, or was not looked at.
        ("GET", None, 0),
        ("HEAD", Some(""), 0),
        ("HEAD", None, 0),
    ] {
        let mut tracker = Tracker::new(Profile::discord());
        answer(&mut tracker, method, (429, &[("retry-after", "60")], body), 0);
        assert_eq!(shut_for(&mut tracker, "/other", 0), others_wait, "{method}, {body:?}");
        if method == "GET" {
            assert_eq!(shut_for(&mut tracker, ITEMS, 0), 60_000);
        }
    }
}
