//! `ratekeeper ask throttr`. The bytes are those of the protocol's recorded exchanges.

use serde_json::json;

use crate::fake::Step::{Expect, Send, Wait};
use crate::fake::{Fake, Step, nowhere};
use crate::program::{Ran, run};

const INSERT_SECONDS: &[u8] =
    b"\x01\x0a\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x3c\0\0\0\0\0\0\0\x02\x02c1r1";
const QUERY: &[u8] = b"\x02\x02\x02c1r1";
const NINE_FOR_59_SECONDS: &[u8] = b"\x01\x09\0\0\0\0\0\0\0\x02\x3b\0\0\0\0\0\0\0";
const NONE_FOR_59_SECONDS: &[u8] = b"\0\0\0\0\0\0\0\0\0\x02\x3b\0\0\0\0\0\0\0";
const NOT_FOUND: &[u8] = b"\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0";

fn ask(op: &str, args: &[&str], steps: Vec<Step>) -> Ran {
    ask_within("20s", op, args, steps)
}

fn ask_within(timeout: &str, op: &str, args: &[&str], steps: Vec<Step>) -> Ran {
    let fake = Fake::stream(steps);
    let first = ["ask", "throttr", op, "--timeout", timeout, "--server", &fake.address, "c1", "r1"];
    let ran = run(&[&first, args].concat());
    fake.finish();
    ran
}

#[test]
fn an_insert_tells_what_is_left() {
    let args = ["--quota", "10", "--usage", "1", "--ttl", "60s"];
    let ran = ask("insert", &args, vec![Expect(INSERT_SECONDS), Send(NINE_FOR_59_SECONDS)]);
    let expected = "allowed, 9 left, 59s to go\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
    let ran = ask("insert", &args, vec![Expect(INSERT_SECONDS), Send(NONE_FOR_59_SECONDS)]);
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "denied, 0 left, 59s to go\n"));
}

#[test]
fn a_lifetime_is_sent_in_the_largest_unit_that_fits() {
    let milliseconds =
        b"\x01\x0a\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\xdc\x05\0\0\0\0\0\0\x02\x02c1r1";
    let answer = b"\x01\x09\0\0\0\0\0\0\0\x01\xdb\x05\0\0\0\0\0\0";
    let steps = vec![Expect(milliseconds), Send(answer)];
    let ran = ask("insert", &["--quota", "10", "--ttl", "1.5s"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "allowed, 9 left, 1s499ms to go\n"));
    let nanoseconds = b"\x01\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x02\x02c1r1";
    let answer = b"\x01\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let steps = vec![Expect(nanoseconds), Send(answer)];
    let ran = ask("insert", &["--quota", "10", "--usage", "0", "--ttl", "7ns"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "allowed, 9 left, less than 1ns to go\n"));
}

#[test]
fn a_query_finds_or_does_not() {
    let ran = ask("query", &[], vec![Expect(QUERY), Send(NINE_FOR_59_SECONDS)]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "9 left, 59s to go\n"));
    let ran = ask("query", &[], vec![Expect(QUERY), Send(NOT_FOUND)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.starts_with("not found: "), "{}", ran.stdout);
}

#[test]
fn a_quota_is_set_increased_and_decreased() {
    for (value, request) in [
        ("5", b"\x03\0\0\x05\0\0\0\0\0\0\0\x02\x02c1r1"),
        ("+5", b"\x03\0\x01\x05\0\0\0\0\0\0\0\x02\x02c1r1"),
        ("-5", b"\x03\0\x02\x05\0\0\0\0\0\0\0\x02\x02c1r1"),
    ] {
        let ran = ask("update", &["--quota", value], vec![Expect(request), Send(b"\x01")]);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), "updated\n"), "{value}");
    }
}

