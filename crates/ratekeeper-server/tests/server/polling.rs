//! Servers whose threads look for more requests before they sleep.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, Stream, Web, insert, settings, start, wait_until,
};

/// The longest there is.
const POLL: Duration = Duration::from_millis(10);

#[test]
fn every_door_answers_and_the_server_reloads_and_stops() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.poll = Some(POLL);
    settings.limits = Some(folder.write("limits.yaml", "Logins: {burst: 1, count: 1, period: 1h}"));
    let server = start(&settings, Arc::new(Clock::start()));
    let (udp, mut web) = (Datagrams::connect(&server), Web::connect(&server));
    let mut bucket = Stream::connect(&server, "bucket");
    let mut throttr = Stream::connect(&server, "throttr");
    let mut resp = Stream::connect(&server, "resp");
    for _ in 0..100 {
        assert_eq!(udp.ask(b"7 ping"), b"7 pong");
        bucket.send(b"get nobody\n");
        assert_eq!(bucket.read(17), b"BUCKET NOT FOUND\n");
        throttr.send(&insert(1_000, 1, 60, "ada", "/search"));
        throttr.read(INSERT_ANSWER_BYTES);
        resp.send(b"PING\r\n");
        assert_eq!(resp.read(7), b"+PONG\r\n");
        assert_eq!(web.get("/healthz").status, 200);
    }
    bucket.send(b"get Logins:ada\nget Logins:ada\n");
    assert_eq!(bucket.read(4), b"1\n0\n");
    folder.write("limits.yaml", "Logins: {burst: 2, count: 1, period: 1h}");
    server.reload().unwrap();
    bucket.send(b"get Logins:ada\n");
    assert_eq!(bucket.read(2), b"1\n");
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn timers_go_on_while_a_thread_does_not_sleep() {
    let mut settings = settings();
    settings.poll = Some(POLL);
    settings.workers = NonZeroUsize::new(1);
    settings.bucket.stream.idle = Some(Duration::from_millis(20));
    let server = start(&settings, Arc::new(Clock::start()));
    let udp = Datagrams::connect(&server);
    let mut silent = Stream::connect(&server, "bucket");
    silent.send(b"get nobody\n");
    assert_eq!(silent.read(17), b"BUCKET NOT FOUND\n");
    silent.0.set_nonblocking(true).unwrap();
    wait_until("the silent connection is closed", || {
        assert_eq!(udp.ask(b"7 ping"), b"7 pong");
        matches!(silent.0.peek(&mut [0]), Ok(0))
    });
    assert!(server.drain(settings.drain).unwrap());
}
