//! Budgets that the server tells apart by name: none spends another's.

use ratekeeper_tracker::Moment;
use ratekeeper_tracker::headers::BUDGETS_MAX;
use ratekeeper_tracker::{
    Limited, Profile, Reason, Request, Reservation, Response, Tracker, Verdict,
};

const SECOND: u64 = 1_000_000_000;

fn at(secs: u64) -> Moment {
    Moment::from_nanos(secs * SECOND)
}

#[track_caller]
fn clear(tracker: &mut Tracker, path: &str, secs: u64) -> Reservation {
    match tracker.reserve(&Request::new("GET", path), at(secs)) {
        Verdict::Clear(reservation) => reservation,
        Verdict::Limited(limited) => panic!("{limited:?}"),
    }
}

#[track_caller]
fn limited(tracker: &mut Tracker, path: &str, secs: u64) -> Limited {
    match tracker.reserve(&Request::new("GET", path), at(secs)) {
        Verdict::Clear(_) => panic!("it is clear"),
        Verdict::Limited(limited) => limited,
    }
}

/// How many may be sent at once; they are given back.
fn room(tracker: &mut Tracker, path: &str, secs: u64) -> usize {
    let request = Request::new("GET", path);
    let asks = std::iter::from_fn(|| match tracker.reserve(&request, at(secs)) {
        Verdict::Clear(reservation) => Some(reservation),
        Verdict::Limited(_) => None,
    });
    let reservations: Vec<_> = asks.collect();
    let room = reservations.len();
    for reservation in reservations {
        tracker.give_back(reservation, at(secs));
    }
    room
}

/// The answer to a request: what is left of `limit`, of which budget, for another minute.
fn answer(
    tracker: &mut Tracker,
    reservation: Reservation,
    name: (&str, &str),
    left: u64,
    secs: u64,
) {
    let left = left.to_string();
    let fields = [
        ("x-ratelimit-limit", b"5".as_slice()),
        ("x-ratelimit-remaining", left.as_bytes()),
        ("x-ratelimit-reset", b"60"),
        (name.0, name.1.as_bytes()),
    ];
    tracker.track(reservation, Response { status: 200, fields, body: None }, at(secs));
}

fn ask(tracker: &mut Tracker, path: &str, resource: &str, left: u64, secs: u64) {
    let reservation = clear(tracker, path, secs);
    answer(tracker, reservation, ("x-ratelimit-resource", resource), left, secs);
}

#[test]
fn a_resource_that_nobody_knew_of_does_not_spend_the_others() {
    for profile in [Profile::github(), Profile::generic()] {
        let mut tracker = Tracker::new(profile);
        ask(&mut tracker, "/repos/a/b/issues", "core", 4, 1);
        ask(&mut tracker, "/repos/a/b/news", "news", 2, 2);
        ask(&mut tracker, "/repos/a/b/news", "news", 1, 3);
        ask(&mut tracker, "/repos/a/b/news", "news", 0, 4);
        let spent = limited(&mut tracker, "/repos/a/b/news", 5);
        assert_eq!(spent.reason, Reason::Spent);
        assert!(spent.bucket.starts_with("news"), "{}", spent.bucket);
        assert_eq!(room(&mut tracker, "/repos/a/b/issues", 5), 4, "{}", profile.name);
        ask(&mut tracker, "/repos/a/b/issues", "core", 0, 6);
        assert_eq!(limited(&mut tracker, "/repos/a/b/issues", 7).reason, Reason::Spent);
    }
}

#[test]
fn what_is_known_of_a_resource_is_kept_when_one_of_its_routes_turns_out_to_be_of_another() {
    let mut tracker = Tracker::new(Profile::github());
    let late = clear(&mut tracker, "/repos/a/b/things", 1);
    answer(&mut tracker, late, ("x-ratelimit-resource", "core"), 1, 1);
    ask(&mut tracker, "/repos/a/b/issues", "core", 0, 2);
    let mixed = tracker.send_anyway(&Request::new("GET", "/repos/a/b/things"), at(3));
    answer(&mut tracker, mixed.expect("room"), ("x-ratelimit-resource", "things"), 3, 3);
    assert_eq!(limited(&mut tracker, "/repos/a/b/issues", 4).reason, Reason::Spent);
    assert_eq!(room(&mut tracker, "/repos/a/b/things", 4), 3);
    // And back again, to what was known all the time.
    ask(&mut tracker, "/repos/a/b/things", "core", 0, 5);
    assert_eq!(limited(&mut tracker, "/repos/a/b/things", 6).reason, Reason::Spent);
}

#[test]
fn all_of_githubs_core_is_known_once_one_route_is() {
    let mut tracker = Tracker::new(Profile::github());
    ask(&mut tracker, "/repos/a/b/issues", "core", 4, 1);
    let held: Vec<_> = (0..4).map(|n| clear(&mut tracker, &format!("/users/u{n}"), 2)).collect();
    assert_eq!(limited(&mut tracker, "/user", 2).reason, Reason::Spent);
    assert_eq!(room(&mut tracker, "/search/issues", 2), 1, "one finds out");
    for reservation in held {
        tracker.give_back(reservation, at(2));
    }
}

#[test]
fn resources_without_end_take_no_more_room_than_there_is_for_buckets() {
    let mut tracker = Tracker::new(Profile::generic());
    ask(&mut tracker, "/spent", "spent", 0, 1);
    for n in 0..2 * ratekeeper_tracker::BUCKETS_MAX {
        ask(&mut tracker, &format!("/x{n}y"), &format!("r{n}"), 3, 2);
    }
    let states = tracker.snapshot(at(2)).states.len();
    assert!(states <= ratekeeper_tracker::BUCKETS_MAX, "{states}");
    assert_eq!(limited(&mut tracker, "/spent", 3).reason, Reason::Spent);
}

/// Answers that name one of many policies each, all of one bucket.
fn named(tracker: &mut Tracker, policy: usize, left: u64, secs: u64) {
    let reservation = clear(tracker, "/", secs);
    answer(tracker, reservation, ("ratelimit-name", &format!("policy {policy}")), left, secs);
}

#[test]
fn policies_beyond_those_that_are_kept_are_obeyed_one_request_at_a_time() {
    let mut tracker = Tracker::new(Profile::generic());
    // Each is told of once, and each answer counts in all before it.
    for policy in 0..BUDGETS_MAX {
        let reservation = tracker.send_anyway(&Request::new("GET", "/"), at(1)).expect("room");
        let name = format!("policy {policy}");
        let fields = [
            ("x-ratelimit-limit", b"500".as_slice()),
            ("x-ratelimit-remaining", b"400"),
            ("x-ratelimit-reset", b"60"),
            ("ratelimit-name", name.as_bytes()),
        ];
        tracker.track(reservation, Response { status: 200, fields, body: None }, at(1));
    }
    assert!(room(&mut tracker, "/", 1) > 100);
    named(&mut tracker, BUDGETS_MAX, 2, 2);
    assert_eq!(room(&mut tracker, "/", 2), 1);
    named(&mut tracker, BUDGETS_MAX, 1, 3);
    named(&mut tracker, BUDGETS_MAX, 0, 4);
    let refused = limited(&mut tracker, "/", 5);
    assert_eq!((refused.reason, refused.retry_at), (Reason::Refused, at(64)));
    // By then all are full again, and there is room for it.
    named(&mut tracker, BUDGETS_MAX, 4, 64);
    assert_eq!(room(&mut tracker, "/", 64), 4);
}
