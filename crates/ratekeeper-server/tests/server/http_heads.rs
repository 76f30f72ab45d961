//! Heads that could be read in two ways, or announce more than there may be: refused alike, whichever
//! way a request goes.

use std::sync::Arc;

use ratekeeper::Clock;
use ratekeeper_server::Server;

use crate::http_frames::{END_HEADERS, END_STREAM, Frames, HEADERS, frame, head};
use crate::support::{Stream, Web, settings, start};

const ASK: &str = r#"{"limit":"LoginsPerUser","id":"ada"}"#;
/// What a browser sends for an address that was typed: such requests never go the short way.
const WAYS: [&str; 2] = ["", "Sec-Fetch-Site: none\r\n"];

/// All that is answered to a request that comes in two pieces.
fn answer(server: &Server, line: &str, fields: &str, body: &str, cut: usize) -> String {
    let request = format!("{line} HTTP/1.1\r\n{fields}\r\n{body}");
    let (first, second) = request.as_bytes().split_at(cut.min(request.len()));
    let mut client = Stream::connect(server, "http");
    client.0.set_nodelay(true).unwrap();
    client.send(first);
    client.send(second);
    String::from_utf8(client.read_to_end()).unwrap()
}

#[track_caller]
fn assert_refused(server: &Server, line: &str, fields: &str, body: &str, expected: [&str; 2]) {
    let [status, kind] = expected;
    for way in WAYS {
        let fields = format!("{fields}{way}");
        for cut in [usize::MAX, 3, line.len() + 30, line.len() + 60] {
            let got = answer(server, line, &fields, body, cut);
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {fields:?}: {got}");
            assert!(got.contains(&format!("/api#{kind}")), "{line} {fields:?}: {got}");
            assert!(got.contains("connection: close"), "{line} {fields:?}: {got}");
        }
    }
}

const ROUTES: [&str; 4] = ["POST /v1/spend", "POST /v1/batch", "GET /healthz", "PUT /nothing"];

#[test]
fn a_request_for_two_hosts_is_refused() {
    let server = start(&settings(), Arc::new(Clock::start()));
    for line in ROUTES {
        for second in ["localhost", "evil.example", ""] {
            let fields = format!("Host: localhost\r\nContent-Length: 36\r\nhost: {second}\r\n");
            assert_refused(&server, line, &fields, ASK, ["400", "two-hosts"]);
        }
    }
    let mut client = Frames::connect(&server, &[]);
    let two = [&head("GET", "/healthz")[..], b"\0\x04host\x01a\0\x04host\x01a"].concat();
    client.0.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &two));
    let answer = client.next_of(HEADERS).unwrap();
    // 400, of the table that every connection begins with.
    assert_eq!((answer.stream, answer.payload[0]), (1, 0x8c));
}

#[test]
fn a_coding_that_is_not_decoded_is_refused() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let body = format!("{:x}\r\n{ASK}\r\n0\r\n\r\n", ASK.len());
    for line in ROUTES {
        for coding in [
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity, Chunked\r\n",
        ] {
            let fields = format!("Host: localhost\r\n{coding}");
            assert_refused(&server, line, &fields, &body, ["400", "unknown-coding"]);
        }
    }
    // Which of the two ends the body, is for somebody else to guess.
    for line in ROUTES {
        for fields in [
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        ] {
            let fields = format!("Host: localhost\r\n{fields}");
            assert_refused(&server, line, &fields, &body, ["400", "unknown-coding"]);
        }
    }
    let mut client = Web::connect(&server);
    for coding in ["chunked", "CHUNKED"] {
        let fields = format!("Host: localhost\r\nTransfer-Encoding: {coding}\r\n");
        client.stream.send(format!("POST /v1/check HTTP/1.1\r\n{fields}\r\n{body}").as_bytes());
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_body_that_is_announced_too_large_is_refused_whoever_would_read_it() {
    let server = start(&settings(), Arc::new(Clock::start()));
    for line in ROUTES {
        for length in ["262145", "18446744073709551615", "100000000000000000000", &"9".repeat(300)]
        {
            let fields = format!("Host: localhost\r\nContent-Length: {length}\r\n");
            assert_refused(&server, line, &fields, "", ["413", "too-large"]);
        }
    }
    // Behind those that were answered, the short way and the long way.
    let mut client = Web::connect(&server);
    assert_eq!(client.post("/v1/check", ASK).status, 200);
    let body = format!("{:x}\r\n{ASK}\r\n0\r\n\r\n", ASK.len());
    let fields = "Host: localhost\r\nTransfer-Encoding: chunked\r\n";
    client.stream.send(format!("POST /v1/check HTTP/1.1\r\n{fields}\r\n{body}").as_bytes());
    assert_eq!(client.answer().status, 200);
    let fields = format!("Host: localhost\r\nContent-Length: {}\r\n", "9".repeat(30));
    client.stream.send(format!("POST /v1/check HTTP/1.1\r\n{fields}\r\n").as_bytes());
    assert_eq!(client.answer().status, 413);
}
