//! Windows and names, told late, twice and out of order.

use ratekeeper_time::{Moment, Nanos};

use super::{BUCKETS_MAX, Tracker};
use crate::headers::{Said, Told, Unit, Wait};
use crate::profile::{Body, Paces, Profile, Refill};
use crate::request::Request;
use crate::verdict::{Limited, Reason, Reservation, Verdict, WaiterId};

const MILLI: u64 = 1_000_000;
const A: &str = "/channels/1/a";
const B: &str = "/channels/1/b";

/// Discord without what is limited in all, told exactly.
fn tracker() -> Tracker {
    let refill = Refill::Fixed { precision: Nanos::ZERO };
    Tracker::new(Profile { paces: Paces::NONE, refill, ..Profile::discord() })
}

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * MILLI)
}

#[track_caller]
fn clear(tracker: &mut Tracker, path: &str, ms: u64) -> Reservation {
    match tracker.reserve(&Request::new("GET", path), at(ms)) {
        Verdict::Clear(reservation) => reservation,
        Verdict::Limited(limited) => panic!("{limited:?}"),
    }
}

#[track_caller]
fn limited(tracker: &mut Tracker, path: &str, ms: u64) -> Limited {
    match tracker.reserve(&Request::new("GET", path), at(ms)) {
        Verdict::Clear(_) => panic!("it is clear"),
        Verdict::Limited(limited) => limited,
    }
}

/// How many may be sent at once; they are given back.
fn room(tracker: &mut Tracker, path: &str, ms: u64) -> usize {
    let mut reservations = Vec::new();
    while let Verdict::Clear(reservation) = tracker.reserve(&Request::new("GET", path), at(ms)) {
        reservations.push(reservation);
    }
    let room = reservations.len();
    for reservation in reservations {
        tracker.give_back(reservation, at(ms));
    }
    room
}

fn told(left: u64, limit: u64, reset_ms: u64) -> Told<'static> {
    let length = Nanos::new((reset_ms * MILLI).into());
    Told {
        name: "",
        unit: Unit::Requests,
        limit: Some(limit),
        remaining: Some(left),
        reset_in: Some(Wait { length, truly_secs: None }),
        rounded: None,
        only_more: false,
        window: None,
    }
}

fn answer(tracker: &mut Tracker, reservation: Reservation, told: Told<'_>, ms: u64) {
    answer_as(tracker, reservation, "hash", told, ms);
}

fn answer_as(tracker: &mut Tracker, reservation: Reservation, name: &str, told: Told<'_>, ms: u64) {
    let said =
        Said { budgets: [told].into_iter().collect(), bucket: Some(name), ..Said::default() };
    tracker.learn(reservation, 200, &said, None, at(ms));
}

#[test]
fn one_request_finds_out_what_is_allowed() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    assert_eq!(limited(&mut tracker, A, 0).reason, Reason::Probing);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    assert_eq!(room(&mut tracker, A, 100), 4);
}

#[test]
fn a_route_that_says_nothing_of_limits_is_free_and_one_that_failed_is_asked_again() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    tracker.learn(probe, 502, &Said::default(), None, at(10));
    let probe = clear(&mut tracker, A, 20);
    assert_eq!(limited(&mut tracker, A, 20).reason, Reason::Probing);
    tracker.learn(probe, 200, &Said::default(), None, at(30));
    let reservations: Vec<_> = (0..100).map(|_| clear(&mut tracker, A, 40)).collect();
    assert_eq!(reservations.len(), 100);
}

#[test]
fn the_wait_is_exact() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(0, 5, 1_000), 100);
    let refused = limited(&mut tracker, A, 100);
    assert_eq!((refused.reason, refused.retry_at), (Reason::Spent, at(1_100)));
    assert_eq!((refused.limit, refused.remaining), (Some(5), Some(0)));
    let just_before = at(1_100).before(Nanos::new(1));
    assert!(matches!(tracker.reserve(&Request::new("GET", A), just_before), Verdict::Limited(_)));
    assert_eq!(room(&mut tracker, A, 1_100), 5);
}

