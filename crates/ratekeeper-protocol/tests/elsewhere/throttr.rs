//! Throttr: quotas and named limits in one trip.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_protocol::throttr::{Door, Options, Session};
use ratekeeper_protocol::{Counts, StreamDoor as _};
use ratekeeper_testkit::random::Random;

use crate::{Elsewhere, travel};

const LIMITS: &str = "
L: {burst: 3, count: 1, period: 1s}
I: {burst: 2, count: 1, period: 1s, id: ipAddress}
";

fn door(elsewhere: Option<&Arc<Elsewhere>>) -> Door {
    let secret = Secret::new(1, 2);
    let limits = Limits::parse(&Source { name: "limits", text: LIMITS }, None).unwrap();
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, secret).unwrap();
    let quotas = Keyed::with_secret(MEMORY_MIN, secret).unwrap();
    if let Some(elsewhere) = elsewhere {
        limiter.share(elsewhere.clone(), Moment::EPOCH).unwrap();
        quotas.share(elsewhere.clone()).unwrap();
    }
    let options = Options { strict: false, named_limits: true };
    Door::new(Arc::new(quotas), Arc::new(limiter), options)
}

fn insert(usage: u64) -> Vec<u8> {
    let number = |number: u64| number.to_le_bytes();
    [&[1][..], &number(4), &number(usage), &[1], &number(1_500)].concat()
}

fn request(random: &mut Random) -> Vec<u8> {
    let change = [&[3, 0, 1][..], &1_u64.to_le_bytes()].concat();
    let head = match random.below(10) {
        0..6 => insert(random.below(5)),
        6 => vec![2],
        7 | 8 => vec![4],
        _ => change,
    };
    let ids = random.pick(&[
        &b"\x01\x01cr"[..],
        b"\x01\x01xL",
        b"\x01\x01yL",
        b"\0\x01L",
        b"\x07\x011.2.3.4I",
        b"\x01\x01xI",
        b"\x01\x01\xffL",
    ]);
    [&head, ids].concat()
}

#[test]
fn what_one_read_brought_is_one_trip_and_answered_as_one_by_one() {
    let elsewhere = Arc::new(Elsewhere::default());
    let (near, far) = (door(None), door(Some(&elsewhere)));
    let mut random = Random::new(7);
    let mut now = Moment::EPOCH;
    let mut seen = [Counts::default(); 2];
    for round in 0..2_000 {
        now = now.after(Nanos::new(random.below(1_000_000_000).into()));
        let requests: Vec<Vec<u8>> = (0..=random.below(40)).map(|_| request(&mut random)).collect();
        let (mut one_by_one, mut together) = (Vec::new(), Vec::new());
        let (mut near_session, mut far_session) = (Session::default(), Session::default());
        for request in &requests {
            near.receive(&mut near_session, request, now, &mut one_by_one, &mut seen[0]);
        }
        let (before, read) = (elsewhere.visits(), requests.concat());
        let answering =
            far.receive_wherever(&mut far_session, &read, now, &mut together, &mut seen[1]);
        let (_, trips) = travel(answering);
        assert_eq!(together, one_by_one, "round {round}: {requests:?}");
        assert!(trips <= 1, "round {round}: {trips} trips for {requests:?}");
        assert!(elsewhere.visits() - before <= 2, "one for quotas, one for named limits");
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].allowed > 0 && seen[0].denied > 0, "{seen:?}");
}
