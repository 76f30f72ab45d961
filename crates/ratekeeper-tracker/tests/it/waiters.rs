//! Thousands who wait: in order, and never more at once than there is left.

use std::collections::VecDeque;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::profile::{Paces, Profile};
use ratekeeper_tracker::{Moment, Nanos};
use ratekeeper_tracker::{Reason, Request, Reservation, Response, Tracker, Verdict, WaiterId};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
/// What a tracker expects before it has seen any.
const ROUND_TRIP: u64 = 100 * MILLI;
const REQUEST: Request<'static> = Request {
    method: "POST",
    path: "/channels/1/messages",
    origin: ratekeeper_tracker::Origin::new("", ""),
    group: "",
    costs: ratekeeper_tracker::Costs { tokens: 0, input_tokens: 0, output_tokens: 0, bytes: 0 },
};

/// Discord, but for the limit on all requests.
fn unpaced() -> Profile {
    Profile { paces: Paces::NONE, ..Profile::discord() }
}

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn answer(
    tracker: &mut Tracker,
    reservation: Reservation,
    left: u64,
    limit: u64,
    wait: u64,
    now: u64,
) {
    let (left, limit) = (left.to_string(), limit.to_string());
    let wait = format!("{}.{:03}", wait / SECOND, wait % SECOND / MILLI);
    let fields = [
        ("x-ratelimit-limit", limit.as_bytes()),
        ("x-ratelimit-remaining", left.as_bytes()),
        ("x-ratelimit-reset-after", wait.as_bytes()),
        ("x-ratelimit-bucket", b"messages"),
    ];
    tracker.track(reservation, Response { status: 200, fields, body: None }, at(now));
}

#[test]
fn ten_thousand_are_served_in_order_and_no_reset_lets_more_go_than_there_is() {
    const WAITERS: usize = 10_000;
    const LIMIT: u64 = 25;
    const WINDOW: u64 = 2 * SECOND;
    let mut random = Random::new(1);
    let mut tracker = Tracker::new(unpaced()).with_queue(WAITERS);
    let waiter_ids: Vec<WaiterId> =
        (0..WAITERS).map(|_| tracker.join(&REQUEST, Moment::MAX, at(1)).expect("room")).collect();

    let mut served = Vec::new();
    let (mut now, mut ends, mut used) = (SECOND, 0, 0);
    let mut flights: VecDeque<(u64, Reservation)> = VecDeque::new();
    while served.len() < WAITERS {
        while let Some((waiter_id, reservation)) = tracker.release(at(now)) {
            served.push(waiter_id);
            flights.push_back((now + 50 * MILLI + random.below(50 * MILLI), reservation));
        }
        assert!(flights.len() as u64 <= LIMIT, "{} at once", flights.len());
        // All of them arrive at the same moment, and their answers come in any order.
        let arrival = flights.iter().map(|(at, _)| *at).max();
        let Some(arrival) = arrival else {
            let wake = tracker.next_wake().expect("somebody waits").as_nanos();
            assert!(wake > now, "it would spin");
            now = wake;
            continue;
        };
        let mut said = Vec::new();
        while let Some((_, reservation)) = flights.pop_front() {
            if arrival >= ends {
                (ends, used) = (arrival + WINDOW, 0);
            }
            used += 1;
            assert!(used <= LIMIT, "more than there was");
            said.push((reservation, LIMIT - used));
        }
        now = arrival + 20 * MILLI;
        while !said.is_empty() {
            let (reservation, left) = said.swap_remove(random.index(said.len()));
            answer(&mut tracker, reservation, left, LIMIT, ends - arrival, now);
            now += MILLI;
        }
    }
    assert_eq!(served, waiter_ids, "somebody was overtaken");
    assert_eq!(tracker.next_wake(), None);
}

#[test]
fn who_leaves_is_not_served_and_holds_nobody_up() {
    let mut random = Random::new(2);
    let mut tracker = Tracker::new(unpaced());
    let mut waiting: VecDeque<WaiterId> = VecDeque::new();
    let Verdict::Clear(probe) = tracker.reserve(&REQUEST, at(1)) else { panic!("it is unknown") };
    for _ in 0..1_000 {
        waiting.push_back(tracker.join(&REQUEST, Moment::MAX, at(1)).expect("there is room"));
    }
    for _ in 0..700 {
        let waiter_id = waiting.remove(random.index(waiting.len())).expect("it waits");
        assert!(tracker.leave(waiter_id));
    }
    assert!(tracker.release(at(2)).is_none(), "only an answer can tell");
    answer(&mut tracker, probe, 500, 501, SECOND, 3);
    let mut served = VecDeque::new();
    while let Some((waiter_id, reservation)) = tracker.release(at(4)) {
        served.push_back(waiter_id);
        tracker.lost(reservation, at(4));
    }
    assert_eq!(served, waiting);
}

#[test]
fn a_crowded_bucket_does_not_hold_up_another_and_both_share_the_pace() {
    let mut tracker = Tracker::new(Profile::discord());
    let others: Vec<String> = (10..40).map(|n| format!("/channels/{n}/messages")).collect();
    let Verdict::Clear(_probe) = tracker.reserve(&REQUEST, at(1)) else { panic!("unknown") };
    for _ in 0..100 {
        tracker.join(&REQUEST, Moment::MAX, at(1)).expect("there is room");
    }
    for path in &others {
        tracker.join(&Request::new("GET", path), Moment::MAX, at(2)).expect("there is room");
    }
    // One of each of the others, and none that waits for the first answer.
    let mut reservations = Vec::new();
    while let Some((_, reservation)) = tracker.release(at(3)) {
        reservations.push(reservation);
    }
    assert_eq!(reservations.len(), others.len());
}

#[test]
fn who_comes_to_a_full_queue_hears_when_its_turn_would_be() {
    let (limit, window) = (5, 10 * SECOND);
    let mut tracker = Tracker::new(unpaced()).with_queue(7);
    let sent = at(SECOND - ROUND_TRIP);
    let Verdict::Clear(probe) = tracker.reserve(&REQUEST, sent) else { panic!("unknown") };
    answer(&mut tracker, probe, 0, limit, window, SECOND);
    for _ in 0..7 {
        tracker.join(&REQUEST, Moment::MAX, at(SECOND)).expect("there is room");
    }
    let refused = tracker.join(&REQUEST, Moment::MAX, at(2 * SECOND)).expect_err("it is full");
    assert_eq!(refused.reason, Reason::QueueFull);
    // Five go at the first reset, two at the second, and so would the next. The second window begins
    // when the first of the five is counted. A millisecond each is for the rounding.
    let lag = ROUND_TRIP + MILLI;
    assert_eq!(refused.retry_at, at(SECOND + 2 * window + MILLI + lag));
    assert_eq!(refused.retry_in, Nanos::new((2 * window + MILLI + lag - SECOND).into()));

    let too_late = at(SECOND + 2 * window);
    tracker.release(refused.retry_at);
    let refused = tracker.join(&REQUEST, too_late, at(3 * SECOND)).expect_err("it is too late");
    assert_eq!(refused.reason, Reason::Deadline);
}
