//! A connection allocates nothing once it is warm.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Keyed, Limiter, Moment};
use ratekeeper_protocol::{Counts, Flow, StreamDoor, bucket, resp, throttr};
use ratekeeper_testkit::allocations::{Counting, assert_counted, during};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn limiter() -> Arc<Limiter> {
    let text = "PerUser: {burst: 9, count: 9, period: 1s}";
    let limits = Limits::parse(&Source { name: "limits", text }, None).unwrap();
    let limits = limits.with_buckets(&bucket::STARTER).unwrap();
    Arc::new(Limiter::with_memory(limits, 1 << 20).unwrap())
}

/// Sends the stream again and again, whole and in two pieces, and counts what the last times cost.
#[track_caller]
fn assert_no_allocations<D: StreamDoor>(door: &D, stream: &[u8]) {
    let (mut session, mut counts) = (D::Session::default(), Counts::default());
    let mut out = Vec::new();
    let mut round = || {
        for end in [0, 1, stream.len() / 2, stream.len() - 1] {
            out.clear();
            let (first, second) = stream.split_at(end);
            for piece in [first, second] {
                let flow = door.receive(&mut session, piece, Moment::EPOCH, &mut out, &mut counts);
                assert_eq!(flow, Flow::Open);
            }
        }
    };
    round();
    assert_counted();
    assert_eq!(
        during(|| {
            round();
        }),
        0
    );
    assert!(counts.requests > 0);
}

#[test]
fn no_line_allocates_once_the_connection_is_warm() {
    let lines = b"get bucketa\r\nget PerUser:ada\nfoo\nget nope\nget nope:x\nget bucketb 7\n";
    assert_no_allocations(&bucket::Door::new(limiter()), &lines.repeat(50));
}

#[test]
fn no_request_allocates_once_the_connection_is_warm() {
    let insert = [&[1; 26][..], b"\x03\x07adaPerUser"].concat();
    let requests =
        [&insert[..], b"\x02\x01\x01cr\x03\0\0\0\0\0\0\0\0\0\0\x01\x01cr\x04\0\0"].concat();
    for named_limits in [false, true] {
        let options = throttr::Options { strict: false, named_limits };
        let quotas = Arc::new(Keyed::new(1 << 20).unwrap());
        let door = throttr::Door::new(quotas, limiter(), options);
        // Costs that no bucket holds are mistakes, which are put in words.
        let stream = if named_limits { &requests[insert.len()..] } else { &requests };
        assert_no_allocations(&door, &stream.repeat(50));
    }
}

#[test]
fn no_ask_allocates_once_the_connection_is_warm() {
    let asks = b"*3\r\n$8\r\nTHROTTLE\r\n$7\r\nPerUser\r\n$3\r\nada\r\nthrottle PerUser bob 2\r\n\
        THROTTLE PerUser ada -1\nTHROTTLE.RESET PerUser bob\n\
        CL.THROTTLE a 2 3 60\nCL.THROTTLE a 5 3 60 2\nCL.RESET a\n\
        THROTTLE.TRANSACTION PerUser ada 1 PerUser bob 1\n\r\n*0\r\n";
    assert_no_allocations(
        &resp::Door::new(limiter(), Arc::new(Keyed::new(1 << 20).unwrap())),
        &asks.repeat(50),
    );
}
