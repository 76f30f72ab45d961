use tollgate::Moment;

use super::{LIVES_MAX, Past};

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn a_life_is_due_when_its_last_request_is_settled_and_forgotten_by_the_api() {
    let mut past = Past::default();
    past.add(3, 2, at(100));
    assert_eq!((past.due(at(200)), past.next()), (None, None), "two are on their way");
    past.settle(3, at(300));
    past.settle(4, at(900));
    past.settle(3, Moment::EPOCH);
    assert_eq!((past.due(at(299)), past.next()), (None, Some(at(300))));
    assert_eq!(past.due(at(300)), Some(3));
    past.forget(3);
    assert_eq!((past.due(at(300)), past.next()), (None, None));
}

#[test]
fn the_oldest_lives_are_left_to_the_end_of_their_term() {
    let mut past = Past::default();
    for life in 0..2 + LIVES_MAX as u64 {
        past.add(life, 0, at(life));
    }
    assert_eq!(past.due(at(100)), Some(2));
}
