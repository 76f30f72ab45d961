//! The HTTP door and clients that are slow, silent or greedy: each is got rid of in its time, and
//! nobody else notices.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;

use crate::http_frames::{
    CONTINUATION, DATA, END_HEADERS, Frames, GOAWAY, HEADERS, INITIAL_WINDOW, PING, PREFACE,
    RST_STREAM, SETTINGS, frame, get, head,
};
use crate::support::{PATIENCE, StandingTime, Stream, Web, request, settings, start, wait_until};

/// How long everything may take in these tests.
const TIME: Duration = Duration::from_millis(300);
/// How long it may take on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(5);
const PACE: Duration = Duration::from_millis(50);

const ASK: &str = r#"{"limit":"LoginsPerUser","id":"ada"}"#;
const GATE: &str = "/v1/gate/RequestsPerIPAddress/10.1.2.3";

fn hasty() -> Settings {
    let mut settings = settings();
    settings.http.header_time = TIME;
    settings.http.body_time = TIME;
    settings.http.stall = TIME;
    settings
}

fn dropped(server: &Server) -> u64 {
    server.stats().doors["http"].counts.dropped
}

/// Waits until nobody is connected.
fn wait_until_empty(server: &Server) {
    let connections = || server.stats().doors["http"].counts.connections;
    wait_until("nobody is connected", || connections() == 0);
}

/// Somebody else, who must be served meanwhile.
fn ask_healthy(server: &Server) {
    let page = Web::connect(server).post("/v1/check", ASK);
    assert_eq!(page.status, 200, "{page:?}");
}

/// Sends a byte now and then until the server has enough; returns how long it took and what it
/// answered.
fn trickle(stream: &mut Stream, bytes: &[u8]) -> (Duration, Vec<u8>) {
    let clock = Clock::start();
    let started = clock.now();
    stream.0.set_read_timeout(Some(PACE)).unwrap();
    let (mut answer, mut some) = (Vec::new(), [0; 1024]);
    for byte in bytes.iter().cycle() {
        let sent = stream.0.write_all(&[*byte]);
        match stream.0.read(&mut some) {
            Ok(0) => break,
            Ok(read) => answer.extend(&some[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && sent.is_ok() => {}
            Err(_) => break,
        }
        let elapsed: Duration = clock.now().since(started).into();
        assert!(elapsed < PATIENCE, "the server waits for ever");
    }
    (clock.now().since(started).into(), answer)
}

/// How long it takes until the server closes, which is to say nothing more.
fn silence(stream: &mut Stream) -> Duration {
    let clock = Clock::start();
    let started = clock.now();
    assert_eq!(stream.read_to_end(), b"");
    clock.now().since(started).into()
}

#[test]
fn a_silent_connection_is_closed_in_time() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut silent = Stream::connect(&server, "http");
    let elapsed = silence(&mut silent);
    assert!((TIME / 2..TIME_MAX).contains(&elapsed), "{elapsed:?}");
    ask_healthy(&server);
    drop(silent);
    wait_until_empty(&server);
    assert_eq!(dropped(&server), 1);
}

#[test]
fn a_head_that_trickles_is_not_waited_for() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    for bytes in [&b"GET /healthz HTTP/1.1\r\nX: "[..], b"\r\n", b"P", b"PR", PREFACE] {
        let before = dropped(&server);
        let mut slow = Stream::connect(&server, "http");
        // The first bytes at once, so that it is clear what is spoken.
        slow.send(&bytes[..bytes.len() - 1]);
        let (elapsed, answer) = trickle(&mut slow, b"x");
        assert!(elapsed < TIME_MAX, "{elapsed:?}");
        if bytes.len() > 2 && bytes[..1] == *b"G" {
            assert_eq!(answer, b"", "a head that is not whole is not answered");
            assert!(elapsed > TIME / 2, "{elapsed:?}");
            drop(slow);
            wait_until_empty(&server);
            assert_eq!(dropped(&server), before + 1);
        }
        ask_healthy(&server);
    }
}

#[test]
fn a_second_head_that_trickles_is_not_waited_for_either() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut slow = Web::connect(&server);
    assert_eq!(slow.post("/v1/check", ASK).status, 200);
    let (elapsed, answer) = trickle(&mut slow.stream, b"POST /v1/check");
    assert!(elapsed < TIME_MAX, "{elapsed:?}");
    assert_eq!(answer, b"");
    drop(slow);
    wait_until_empty(&server);
    assert_eq!(dropped(&server), 1);
}

#[test]
fn an_idle_connection_is_closed_and_nobody_is_blamed() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut idle = Web::connect(&server);
    assert_eq!(idle.post("/v1/check", ASK).status, 200);
    let elapsed = silence(&mut idle.stream);
    assert!((TIME / 2..TIME_MAX).contains(&elapsed), "{elapsed:?}");
    drop(idle);
    wait_until_empty(&server);
    assert_eq!(dropped(&server), 0);
}

