//! `ratekeeper ask bucket`.

use crate::fake::Step::{Expect, Send, Wait};
use crate::fake::{Fake, Step, nowhere};
use crate::program::{Ran, run};

fn ask(args: &[&str], steps: Vec<Step>) -> Ran {
    ask_within("20s", args, steps)
}

fn ask_within(timeout: &str, args: &[&str], steps: Vec<Step>) -> Ran {
    let fake = Fake::stream(steps);
    let first = ["ask", "bucket", "--timeout", timeout, "--server", &fake.address];
    let ran = run(&[&first, args].concat());
    fake.finish();
    ran
}

#[test]
fn a_token_is_allowed_and_none_is_denied() {
    let ran = ask(&["a"], vec![Expect(b"get a\r\n"), Send(b"1\n")]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "1\n", ""));
    let ran = ask(&["a"], vec![Expect(b"get a\r\n"), Send(b"0\n")]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(1), "0\n", ""));
}

#[test]
fn several_asks_share_a_connection_and_the_last_decides() {
    let get = || Expect(b"get a\r\n");
    let steps = vec![get(), Send(b"1\n"), get(), Send(b"1\n"), get(), Send(b"0\n")];
    let ran = ask(&["a", "--times", "3"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "1\n1\n0\n"));
    assert_eq!(ran.stderr, "2 allowed, 1 denied\n");
}

#[test]
fn a_cost_is_sent_only_if_it_is_given() {
    let ran = ask(&["a", "--cost", "1"], vec![Expect(b"get a 1\r\n"), Send(b"1\n")]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "1\n"));
    let steps = vec![Expect(b"get a 9\r\n"), Send(b"INVALID COMMAND\n")];
    let ran = ask(&["a", "--cost", "9"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), "INVALID COMMAND\n"));
    assert!(ran.stderr.contains("does not understand `get a 9`: not every server knows of a cost"));
}

#[test]
fn a_bucket_that_is_not_there_is_a_mistake() {
    let steps = vec![Expect(b"get nope\r\n"), Send(b"BUCKET NOT FOUND\n"), Wait];
    let ran = ask(&["nope", "--times", "5"], steps);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), "BUCKET NOT FOUND\n"));
    assert!(ran.stderr.contains("has no bucket called `nope`"), "{}", ran.stderr);
}

#[test]
fn an_answer_may_come_in_pieces() {
    let pieces = [&b"BUC"[..], b"KET NOT F", b"OUND", b"\n"].map(Send);
    let mut steps = vec![Expect(b"get a\r\n")];
    steps.extend(pieces);
    assert_eq!(ask(&["a"], steps).stdout, "BUCKET NOT FOUND\n");
}

#[test]
fn silence_and_half_an_answer_are_no_answer() {
    for (timeout, steps, expected) in [
        ("50ms", vec![Wait], "did not answer within 50ms; it sent 0 bytes of an answer"),
        ("50ms", vec![Expect(b"get a\r\n"), Send(b"1"), Wait], "did not answer within 50ms"),
        ("20s", vec![Expect(b"get a\r\n")], "closed the connection before it answered"),
        ("20s", vec![Expect(b"get a\r\n"), Send(b"BUCK")], "answered; it sent 4 bytes"),
        ("20s", vec![], "closed the connection before it answered"),
    ] {
        let ran = ask_within(timeout, &["a"], steps);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn other_servers_are_told_apart() {
    let ran = ask(&["a"], vec![Expect(b"get a\r\n"), Send(b"HTTP/1.1 400 Bad Request\r\n")]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    let expected = r"answered `HTTP/1.1 400 Bad Request\r`, which a token-bucket server never does";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    let endless = ask(&["a"], vec![Expect(b"get a\r\n"), Send(&[b'x'; 1_024]), Wait]);
    assert_eq!((endless.code, &*endless.stdout), (Some(3), ""));
}

#[test]
fn nobody_there_is_unreachable() {
    let ran = run(&["ask", "bucket", "--server", &nowhere(), "a"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(ran.stderr.starts_with("error: connecting to 127.0.0.1:"), "{}", ran.stderr);
}

#[test]
fn names_that_cannot_be_sent_are_usage_mistakes() {
    for name in ["", "a b", "a\tb", "a\nquit", "a\r"] {
        let ran = run(&["ask", "bucket", name]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{name:?}");
    }
    for times in ["0", "1000001", "x"] {
        assert_eq!(run(&["ask", "bucket", "a", "--times", times]).code, Some(2));
    }
}
