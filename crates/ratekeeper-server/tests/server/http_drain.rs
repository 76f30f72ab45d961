//! Stopping the HTTP door: who was heard is answered, and told that it is over.

use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ratekeeper::{Clock, Moment};
use ratekeeper_server::Time;

use crate::http_frames::{END_HEADERS, Frames, GOAWAY, HEADERS, frame, get, head};
use crate::support::{PATIENCE, Stream, Web, request, settings, start};

const GATE: &str = "/v1/gate/Hits/ada";
const BOUND: Duration = Duration::from_secs(8);
/// Longer than a connection is kept for nobody's sake.
const LONG: Duration = Duration::from_secs(3);

fn ask() -> String {
    request("POST", "/v1/check", "", r#"{"limit":"LoginsPerUser","id":"ada"}"#)
}

fn answers(stream: &mut Stream) -> String {
    String::from_utf8(stream.read_to_end()).unwrap()
}

#[test]
fn what_was_sent_before_the_end_is_answered_on_every_connection() {
    let mut settings = settings();
    settings.workers = NonZeroUsize::new(1);
    for _ in 0..3 {
        let server = start(&settings, Arc::new(Clock::start()));
        let mut idle: Vec<_> = (0..20).map(|_| Web::connect(&server)).collect();
        for client in &mut idle {
            client.stream.send(ask().as_bytes());
            assert_eq!(client.answer().status, 200);
        }
        let mut fresh: Vec<_> = (0..100).map(|_| Stream::connect(&server, "http")).collect();
        // The last one is not whole, so it was not sent before the end.
        let (one, many) = (ask(), ask().repeat(50) + &ask()[..20]);
        for client in &mut fresh {
            client.send(one.as_bytes());
        }
        for client in &mut idle {
            client.stream.send(many.as_bytes());
        }
        assert!(server.drain(BOUND).unwrap());
        for client in &mut fresh {
            let text = answers(client);
            assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1);
        }
        for client in &mut idle {
            let text = answers(&mut client.stream);
            assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 50);
        }
    }
}

#[test]
fn the_last_of_many_is_told_that_it_is() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Stream::connect(&server, "http");
    client.send(ask().repeat(50).as_bytes());
    assert!(server.drain(BOUND).unwrap());
    let text = answers(&mut client);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 50);
    // Those before the drain are told nothing, and of the others only the last.
    let last = text.rfind("HTTP/1.1 200 OK").unwrap();
    assert_eq!(text[..last].matches("connection: close").count(), 0, "{text}");
}

#[test]
fn http2_is_answered_and_told_too() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut used = Frames::connect(&server, &[]);
    used.0.send(&get(1, GATE));
    assert_eq!(used.next_of(HEADERS).unwrap().stream, 1);
    let mut fresh = Frames::connect(&server, &[]);
    let path = "/v1/gate/RequestsPerIPAddress/10.1.2.3";
    let asks: Vec<u8> = (1..20).flat_map(|it| get(it * 2 + 1, path)).collect();
    for client in [&mut used, &mut fresh] {
        client.0.send(&asks);
    }
    assert!(server.drain(BOUND).unwrap());
    for client in [&mut used, &mut fresh] {
        let frames: Vec<_> = std::iter::from_fn(|| client.next()).collect();
        let answered = frames.iter().filter(|it| it.kind == HEADERS).count();
        assert_eq!(answered, 19);
        assert!(frames.iter().any(|it| it.kind == GOAWAY));
    }
}

#[test]
fn nobody_who_is_slow_holds_the_end_up() {
    let settings = settings();
    let server = start(&settings, Arc::new(Clock::start()));
    let silent = Stream::connect(&server, "http");
    let mut half_head = Stream::connect(&server, "http");
    half_head.send(&ask().as_bytes()[..30]);
    let mut half_body = Stream::connect(&server, "http");
    half_body.send(&ask().as_bytes()[..ask().len() - 3]);
    let half_http2 = {
        let mut client = Frames::connect(&server, &[]);
        client.0.send(&frame(HEADERS, END_HEADERS, 1, &head("POST", "/v1/check")));
        client
    };
    let clock = Clock::start();
    let started = clock.now();
    assert!(server.drain(BOUND).unwrap());
    let elapsed: Duration = clock.now().since(started).into();
    assert!(elapsed < Duration::from_secs(6), "{elapsed:?}");
    drop((silent, half_head, half_body, half_http2));
}

#[test]
fn who_asks_on_and_on_is_told_to_stop() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Web::connect(&server);
    let (begun, has_begun) = channel();
    let asking = thread::spawn(move || {
        for count in 1.. {
            client.stream.send(ask().as_bytes());
            let page = client.answer();
            assert_eq!(page.status, 200);
            if page.field("connection") == Some("close") {
                assert_eq!(client.stream.read_to_end(), b"");
                return count;
            }
            let _ = begun.send(());
        }
        0
    });
    has_begun.recv().unwrap();
    let address = server.address("http").unwrap();
    assert!(server.drain(BOUND).unwrap());
    assert!(asking.join().unwrap() > 1);
    // Nobody new is let in.
    let late = std::net::TcpStream::connect(address);
    let is_refused = late.map_or(true, |mut stream| {
        let mut nothing = Vec::new();
        stream.read_to_end(&mut nothing).is_err() || nothing.is_empty()
    });
    assert!(is_refused);
}

/// A time that holds up the first who looks at it outside of the workers, as a slow disk would.
struct HoldingTime {
    clock: Clock,
    hold: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Time for HoldingTime {
    fn now(&self) -> Moment {
        // What writes to a disk is done on a thread of the runtime.
        let is_aside = thread::current().name().is_some_and(|name| name.starts_with("tokio"));
        let hold = if is_aside { self.hold.lock().unwrap().take() } else { None };
        if let Some((held, let_go)) = hold {
            held.send(()).unwrap();
            let_go.recv().unwrap();
        }
        self.clock.now()
    }
}

#[test]
fn a_change_that_waits_for_its_disk_is_answered_before_the_end() {
    let ((held, is_held), (go, let_go)) = (channel(), channel());
    let time = HoldingTime { clock: Clock::start(), hold: Mutex::new(Some((held, let_go))) };
    let server = start(&settings(), Arc::new(time));
    let mut client = Web::connect(&server);
    let body = r#"{"burst": 50, "count": 50, "period": "1m", "why": "a fair in town"}"#;
    let change = request("PUT", "/v1/overrides/LoginsPerUser/ada", "", body);
    client.stream.send(change.as_bytes());
    is_held.recv_timeout(PATIENCE).unwrap();
    let (over, is_over) = channel();
    let draining = thread::spawn(move || over.send(server.drain(BOUND).unwrap()).unwrap());
    assert_eq!(is_over.recv_timeout(LONG), Err(RecvTimeoutError::Timeout), "it is waited for");
    go.send(()).unwrap();
    let page = client.answer();
    assert_eq!(page.status, 200, "{page:?}");
    assert!(is_over.recv_timeout(PATIENCE).unwrap(), "everybody was done");
    draining.join().unwrap();
}