#[test]
fn http2_without_requests_is_closed_in_time() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let clock = Clock::start();
    for bytes in [&PREFACE[..3], &PREFACE[..10], PREFACE] {
        let started = clock.now();
        let mut half = Stream::connect(&server, "http");
        half.send(bytes);
        let mut said = Vec::new();
        let _ = half.0.read_to_end(&mut said);
        let elapsed: Duration = clock.now().since(started).into();
        assert!(elapsed < TIME_MAX, "{elapsed:?}");
    }
    let started = clock.now();
    let mut whole = Frames::connect(&server, &[]);
    while whole.next().is_some() {}
    let elapsed: Duration = clock.now().since(started).into();
    assert!(elapsed < TIME_MAX, "{elapsed:?}");
    ask_healthy(&server);
    drop(whole);
    wait_until_empty(&server);
    assert_eq!(dropped(&server), 4);
}

#[test]
fn http2_after_its_requests_is_closed_in_time() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut client = Frames::connect(&server, &[]);
    client.0.send(&get(1, GATE));
    assert_eq!(client.next_of(HEADERS).unwrap().stream, 1);
    // Pings are no requests.
    client.0.send(&frame(PING, 0, 0, b"12345678"));
    assert_eq!(client.reason_of_end(), Some(0), "told that it ends, without blame");
    drop(client);
    wait_until_empty(&server);
    assert_eq!(dropped(&server), 0);
}

#[test]
fn a_slow_body_is_told_so_and_closed() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let mut slow = Stream::connect(&server, "http");
        slow.send(
            format!("POST /v1/spend HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n").as_bytes(),
        );
        if head.starts_with('T') {
            slow.send(b"50\r\n");
        }
        let (elapsed, answer) = trickle(&mut slow, b"{");
        assert!((TIME / 2..TIME_MAX).contains(&elapsed), "{elapsed:?}");
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert!(answer.contains("/api#too-slow"), "{answer}");
        ask_healthy(&server);
    }
    wait_until_empty(&server);
    assert_eq!(server.stats().doors["http"].counts.malformed, 2);
}

#[test]
fn a_huge_body_is_refused_before_it_is_read() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut announced = Web::connect(&server);
    let head = "POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n";
    announced.stream.send(head.as_bytes());
    let page = announced.answer();
    assert_eq!((page.status, page.field("connection")), (413, Some("close")), "{page:?}");
    assert!(page.text().contains("/api#too-large"));
    assert_eq!(announced.stream.read_to_end(), b"");
    // Whoever asks first is not told to go on.
    let mut polite = Web::connect(&server);
    polite.stream.send(head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(polite.answer().status, 413);
    // And who does not say how much it will be, as soon as it is too much, also while it sends.
    let mut chunked = Web::connect(&server);
    chunked
        .stream
        .send(b"POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..6 {
        chunked.stream.send(chunk.as_bytes());
    }
    let page = chunked.answer();
    assert_eq!((page.status, page.field("connection")), (413, Some("close")), "{page:?}");
    ask_healthy(&server);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let long = format!("X: {}\r\n", "x".repeat(20 << 10));
    let many = "X-Y: z\r\n".repeat(101);
    for header in [long.as_str(), &many, &format!("X: {}", "x".repeat(1 << 20))] {
        let mut client = Web::connect(&server);
        let _ = client.stream.0.write_all(request("GET", "/healthz", header, "").as_bytes());
        let page = client.answer();
        assert_eq!(page.status, 431, "{page:?}");
        ask_healthy(&server);
    }
    wait_until_empty(&server);
    assert_eq!(server.stats().doors["http"].counts.malformed, 3);
}

#[test]
fn a_flood_of_resets_ends_its_connection() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Frames::connect(&server, &[]);
    let mut flood = Vec::new();
    for stream in (1..20_000).step_by(2) {
        flood.extend(get(stream, GATE));
        flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    let _ = client.try_send(&flood);
    // ENHANCE_YOUR_CALM
    assert_eq!(client.reason_of_end(), Some(11));
    ask_healthy(&server);
    drop(client);
    wait_until_empty(&server);
    let counts = server.stats().doors["http"].counts;
    assert!(counts.requests < 10_000, "the flood was served: {counts:?}");
    assert_eq!(counts.malformed, 1);
}

