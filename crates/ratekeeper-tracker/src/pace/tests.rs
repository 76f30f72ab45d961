//! Places are held from the sending until a window after the answer.

use ratekeeper_time::{Moment, Nanos};

use super::{Pace, Places};
use crate::budget::Trip;
use crate::length::Length;

const SECOND: Nanos = Nanos::from_secs(1);

fn at_ms(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn a_place_is_free_exactly_a_window_after_the_answer() {
    let mut places = Places::new(Pace::new(1, SECOND));
    places.take(1);
    assert_eq!(
        (places.free(at_ms(5_000), Length::ZERO), places.opens_at(1, Length::ZERO)),
        (0, None)
    );
    places.answer(1, at_ms(5_000));
    assert_eq!(places.opens_at(1, Length::ZERO), Some(at_ms(6_000)));
    assert_eq!(places.free(at_ms(5_999), Length::ZERO), 0);
    assert_eq!(places.free(at_ms(6_000), Length::ZERO), 1);
}

#[test]
fn credit_opens_a_place_sooner_and_a_request_never_sent_at_once() {
    let mut places = Places::new(Pace::new(1, SECOND));
    places.take(1);
    places.give_back(1);
    assert_eq!(places.free(at_ms(0), Length::ZERO), 1);
    places.take(1);
    places.answer(1, at_ms(0));
    assert_eq!(places.free(at_ms(960), Length::from_nanos(40_000_000)), 1);
}

#[test]
fn those_who_wait_are_told_the_window_in_which_it_is_their_turn() {
    let mut places = Places::new(Pace::new(2, SECOND));
    places.take(1);
    places.answer(1, at_ms(500));
    let trip = Trip { credit: Length::ZERO, usual: Nanos::new(50_000_000) };
    let turns = |places: &Places| [0, 1].map(|before| places.opens_for(before, at_ms(600), trip));
    assert_eq!(turns(&places), [at_ms(600), at_ms(1_500)]);
    // One is in flight: it holds its place until a window after its answer.
    places.take(1);
    assert_eq!(turns(&places), [at_ms(1_500), at_ms(1_650)]);
    // One more is there than there are places: somebody did not ask.
    places.take(1);
    assert_eq!(turns(&places), [at_ms(1_650), at_ms(1_650)]);
}

#[test]
fn points_are_places_and_a_request_waits_for_as_many_as_it_counts_for() {
    let mut places = Places::new(Pace::new(6, SECOND));
    for (cost, answered) in [(1, 0), (4, 100)] {
        places.take(cost);
        places.answer(cost, at_ms(answered));
    }
    assert_eq!(places.free(at_ms(200), Length::ZERO), 1);
    let opens = |cost| places.opens_at(cost, Length::ZERO);
    assert_eq!((opens(2), opens(5)), (Some(at_ms(1_000)), Some(at_ms(1_100))));
    assert_eq!(opens(60), Some(at_ms(1_100)), "more than there are");
}

#[test]
fn however_many_points_a_request_has_it_is_one_entry_and_only_the_latest_hold_places() {
    let mut places = Places::new(Pace::new(1_000, SECOND));
    for (cost, answered) in [(600, 0), (600, 100), (1, 200)] {
        places.take(cost);
        places.answer(cost, at_ms(answered));
    }
    // 201 points of the first are beyond what there is.
    let answered: Vec<_> = places.answered().collect();
    assert_eq!(answered, [(at_ms(0), 399), (at_ms(100), 600), (at_ms(200), 1)]);
    let opens = [1, 399, 400, 999, 1_000].map(|cost| places.opens_at(cost, Length::ZERO));
    assert_eq!(opens, [1_000, 1_000, 1_100, 1_100, 1_200].map(|ms| Some(at_ms(ms))));
    assert_eq!(places.left(at_ms(1_050), Length::ZERO), 399);
    let free = [1_000, 1_100, 1_200].map(|ms| places.free(at_ms(ms), Length::ZERO));
    assert_eq!(free, [399, 999, 1_000]);
}

#[test]
fn a_window_of_no_length_counts_those_in_flight() {
    let mut places = Places::new(Pace::new(1, Nanos::ZERO));
    places.take(1);
    let none = (places.free(at_ms(9_000), Length::ZERO), places.opens_at(1, Length::ZERO));
    assert_eq!(none, (0, None));
    places.answer(1, at_ms(9_000));
    assert_eq!(places.free(at_ms(9_000), Length::ZERO), 1);
}
