use super::*;

fn asked(key: u64) -> Asked {
    Asked { due: Moment::EPOCH, sent: Moment::EPOCH, key, cost: 1 }
}

#[test]
fn answers_in_any_order_find_their_requests_once() {
    let mut flight = Flight::new(4);
    for key in 0..4 {
        assert_eq!(flight.next(), key);
        flight.push(asked(key));
    }
    assert_eq!(flight.take(2).unwrap().key, 2);
    assert!(flight.take(2).is_none() && flight.take(4).is_none());
    assert_eq!(flight.take_oldest().unwrap().key, 0);
    assert_eq!(flight.take_oldest().unwrap().key, 1);
    assert_eq!((flight.count(), flight.span()), (1, 1), "the gap is closed");
    assert_eq!(flight.oldest().unwrap().key, 3);
    let mut lost = Vec::new();
    flight.give_up(Moment::EPOCH, |asked| lost.push(asked.key));
    assert!(flight.take(3).is_none() && flight.oldest().is_none());
    assert_eq!((flight.count(), flight.next()), (0, 4));
    flight.push(asked(9));
    assert_eq!(flight.take(4).unwrap().key, 9);
    flight.push(asked(10));
    flight.clear(|asked| lost.push(asked.key));
    assert_eq!((flight.count(), flight.next()), (0, 6));
    assert_eq!(lost, [3, 10]);
}