#[test]
fn late_and_reordered_responses_never_raise_the_budget() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    let sent: Vec<_> = (0..3).map(|_| clear(&mut tracker, A, 110)).collect();
    // Counted in this order, heard in the other.
    for (reservation, left) in sent.into_iter().zip([1, 2, 3]) {
        answer(&mut tracker, reservation, told(left, 5, 900), 250);
        assert!(room(&mut tracker, A, 260) <= 1);
    }
    assert_eq!(room(&mut tracker, A, 260), 1);
}

#[test]
fn what_is_in_flight_at_a_reset_is_held_back_from_the_new_window() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    let slow: Vec<_> = (0..3).map(|_| clear(&mut tracker, A, 900)).collect();
    assert_eq!(room(&mut tracker, A, 1_100), 2);
    for reservation in slow {
        // They were counted before the reset: the new window is whole.
        answer(&mut tracker, reservation, told(1, 5, 50), 1_200);
    }
    assert_eq!(room(&mut tracker, A, 1_300), 5);
}

#[test]
fn a_late_response_of_the_window_before_says_nothing_of_this_one() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    let late = clear(&mut tracker, A, 200);
    let new = clear(&mut tracker, A, 1_150);
    answer(&mut tracker, new, told(3, 5, 900), 1_250);
    answer(&mut tracker, late, told(0, 5, 600), 1_300);
    assert_eq!(room(&mut tracker, A, 1_310), 3);
    assert_eq!(limited_after(&mut tracker, 3, 1_310).retry_at, at(2_150));
}

#[test]
fn a_request_that_was_counted_after_the_reset_shows_that_it_came() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(1, 5, 500), 400);
    // The reset is by 900 at the latest; this one says that it has been already.
    let sent = clear(&mut tracker, A, 450);
    assert_eq!(room(&mut tracker, A, 460), 0);
    answer(&mut tracker, sent, told(4, 5, 1_000), 850);
    assert_eq!(room(&mut tracker, A, 860), 4);
    assert_eq!(limited_after(&mut tracker, 4, 860).retry_at, at(1_850));
}

/// The answer after `room` requests that are never sent.
fn limited_after(tracker: &mut Tracker, room: usize, ms: u64) -> Limited {
    let held: Vec<_> = (0..room).map(|_| clear(tracker, A, ms)).collect();
    let refused = limited(tracker, A, ms);
    for reservation in held {
        tracker.give_back(reservation, at(ms));
    }
    refused
}

#[test]
fn of_a_window_that_may_move_the_latest_end_counts() {
    let profile = Profile { paces: Paces::NONE, refill: Refill::Moving, ..Profile::discord() };
    for (refill, end) in
        [(profile, 1_300), (Profile { refill: tracker().profile.refill, ..profile }, 1_100)]
    {
        let mut tracker = Tracker::new(refill);
        let probe = clear(&mut tracker, A, 0);
        answer(&mut tracker, probe, told(4, 5, 1_000), 100);
        let sent = clear(&mut tracker, A, 100);
        answer(&mut tracker, sent, told(0, 5, 950), 350);
        assert_eq!(limited(&mut tracker, A, 400).retry_at, at(end));
    }
}

#[test]
fn what_was_never_sent_is_given_back_and_what_was_lost_is_spent() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    let (unsent, lost) = (clear(&mut tracker, A, 200), clear(&mut tracker, A, 200));
    assert_eq!(room(&mut tracker, A, 200), 2);
    tracker.give_back(unsent, at(300));
    tracker.lost(lost, at(300));
    assert_eq!(room(&mut tracker, A, 300), 3);
    // Given back after the reset, it is not one more than there is.
    let unsent = clear(&mut tracker, A, 300);
    tracker.give_back(unsent, at(1_200));
    assert_eq!(room(&mut tracker, A, 1_200), 5);
}

