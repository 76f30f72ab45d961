//! A million who come to a full queue take no memory, and asking takes none at all.

use ratekeeper_testkit::allocations::{Counting, assert_counted, during};
use ratekeeper_tracker::Moment;
use ratekeeper_tracker::{Profile, Reason, Request, Response, Tracker, Verdict};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SECOND: u64 = 1_000_000_000;
/// What a tracker expects before it has seen any.
const ROUND_TRIP: u64 = SECOND / 10;
const FIELDS: [(&str, &[u8]); 5] = [
    ("x-ratelimit-limit", b"5"),
    ("x-ratelimit-remaining", b"0"),
    ("x-ratelimit-reset", b"1470173023.123"),
    ("x-ratelimit-reset-after", b"10"),
    ("x-ratelimit-bucket", b"abcd1234"),
];

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

#[test]
fn the_count_sees_an_allocation() {
    assert_counted();
}

#[test]
fn a_million_beyond_the_queue_are_refused_without_memory_and_with_the_truth() {
    let mut tracker = Tracker::new(Profile::discord()).with_queue(1_000);
    let request = Request::new("POST", "/channels/1/messages");
    let sent = at(SECOND - ROUND_TRIP);
    let Verdict::Clear(reservation) = tracker.reserve(&request, sent) else { panic!("unknown") };
    tracker.track(reservation, Response { status: 200, fields: FIELDS, body: None }, at(SECOND));
    for _ in 0..1_000 {
        tracker.join(&request, Moment::MAX, at(SECOND)).expect("there is room");
    }
    // A thousand before it, five at a time, ten seconds and a round trip each; a millisecond is for
    // the rounding.
    let window = 10 * SECOND + 1_000_000;
    let turn = at(SECOND + window + 1_000 / 5 * (window + ROUND_TRIP));
    // The first that asks has the turns of all played through.
    tracker.join(&request, Moment::MAX, at(SECOND)).expect_err("it is full");
    let count = during(|| {
        for n in 0..1_000_000 {
            let refused = tracker.join(&request, Moment::MAX, at(SECOND + n)).expect_err("full");
            assert_eq!((refused.reason, refused.retry_at), (Reason::QueueFull, turn));
        }
    });
    assert_eq!(count, 0);
    assert_eq!(tracker.snapshot(at(SECOND)).waiting, 1_000);
}

#[test]
fn asking_and_tracking_allocate_nothing_once_a_route_is_known() {
    let mut tracker = Tracker::new(Profile::discord());
    let request = Request::new("POST", "/channels/1/messages");
    let mut now = 0;
    let mut once = |tracker: &mut Tracker| {
        now += 11 * SECOND;
        let Verdict::Clear(reservation) = tracker.reserve(&request, at(now)) else {
            panic!("spent")
        };
        let response = Response { status: 200, fields: FIELDS, body: None };
        tracker.track(reservation, response, at(now + SECOND / 10));
        assert!(matches!(tracker.reserve(&request, at(now + SECOND)), Verdict::Limited(_)));
    };
    once(&mut tracker);
    let count = during(|| (0..1_000).for_each(|_| once(&mut tracker)));
    assert_eq!(count, 0);
}

#[test]
fn many_routes_keep_ten_thousand_buckets() {
    let mut tracker = Tracker::new(Profile::discord());
    for n in 0..200_000_u64 {
        let path = format!("/channels/{n}/messages");
        let now = at(n * SECOND / 40);
        let Verdict::Clear(reservation) = tracker.reserve(&Request::new("POST", &path), now) else {
            panic!("each has a bucket of its own")
        };
        let fields: [(&str, &[u8]); 1] = [("x-ratelimit-remaining", b"3")];
        tracker.track(reservation, Response { status: 200, fields, body: None }, now);
    }
    let states = tracker.snapshot(at(0)).states.len();
    assert_eq!(states, ratekeeper_tracker::BUCKETS_MAX + 1, "with that of all requests");
}