#[test]
fn a_flood_of_frames_that_ask_for_nothing_ends_its_connection() {
    const WINDOW_UPDATE: u8 = 8;
    let server = start(&settings(), Arc::new(Clock::start()));
    let open = frame(HEADERS, END_HEADERS, 1, &head("POST", "/v1/check"));
    let floods = [
        frame(PING, 0, 0, b"12345678"),
        frame(SETTINGS, 0, 0, b""),
        frame(2, 0, 3, &[0, 0, 0, 0, 7]),
        frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        frame(0xbe, 0, 0, b"what is new"),
        frame(DATA, 0, 1, b""),
        frame(DATA, 8, 1, b"\0"),
    ];
    for (place, frame) in floods.iter().enumerate() {
        let mut client = Frames::connect(&server, &[]);
        client.0.send(&open);
        let _ = client.try_send(&frame.repeat(5_000));
        // ENHANCE_YOUR_CALM
        assert_eq!(client.reason_of_end(), Some(11), "flood {place}");
        ask_healthy(&server);
    }
    wait_until_empty(&server);
    // And the body that never came, where it was waited for by then.
    assert!(server.stats().doors["http"].counts.malformed >= floods.len() as u64);
}

#[test]
fn a_busy_client_may_keep_its_windows_open() {
    let server = start(&settings(), StandingTime::at_secs(1_700_000_000));
    let mut client = Frames::connect(&server, &[]);
    for stream in (1..3_000).step_by(2) {
        let update = frame(8, 0, 0, &100_u32.to_be_bytes());
        let ping = frame(PING, 0, 0, b"12345678");
        client.0.send(&[get(stream, GATE), update.clone(), update, ping].concat());
        assert_eq!(client.next_of(HEADERS).unwrap().stream, stream);
    }
}

#[test]
fn a_head_without_end_ends_its_connection() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Frames::connect(&server, &[]);
    let mut flood = frame(HEADERS, 0, 1, &head("GET", GATE));
    for _ in 0..10_000 {
        flood.extend(frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y"));
    }
    let _ = client.try_send(&flood);
    assert!(client.reason_of_end().is_some_and(|reason| reason > 0));
    ask_healthy(&server);
}

#[test]
fn more_streams_at_once_than_there_may_be_are_refused() {
    let mut settings = settings();
    settings.http.streams = 8;
    let server = start(&settings, Arc::new(Clock::start()));
    let mut client = Frames::connect(&server, &[]);
    // Each waits for its body.
    let open = |stream| frame(HEADERS, END_HEADERS, stream, &head("POST", "/v1/check"));
    let streams: Vec<u32> = (0..12).map(|it| it * 2 + 1).collect();
    let bytes: Vec<u8> = streams.iter().flat_map(|stream| open(*stream)).collect();
    client.0.send(&bytes);
    for refused in &streams[8..] {
        let reset = client.next_of(RST_STREAM).unwrap();
        assert_eq!((reset.stream, &*reset.payload), (*refused, &7_u32.to_be_bytes()[..]));
    }
    // The others can still be finished.
    client.0.send(&frame(DATA, 1, 1, ASK.as_bytes()));
    assert_eq!(client.next_of(HEADERS).unwrap().stream, 1);
}

#[test]
fn a_client_whose_window_stays_closed_is_not_kept() {
    let server = start(&hasty(), Arc::new(Clock::start()));
    let mut client = Frames::connect(&server, &[(INITIAL_WINDOW, 0)]);
    for stream in [1, 3, 5] {
        client.0.send(&frame(HEADERS, END_HEADERS, stream, &head("POST", "/v1/check")));
        client.0.send(&frame(DATA, 1, stream, ASK.as_bytes()));
    }
    let clock = Clock::start();
    let started = clock.now();
    let mut kinds = Vec::new();
    while let Some(frame) = client.next() {
        kinds.push(frame.kind);
    }
    let elapsed: Duration = clock.now().since(started).into();
    assert!(kinds.contains(&GOAWAY) && !kinds.contains(&DATA), "{kinds:?}");
    assert!(elapsed < TIME_MAX, "{elapsed:?}");
    drop(client);
    wait_until_empty(&server);
}

#[test]
fn who_sends_and_never_reads_is_paused_and_then_dropped() {
    for ask in [request("GET", GATE, "", ""), request("POST", "/v1/check", "", ASK)] {
        let server = start(&hasty(), Arc::new(Clock::start()));
        let mut greedy = Stream::connect(&server, "http").0;
        greedy.set_write_timeout(Some(PATIENCE)).unwrap();
        let requests = ask.repeat(1000);
        let mut sent: u64 = 0;
        while let Ok(written) = greedy.write(requests.as_bytes()) {
            sent += written as u64;
            assert!(sent < 1 << 28, "the server reads on although nobody reads its answers");
        }
        ask_healthy(&server);
        wait_until_empty(&server);
        assert_eq!(dropped(&server), 1);
    }
}