#[test]
fn what_was_lost_may_have_been_counted_after_the_reset() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(1, 3, 480), 700);
    // The reset is at 480 at the earliest and at 1180 at the latest.
    let lost = clear(&mut tracker, A, 990);
    tracker.lost(lost, at(1_000));
    assert_eq!((room(&mut tracker, A, 1_179), room(&mut tracker, A, 1_180)), (0, 2));
    assert_eq!((room(&mut tracker, A, 1_479), room(&mut tracker, A, 1_480)), (2, 3));
}

#[test]
fn of_late_responses_that_may_be_of_this_window_the_latest_end_counts() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(1, 2, 330), 10);
    let (first, second) = (clear(&mut tracker, A, 350), clear(&mut tracker, A, 350));
    let third = tracker.send_anyway(&Request::new("GET", A), at(355)).expect("there is room");
    answer(&mut tracker, first, told(1, 2, 330), 360);
    answer(&mut tracker, second, told(0, 2, 320), 1_000);
    assert_eq!(limited(&mut tracker, A, 1_010).retry_at, at(1_330));
    answer(&mut tracker, third, told(1, 2, 330), 1_100);
    assert_eq!(limited(&mut tracker, A, 1_340).retry_at, at(1_430));
}

#[test]
fn a_response_of_the_window_before_does_not_bring_the_end_of_this_one_forward() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(2, 3, 420), 355);
    let (old, new) = (clear(&mut tracker, A, 355), clear(&mut tracker, A, 355));
    // The reset is between 420 and 775; these were counted before it and after it.
    answer(&mut tracker, new, told(2, 3, 420), 700);
    answer(&mut tracker, old, told(1, 3, 75), 702);
    assert_eq!(room(&mut tracker, A, 780), 1);
    assert_eq!(limited_after(&mut tracker, 1, 780).retry_at, at(1_120));
}

#[test]
fn routes_that_the_server_gives_one_name_share_a_budget() {
    let mut tracker = tracker();
    let (a, b) = (clear(&mut tracker, A, 0), clear(&mut tracker, B, 0));
    answer(&mut tracker, a, told(4, 5, 1_000), 100);
    answer(&mut tracker, b, told(3, 5, 1_000), 100);
    let held = clear(&mut tracker, A, 110);
    assert_eq!(room(&mut tracker, B, 110), 2);
    tracker.give_back(held, at(120));
    let other = clear(&mut tracker, "/channels/2/a", 120);
    answer(&mut tracker, other, told(9, 10, 1_000), 130);
    assert_eq!(room(&mut tracker, "/channels/2/a", 140), 9, "another channel, another bucket");
}

#[test]
fn a_bucket_that_gets_another_name_takes_all_with_it() {
    let mut tracker = tracker();
    let (a, b) = (clear(&mut tracker, A, 0), clear(&mut tracker, B, 0));
    answer(&mut tracker, a, told(9, 10, 1_000), 100);
    answer(&mut tracker, b, told(8, 10, 1_000), 100);
    let (a, old) = (clear(&mut tracker, A, 200), clear(&mut tracker, B, 200));
    let in_flight = clear(&mut tracker, B, 200);
    answer_as(&mut tracker, a, "new", told(5, 6, 1_000), 300);
    // Two of the other route are in flight, and are counted under the new name.
    assert_eq!(room(&mut tracker, A, 310), 3);
    assert_eq!(room(&mut tracker, B, 310), 3);
    // One was counted under the old name after all: that says nothing of the new one.
    answer(&mut tracker, old, told(0, 10, 700), 320);
    assert_eq!(room(&mut tracker, A, 330), 4);
    tracker.give_back(in_flight, at(340));
    // And one that does not belong there says so, and leaves alone.
    let b = clear(&mut tracker, B, 360);
    answer_as(&mut tracker, b, "third", told(1, 2, 1_000), 400);
    assert_eq!((room(&mut tracker, A, 410), room(&mut tracker, B, 410)), (5, 1));
}

