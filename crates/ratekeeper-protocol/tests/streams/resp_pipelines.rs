//! Requests between `MULTI` and `EXEC` at the RESP door.

use ratekeeper::Moment;
use ratekeeper_protocol::resp::{QUEUE_BYTES_MAX, Session};
use ratekeeper_protocol::{Counts, Flow, StreamDoor as _};

use crate::resp::{door, text};
use crate::transcript::Connection;

#[test]
fn a_pipeline_cut_anywhere_is_done_once_and_in_order() {
    let pipeline = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$8\r\nTHROTTLE\r\n$7\r\nPerUser\r\n$3\r\nada\r\n\
        THROTTLE PerUser ada 1\r\nECHO a\r\nEXEC\r\nECHO b\r\n";
    let expected = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n\
        *3\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:40\r\n\
        $1\r\na\r\n$1\r\nb\r\n";
    for cut in 0..pipeline.len() {
        let door = door();
        let mut connection = Connection::new(&door);
        let (head, tail) = pipeline.split_at(cut);
        let got = [connection.send(head), connection.send(tail)].concat();
        assert_eq!(text(&got), text(expected.as_bytes()), "cut at {cut}");
        let counts = Counts { requests: 6, allowed: 2, ..Counts::default() };
        assert_eq!(connection.counts, counts, "cut at {cut}");
    }
}

#[test]
fn a_pipeline_that_is_too_long_spends_nothing() {
    let door = door();
    let mut connection = Connection::new(&door);
    connection.send(b"MULTI\nTHROTTLE PerUser ada\n");
    let padded = format!("ECHO {}\n", "x".repeat(60 << 10));
    let mut refused = 0;
    for _ in 0..=QUEUE_BYTES_MAX / padded.len() {
        let got = text(&connection.send(padded.as_bytes()));
        refused += usize::from(got.contains("the queue of MULTI is full"));
    }
    assert_eq!(refused, 1);
    assert!(text(&connection.send(b"EXEC\n")).starts_with("-EXECABORT"));
    let got = connection.send(b"THROTTLE PerUser ada 0\n");
    assert_eq!(text(&got), text(b"*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"), "nothing was spent");
}

#[test]
fn many_short_transactions_in_one_read_are_answered_in_one_call() {
    let door = door();
    let (mut session, mut counts) = (Session::default(), Counts::default());
    let mut out = Vec::new();
    let times = 2_000;
    let requests = b"MULTI\nPING\nEXEC\n".repeat(times);
    let flow = door.receive(&mut session, &requests, Moment::EPOCH, &mut out, &mut counts);
    // Nothing of what was read is copied to be looked at again.
    assert_eq!((flow, session.held_bytes()), (Flow::Open, 0));
    assert!(out == b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n".repeat(times));
    let mut rounds = 1;
    let door = crate::resp::door().with_reply_bytes(1_000);
    let (mut session, mut again) = (Session::default(), Vec::new());
    let mut flow = door.receive(&mut session, &requests, Moment::EPOCH, &mut again, &mut counts);
    while flow == Flow::Again {
        flow = door.receive(&mut session, b"", Moment::EPOCH, &mut again, &mut counts);
        rounds += 1;
    }
    assert!(again == out && rounds <= out.len() / 1_000 + 1, "{rounds} rounds");
}

#[test]
fn long_replies_of_a_pipeline_are_written_in_parts() {
    let door = door();
    let one = Connection::new(&door).send(b"COMMAND DOCS\n");
    let mut connection = Connection::new(&door);
    let requests = [&b"MULTI\n"[..], &b"COMMAND DOCS\n".repeat(300), b"EXEC\nPING\n"].concat();
    let begin = [&b"+OK\r\n"[..], &b"+QUEUED\r\n".repeat(300), b"*300\r\n"].concat();
    let got = connection.send(&requests);
    assert!(got == [begin, one.repeat(300), b"+PONG\r\n".to_vec()].concat());
}
