//! The token-bucket door.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Limiter, Nanos};
use ratekeeper_protocol::Counts;
use ratekeeper_protocol::bucket::{Door, LINE_BYTES_MAX};

use crate::transcript::{Connection, blocks, run, unescape};

const PAGE: &str = include_str!("../../src/bucket/README.md");
const RECORDED: &str = include_str!("../vectors/token_bucket.tsv");
const EXAMPLE: &str = include_str!("../../../../examples/buckets.conf");

fn door(limits: &str, buckets: &str) -> Door {
    let limits = match limits {
        "" => Limits::new(),
        text => Limits::parse(&Source { name: "limits", text }, None).unwrap(),
    };
    let limits = limits.with_buckets(&Source { name: "buckets", text: buckets }).unwrap();
    Door::new(Arc::new(Limiter::with_memory(limits, 1 << 20).unwrap()))
}

#[test]
fn the_recorded_exchanges_hold() {
    let rows: Vec<_> = RECORDED.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 21);
    for row in rows {
        let [request, answer, then] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let door = door("", "bucket_a 1\nbucket_b 100\n");
        let mut connection = Connection::new(&door);
        let sent = request.trim_end_matches("<EOF>");
        let mut got = connection.send(&unescape(sent));
        if sent != request {
            got.extend(connection.end());
        }
        let expected = if answer == "(nothing)" { Vec::new() } else { unescape(answer) };
        assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{row}");
        assert_eq!(connection.is_closed || sent != request, then == "closed", "{row}");
    }
}

#[test]
fn the_transcripts_of_the_page_hold() {
    let [buckets] = blocks(PAGE, "buckets").try_into().unwrap();
    let transcripts = blocks(PAGE, "transcript");
    assert_eq!(transcripts.len(), 6);
    for transcript in transcripts {
        run(&door("", buckets), transcript, unescape);
    }
}

#[test]
fn the_example_is_right() {
    let limits = Limits::new().with_buckets(&Source { name: "example", text: EXAMPLE }).unwrap();
    assert!(limits.iter().count() >= 4);
}

#[test]
fn limits_are_asked_for_everybody_or_for_an_id() {
    let limits = "
PerUser: {burst: 1, count: 1, period: 1s}
PerAddress: {burst: 1, count: 1, period: 1s, id: ipAddress}
";
    let door = door(limits, "PerUser:eve 1\nb 1\n");
    let mut connection = Connection::new(&door);
    for (request, answer) in [
        ("get PerUser\nget PerUser\nget PerUser:*\n", "1\n0\n0\n"),
        ("get PerUser:ada\nget PerUser:ada\nget PerUser:bob\n", "1\n0\n1\n"),
        ("get PerUser:a:b\nget PerUser:a:c\nget PerUser:a:b\n", "1\n1\n0\n"),
        ("get PerUser:\n", "BUCKET NOT FOUND\n"),
        ("get PerAddress\nget PerAddress:x\n", "BUCKET NOT FOUND\nBUCKET NOT FOUND\n"),
        ("get PerAddress:::1\nget PerAddress:0::1\n", "1\n0\n"),
        (
            "get b:ada\nget nope:ada\nget :\n",
            "BUCKET NOT FOUND\nBUCKET NOT FOUND\nBUCKET NOT FOUND\n",
        ),
        // A bucket of that name comes before an id of the limit.
        ("get PerUser:eve\nget PerUser:eve\n", "1\n0\n"),
    ] {
        let got = connection.send(request.as_bytes());
        assert_eq!(str::from_utf8(&got), Ok(answer), "{request}");
    }
    let counts = Counts { requests: 19, allowed: 7, denied: 6, ignored: 0, malformed: 0 };
    assert_eq!(connection.counts, counts);
}