#[test]
fn a_name_that_may_be_the_older_or_the_newer_counts_as_the_stricter() {
    let mut tracker = tracker();
    let probe = clear(&mut tracker, A, 0);
    answer_as(&mut tracker, probe, "one", told(1, 2, 350), 10);
    let (first, second) = (clear(&mut tracker, A, 400), clear(&mut tracker, A, 400));
    answer_as(&mut tracker, first, "two", told(1, 2, 350), 410);
    answer_as(&mut tracker, second, "three", told(1, 2, 350), 700);
    assert_eq!((room(&mut tracker, A, 770), room(&mut tracker, A, 1_050)), (1, 2));
    // The one that it had before is surely older.
    let mut tracker = self::tracker();
    let probe = clear(&mut tracker, A, 0);
    answer_as(&mut tracker, probe, "one", told(1, 2, 350), 10);
    let (first, second) = (clear(&mut tracker, A, 400), clear(&mut tracker, A, 400));
    answer_as(&mut tracker, first, "two", told(1, 2, 350), 410);
    answer_as(&mut tracker, second, "one", told(0, 2, 350), 700);
    assert_eq!(room(&mut tracker, A, 770), 2);
}

#[test]
fn who_waits_moves_along_in_order() {
    let mut tracker = tracker();
    let (a, b) = (clear(&mut tracker, A, 0), clear(&mut tracker, B, 0));
    let join = |tracker: &mut Tracker, path| -> WaiterId {
        tracker.join(&Request::new("GET", path), Moment::MAX, at(10)).expect("there is room")
    };
    let waiter_ids: Vec<_> = (0..20).map(|n| join(&mut tracker, [A, B, B][n % 3])).collect();
    assert!(tracker.release(at(20)).is_none());
    answer(&mut tracker, a, told(0, 30, 1_000), 100);
    answer(&mut tracker, b, told(0, 30, 1_000), 110);
    assert!(tracker.release(at(120)).is_none());
    let wake = tracker.next_wake().expect("they wait");
    assert_eq!(wake, at(1_100), "the earlier of the two bounds");
    let mut served = Vec::new();
    while let Some((waiter_id, reservation)) = tracker.release(wake) {
        served.push(waiter_id);
        tracker.give_back(reservation, wake);
    }
    assert_eq!(served, waiter_ids);
}

#[test]
fn names_split_the_budget_that_any_api_has() {
    let mut tracker = Tracker::new(Profile::generic());
    let search = clear(&mut tracker, "/search", 0);
    answer_as(&mut tracker, search, "search", told(0, 10, 60_000), 100);
    let core = clear(&mut tracker, "/things/1", 200);
    answer_as(&mut tracker, core, "core", told(99, 100, 60_000), 300);
    assert_eq!(limited(&mut tracker, "/search", 400).reason, Reason::Spent);
    assert_eq!(room(&mut tracker, "/things/2", 400), 99);
}

/// Learns from refusals alone that three requests go in ten minutes, and says when it has.
fn learn_from_refusals(tracker: &mut Tracker, path: &str) -> u64 {
    const WINDOW_MS: u64 = 600_000;
    let (mut ms, mut served) = (0, [0; 10]);
    loop {
        match tracker.reserve(&Request::new("GET", path), at(ms)) {
            Verdict::Clear(reservation) => {
                let served = &mut served[usize::try_from(ms / WINDOW_MS).unwrap_or_default()];
                let status = if *served < 3 { 200 } else { 429 };
                *served += 1;
                tracker.learn(reservation, status, &Said::default(), None, at(ms));
                ms += 1;
            }
            Verdict::Limited(limited) if limited.reason == Reason::Spent => return ms,
            Verdict::Limited(limited) => ms = limited.retry_at.as_nanos().div_ceil(MILLI),
        }
    }
}

