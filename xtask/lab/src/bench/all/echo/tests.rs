use ratekeeper_testkit::random::Random;

use super::super::servers;
use super::*;

#[test]
fn who_polls_looks_as_long_as_ours() {
    assert_eq!(servers::POLL, format!("{}us", POLL.as_micros()));
}

#[test]
fn every_request_is_answered_once_however_it_is_cut() {
    let mut random = Random::new(3);
    for _ in 0..1_000 {
        let bytes = 1 + random.index(50);
        let (mut rest, mut sent, mut answered) = (0, 0, 0);
        for _ in 0..20 {
            let length = 1 + random.index(200);
            let (count, left) = whole(rest, length, bytes);
            (rest, sent, answered) = (left, sent + length, answered + count);
            assert_eq!((answered, rest), (sent / bytes, sent % bytes));
        }
    }
}
