//! Places are held from the sending until a window after the answer.

use tollgate::{Moment, Nanos};

use super::{Pace, Places};
use crate::budget::Trip;
use crate::length::Length;

const SECOND: Nanos = Nanos::from_secs(1);

fn at_ms(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn a_place_is_free_exactly_a_window_after_the_answer() {
    let mut places = Places::new(Pace { count: 1, window: SECOND });
    places.take();
    assert_eq!((places.free(at_ms(5_000), Length::ZERO), places.opens_at(Length::ZERO)), (0, None));
    places.answer(at_ms(5_000));
    assert_eq!(places.opens_at(Length::ZERO), Some(at_ms(6_000)));
    assert_eq!(places.free(at_ms(5_999), Length::ZERO), 0);
    assert_eq!(places.free(at_ms(6_000), Length::ZERO), 1);
}

#[test]
fn credit_opens_a_place_sooner_and_a_request_never_sent_at_once() {
    let mut places = Places::new(Pace { count: 1, window: SECOND });
    places.take();
    places.give_back();
    assert_eq!(places.free(at_ms(0), Length::ZERO), 1);
    places.take();
    places.answer(at_ms(0));
    assert_eq!(places.free(at_ms(960), Length::from_nanos(40_000_000)), 1);
}

#[test]
fn those_who_wait_are_told_the_window_in_which_it_is_their_turn() {
    let mut places = Places::new(Pace { count: 2, window: SECOND });
    places.take();
    places.answer(at_ms(500));
    let trip = Trip { credit: Length::ZERO, usual: Nanos::new(50_000_000) };
    let turns = |places: &Places| [0, 1].map(|before| places.opens_for(before, at_ms(600), trip));
    assert_eq!(turns(&places), [at_ms(600), at_ms(1_500)]);
    // One is in flight: it holds its place until a window after its answer.
    places.take();
    assert_eq!(turns(&places), [at_ms(1_500), at_ms(1_650)]);
    // One more is there than there are places: somebody did not ask.
    places.take();
    assert_eq!(turns(&places), [at_ms(1_650), at_ms(1_650)]);
}