#[test]
fn a_bucket_that_is_shut_by_what_was_learnt_from_refusals_is_not_forgotten() {
    let mut tracker = Tracker::new(Profile { body: Body::Any, ..tracker().profile });
    let began = learn_from_refusals(&mut tracker, A);
    for n in 10..3 * BUCKETS_MAX as u64 {
        let path = format!("/channels/{n}/x");
        let reservation = clear(&mut tracker, &path, began);
        tracker.learn(reservation, 200, &Said::default(), None, at(began));
    }
    let limited = limited(&mut tracker, A, began);
    assert_eq!(limited.reason, Reason::Spent);
}

#[test]
fn buckets_that_matter_are_not_forgotten() {
    let mut tracker = tracker();
    let spent = clear(&mut tracker, A, 0);
    answer(&mut tracker, spent, told(0, 5, 3_600_000), 0);
    let held = clear(&mut tracker, B, 0);
    for n in 10..3 * BUCKETS_MAX as u64 {
        let path = format!("/channels/{n}/x");
        let reservation = clear(&mut tracker, &path, n);
        answer_as(&mut tracker, reservation, "x", told(1, 5, 1_000), n);
    }
    let kept: usize = tracker.accounts.iter().map(|account| account.buckets.len()).sum();
    assert!(kept <= BUCKETS_MAX);
    assert_eq!(limited(&mut tracker, A, 100_000).reason, Reason::Spent);
    assert_eq!(
        room(&mut tracker, B, 100_000),
        1,
        "one more finds out, as the first is not answered"
    );
    tracker.give_back(held, at(100_000));
}

#[test]
fn a_snapshot_shows_all_budgets() {
    let mut tracker = Tracker::new(Profile::discord());
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, told(4, 5, 1_000), 100);
    let _held = clear(&mut tracker, A, 200);
    tracker.join(&Request::new("GET", B), Moment::MAX, at(200)).expect("there is room");
    let snapshot = tracker.snapshot(at(300));
    assert_eq!((snapshot.in_flight, snapshot.waiting), (1, 1));
    let [all, a, b] = &snapshot.states[..] else { panic!("{snapshot:?}") };
    assert_eq!((all.limit, all.remaining, all.in_flight), (Some(50), Some(48), 1));
    assert_eq!((b.limit, b.waiting), (None, 1));
    assert_eq!(&*a.bucket, "hash = GET/channels/1/a");
    assert_eq!((a.limit, a.remaining, a.in_flight), (Some(5), Some(4), 1));
    assert_eq!(a.reset_in.map(|it| it.to_string()).as_deref(), Some("801ms"));
}

#[test]
fn where_only_more_is_promised_one_request_finds_out_how_much_there_is() {
    let mut tracker = Tracker::new(Profile::generic());
    let window = Some(Nanos::from_secs(10));
    let more = |left| Told { only_more: true, window, ..told(left, 10, 1_000) };
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, more(0), 100);
    assert_eq!(limited(&mut tracker, A, 100).retry_at, at(1_100));
    assert_eq!(room(&mut tracker, A, 1_100), 1);
    let probe = clear(&mut tracker, A, 1_100);
    assert_eq!(limited(&mut tracker, A, 1_100).reason, Reason::InFlight);
    answer(&mut tracker, probe, more(4), 1_200);
    assert_eq!(room(&mut tracker, A, 1_200), 4);
    // Nobody has asked since, and as long as a window lasts.
    assert_eq!(room(&mut tracker, A, 11_200), 10);
}

#[test]
fn who_waits_for_what_comes_one_by_one_is_told_so() {
    let mut tracker = Tracker::new(Profile::generic()).with_queue(5);
    let window = Some(Nanos::from_secs(10));
    let probe = clear(&mut tracker, A, 0);
    answer(&mut tracker, probe, Told { only_more: true, window, ..told(0, 10, 1_000) }, 100);
    let request = Request::new("GET", A);
    for _ in 0..5 {
        tracker.join(&request, Moment::MAX, at(100)).expect("there is room");
    }
    let refused = tracker.join(&request, Moment::MAX, at(100)).expect_err("it is full");
    assert_eq!((refused.reason, refused.retry_at), (Reason::QueueFull, at(6_100)));
}