#[test]
fn a_lifetime_is_changed_in_the_unit_of_the_entry() {
    let in_seconds = b"\x03\x01\x01\x1e\0\0\0\0\0\0\0\x02\x02c1r1";
    let steps = vec![Expect(QUERY), Send(NINE_FOR_59_SECONDS), Expect(in_seconds), Send(b"\x01")];
    let ran = ask("update", &["--ttl", "+30s"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "updated\n"));
    let answer = b"\x01\x09\0\0\0\0\0\0\0\x01\xdb\x05\0\0\0\0\0\0";
    let in_milliseconds = b"\x03\x01\x02\x30\x75\0\0\0\0\0\0\x02\x02c1r1";
    let steps = vec![Expect(QUERY), Send(answer), Expect(in_milliseconds), Send(b"\x01")];
    let ran = ask("update", &["--ttl", "-30s"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "updated\n"));
}

#[test]
fn a_lifetime_that_the_unit_cannot_say_is_refused() {
    let steps = vec![Expect(QUERY), Send(NINE_FOR_59_SECONDS), Wait];
    let ran = ask("update", &["--ttl", "+1.5s"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("counted in seconds there, and 1s500ms is not a whole number"));
    let ran = ask("update", &["--ttl", "1s"], vec![Expect(QUERY), Send(NOT_FOUND), Wait]);
    assert_eq!(ran.code, Some(1), "nothing to change");
}

#[test]
fn a_purge_forgets_once() {
    let purge = b"\x04\x02\x02c1r1";
    let ran = ask("purge", &[], vec![Expect(purge), Send(b"\x01")]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "purged\n"));
    let ran = ask("purge", &[], vec![Expect(purge), Send(b"\0")]);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn json_counts_in_nanoseconds() {
    let steps = vec![Expect(QUERY), Send(NINE_FOR_59_SECONDS)];
    let ran = ask("query", &["--format", "json"], steps);
    let expected =
        json!({"found": true, "remaining": 9, "expires_in": 59_000_000_000_u64, "unit": "s"});
    assert_eq!((ran.code, ran.json()), (Some(0), vec![expected]));
    let steps = vec![Expect(b"\x04\x02\x02c1r1"), Send(b"\0")];
    let ran = ask("purge", &["--format", "json"], steps);
    assert_eq!((ran.code, ran.json()), (Some(1), vec![json!({"purged": false})]));
}

#[test]
fn an_answer_may_come_in_pieces() {
    let mut steps = vec![Expect(QUERY)];
    steps.extend(NINE_FOR_59_SECONDS.chunks(1).map(Send));
    assert_eq!(ask("query", &[], steps).stdout, "9 left, 59s to go\n");
}

#[test]
fn what_is_no_answer_is_unreachable() {
    for (timeout, steps, expected) in [
        ("50ms", vec![Wait], "did not answer within 50ms; it sent 0 bytes of an answer"),
        ("50ms", vec![Expect(QUERY), Send(b"\0"), Wait], "did not answer within 50ms"),
        ("20s", vec![Expect(QUERY)], "closed the connection before it answered"),
        ("20s", vec![Expect(QUERY), Send(b"\0")], "answered; it sent 1 bytes"),
        ("20s", vec![Expect(QUERY), Send(b"BUCKET NOT FOUND\r\n")], "a Throttr server never does"),
    ] {
        let ran = ask_within(timeout, "query", &[], steps);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = run(&["ask", "throttr", "query", "--server", &nowhere(), "c", "r"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
}

#[test]
fn arguments_that_cannot_be_sent_are_usage_mistakes() {
    let long = "x".repeat(256);
    let wrong: [&[&str]; 10] = [
        &["query", &long, "r"],
        &["query", "c"],
        &["insert", "c", "r", "--quota", "1"],
        &["insert", "c", "r", "--quota", "-1", "--ttl", "1s"],
        &["insert", "c", "r", "--quota", "1", "--ttl", "60"],
        &["insert", "c", "r", "--quota", "1", "--ttl", "0s"],
        &["update", "c", "r"],
        &["update", "c", "r", "--quota", "1", "--ttl", "1s"],
        &["update", "c", "r", "--quota", "++1"],
        &["update", "c", "r", "--ttl", "+-1s"],
    ];
    for args in wrong {
        let ran = run(&[&["ask", "throttr"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
    }
}
