//! RESP: asks, also with their own rules, refunds and resets in one trip; transactions in one of their own.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ratekeeper::algorithm::inline_rule::InlineGcra;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_protocol::resp::{Door, Session};
use ratekeeper_protocol::{Counts, Flow, StreamDoor as _};
use ratekeeper_testkit::random::Random;

use crate::{Elsewhere, travel};

const LIMITS: &str = "
L: {burst: 3, count: 1, period: 1s}
I: {burst: 2, count: 1, period: 1s, id: ipAddress}
";

/// Nothing that goes well takes so long.
const PATIENCE: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    Limits::parse(&Source { name: "limits", text: LIMITS }, None).unwrap()
}

fn limiter(elsewhere: Option<&Arc<Elsewhere>>) -> Arc<Limiter> {
    let limiter = Limiter::with_secret(limits(), MEMORY_MIN, Secret::new(1, 2)).unwrap();
    if let Some(elsewhere) = elsewhere {
        limiter.share(elsewhere.clone(), Moment::EPOCH).unwrap();
    }
    Arc::new(limiter)
}

fn buckets(elsewhere: Option<&Arc<Elsewhere>>) -> Arc<Keyed<InlineGcra>> {
    let buckets = Keyed::with_secret(MEMORY_MIN, Secret::new(1, 2)).unwrap();
    if let Some(elsewhere) = elsewhere {
        buckets.share(elsewhere.clone()).unwrap();
    }
    Arc::new(buckets)
}

fn door(elsewhere: Option<&Arc<Elsewhere>>) -> Door {
    Door::new(limiter(elsewhere), buckets(elsewhere))
}

const TRANSACTION: &str = "THROTTLE.TRANSACTION L a 1 I 10.0.0.1 1\n";

fn request(random: &mut Random) -> &'static str {
    random.pick(&[
        "THROTTLE L a\n",
        "THROTTLE L b 2\n",
        "THROTTLE L a 9\n",
        "THROTTLE L b -1\n",
        "THROTTLE I 10.0.0.1 0\n",
        "THROTTLE I x\n",
        "THROTTLE.RESET L a\n",
        "THROTTLE.RESET N a\n",
        "CL.THROTTLE a 2 3 60\n",
        "CL.THROTTLE a 4 1 1 -1\n",
        "CL.RESET a\n",
        "PING\n",
        "CLIENT ID\n",
        TRANSACTION,
    ])
}

#[test]
fn what_one_read_brought_is_answered_as_one_by_one_in_few_trips() {
    let elsewhere = Arc::new(Elsewhere::default());
    let (near, far) = (door(None), door(Some(&elsewhere)));
    let mut random = Random::new(7);
    let mut now = Moment::EPOCH;
    let (mut near_session, mut far_session) = (Session::default(), Session::default());
    let mut seen = [Counts::default(); 2];
    for round in 0..2_000 {
        now = now.after(Nanos::new(random.below(1_000_000_000).into()));
        let requests: Vec<_> = (0..=random.below(100)).map(|_| request(&mut random)).collect();
        let (mut one_by_one, mut together) = (Vec::new(), Vec::new());
        for request in &requests {
            let bytes = request.as_bytes();
            near.receive(&mut near_session, bytes, now, &mut one_by_one, &mut seen[0]);
        }
        let read = requests.concat();
        let answering = far.receive_wherever(
            &mut far_session,
            read.as_bytes(),
            now,
            &mut together,
            &mut seen[1],
        );
        let (flow, trips) = travel(answering);
        assert_eq!(flow, Flow::Open);
        assert_eq!(together.escape_ascii().to_string(), one_by_one.escape_ascii().to_string());
        let transactions = requests.iter().filter(|it| **it == TRANSACTION).count();
        assert!(trips <= 2 * transactions + 1, "round {round}: {trips} trips for {requests:?}");
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].allowed > 0 && seen[0].denied > 0, "{seen:?}");
}

#[test]
fn a_reload_does_not_wait_for_who_waits_for_the_store() {
    let binary_key = "*5\r\n$11\r\nCL.THROTTLE\r\n$4\r\nhex:\r\n$1\r\n2\r\n$1\r\n3\r\n$2\r\n60\r\n";
    for request in ["THROTTLE L a\n", TRANSACTION, "PING\nTHROTTLE.TRANSACTION L a 1\n", binary_key]
    {
        let elsewhere = Arc::default();
        let limiter = limiter(Some(&elsewhere));
        let door = Door::new(Arc::clone(&limiter), buckets(Some(&elsewhere)));
        let (mut session, mut out, mut counts) =
            (Session::default(), Vec::new(), Counts::default());
        let bytes = request.as_bytes();
        let answering =
            door.receive_wherever(&mut session, bytes, Moment::EPOCH, &mut out, &mut counts);
        let mut answering = pin!(answering);
        let context = &mut Context::from_waker(Waker::noop());
        assert!(answering.as_mut().poll(context).is_pending(), "{request}");
        let (is_done, done) = mpsc::channel();
        thread::spawn(move || is_done.send(limiter.reload(limits(), Moment::EPOCH)));
        assert_eq!(done.recv_timeout(PATIENCE), Ok(Ok(())), "{request}");
        assert_eq!(answering.as_mut().poll(context), Poll::Ready(Flow::Open), "{request}");
    }
}