#[test]
fn a_name_that_is_not_ascii_is_found() {
    let door = door("", "\u{420}\u{e0}\u{6820} 1\n");
    let mut connection = Connection::new(&door);
    let request = "get \u{420}\u{e0}\u{6820}\nget \u{420}\u{e0}\u{6820} 1\n";
    assert_eq!(connection.send(request.as_bytes()), b"1\n0\n");
    assert_eq!(connection.send(b"get \xff\n"), b"BUCKET NOT FOUND\n");
}

#[test]
fn a_line_is_so_long_and_no_longer() {
    let name = "n".repeat(LINE_BYTES_MAX - "get ".len());
    let door = door("", "b 1\n");
    for (line, is_closed) in [
        (format!("get {name}\n"), false),
        (format!("get {name}\r\n"), false),
        (format!("get {name}n\n"), true),
        (format!("get {name}n"), true),
        (format!("get {name}\r\r\n"), true),
        (format!("get {name}\rn"), true),
    ] {
        let expected: &[u8] = if is_closed { b"INVALID COMMAND\n" } else { b"BUCKET NOT FOUND\n" };
        let mut connection = Connection::new(&door);
        assert_eq!(connection.send(line.as_bytes()), expected, "{line:?}");
        assert_eq!(connection.is_closed, is_closed, "{line:?}");

        let mut connection = Connection::new(&door);
        let mut got = Vec::new();
        for byte in line.bytes() {
            if !connection.is_closed {
                got.extend(connection.send(&[byte]));
            }
        }
        assert_eq!(got, expected, "{line:?} byte by byte");
        assert_eq!(connection.is_closed, is_closed, "{line:?} byte by byte");
    }
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(format!("get {name}\r").as_bytes()), b"");
    assert_eq!(connection.end(), b"BUCKET NOT FOUND\n");
}

#[test]
fn a_door_can_be_told_another_length() {
    let door = door("", "b 1\n").with_line_bytes_max(5);
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(b"get b\r\nget b \n"), b"1\nINVALID COMMAND\n");
    assert!(connection.is_closed);
}

#[test]
fn a_long_read_is_answered_in_order() {
    let door = door("", "b 100\n");
    let mut connection = Connection::new(&door);
    let lines = |count| "get b\n".repeat(count) + "foo\nget nope\n";
    let expected = |allowed, denied| {
        "1\n".repeat(allowed) + &"0\n".repeat(denied) + "INVALID COMMAND\nBUCKET NOT FOUND\n"
    };
    assert_eq!(connection.send(lines(300).as_bytes()), expected(100, 200).as_bytes());
    connection.wait(Nanos::from_secs(1));
    assert_eq!(connection.send(lines(64).as_bytes()), expected(64, 0).as_bytes());
}

#[test]
fn a_page_in_a_browser_spends_nothing() {
    let door = door("", "bucket_a 1\n");
    for method in ["POST", "GET", "OPTIONS", "PUT", "PRI", "brew"] {
        let page = format!(
            "{method} /x?get%20bucket_a HTTP/1.1\r\nHost: 127.0.0.1:4444\r\n\r\nget bucket_a\r\n"
        );
        assert_nothing_is_obeyed(&door, page.as_bytes());
    }
    assert_nothing_is_obeyed(&door, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\nget bucket_a\n");
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(b"GET bucket_a\n"), b"INVALID COMMAND\n");
    assert_eq!(connection.send(b"get bucket_a\n"), b"1\n", "nobody has spent it");
}

/// Whatever the reads: the first line, or less of it, is answered and nothing behind it is read.
#[track_caller]
fn assert_nothing_is_obeyed(door: &Door, page: &[u8]) {
    for cut in 0..page.len() {
        let (head, tail) = page.split_at(cut);
        let mut connection = Connection::new(door);
        let mut got = connection.send(head);
        if !connection.is_closed {
            got.extend(connection.send(tail));
        }
        assert_eq!(got, b"INVALID COMMAND\n", "cut at {cut}: {}", page.escape_ascii());
        assert!(connection.is_closed, "cut at {cut}: {}", page.escape_ascii());
    }
}
