//! How much memory hard clients of the HTTP door can take. A program of its own, so that nobody
//! else's memory is measured.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../server/http_frames.rs"]
#[allow(dead_code, reason = "another program uses the rest")]
mod http_frames;
#[path = "../server/support.rs"]
#[allow(dead_code, reason = "another program uses the rest")]
mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;

use http_frames::{Frames, RST_STREAM, frame, get};
use support::{Stream, Web, request, settings, start};

const CLIENTS: usize = 1000;
/// Of those that send as much as they can.
const GREEDY: usize = 50;
/// What they may take together: 100 KiB each, and the buckets besides.
const BYTES_MAX: usize = 128 << 20;
/// What a thousand that come one after the other may leave behind: far less than one request each.
const LEFT_BEHIND_BYTES_MAX: usize = 8 << 20;
const GATE: &str = "/v1/gate/RequestsPerIPAddress/10.1.2.3";

/// What this process holds in memory.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes << 10
}

fn assert_flat(what: &str, before: usize) {
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < BYTES_MAX, "{what} took {} KiB", grown >> 10);
}

#[test]
fn no_crowd_takes_more_than_its_share() {
    let mut settings = settings();
    settings.http.stall = Duration::from_millis(300);
    let server = start(&settings, Arc::new(Clock::start()));
    assert_eq!(Web::connect(&server).get(GATE).status, 204);
    let before = resident_bytes();

    let slow_head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(15 << 10));
    let slow = crowd(&server, slow_head.as_bytes());
    ask_healthy(&server);
    assert_flat("heads that are not whole", before);
    drop(slow);

    let tiny: String = "1\r\n{\r\n".repeat(4 << 10);
    let head = "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let slow = crowd(&server, format!("{head}{tiny}").as_bytes());
    ask_healthy(&server);
    assert_flat("bodies in tiny pieces", before);
    drop(slow);

    one_after_the_other("bodies that are too large", || {
        let mut huge = Web::connect(&server);
        let head =
            "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n";
        huge.stream.send(head.as_bytes());
        let _ = huge.stream.0.write_all(&[b'x'; 10_000]);
        assert_eq!(huge.answer().status, 413);
    });

    let mut flood = Vec::new();
    for stream in (1..400).step_by(2) {
        flood.extend(get(stream, GATE));
        flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    one_after_the_other("resets", || {
        let mut client = Frames::connect(&server, &[]);
        client.try_send(&flood);
        assert_eq!(client.reason_of_end(), Some(11));
    });

    let requests = request("GET", GATE, "", "").repeat(1000);
    for _ in 0..GREEDY {
        let mut greedy = Stream::connect(&server, "http").0;
        greedy.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        while greedy.write(requests.as_bytes()).is_ok() {}
        assert_flat("answers that nobody reads", before);
        // Until it is dropped.
        let _ = greedy.read(&mut [0]);
    }
    ask_healthy(&server);
    assert_flat("everything", before);
    assert!(server.drain(settings.drain).unwrap());
}

/// Clients that each end before the next comes leave next to nothing behind, once a few were there.
fn one_after_the_other(what: &str, mut client: impl FnMut()) {
    for _ in 0..CLIENTS / 10 {
        client();
    }
    let before = resident_bytes();
    for _ in 0..CLIENTS {
        client();
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < LEFT_BEHIND_BYTES_MAX, "{what} left {} KiB behind", grown >> 10);
}

fn crowd(server: &Server, begins: &[u8]) -> Vec<Stream> {
    let connect = |_| {
        let mut client = Stream::connect(server, "http");
        client.send(begins);
        client
    };
    (0..CLIENTS).map(connect).collect()
}

/// Whoever comes behind a crowd is answered, so what it sent has been read.
fn ask_healthy(server: &Server) {
    for _ in 0..20 {
        let status = Web::connect(server).get(GATE).status;
        assert!(matches!(status, 204 | 429), "{status}");
    }
}
