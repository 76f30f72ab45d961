//! `ratekeeper ask resp`.

use crate::fake::Step::{Expect, Send, Wait};
use crate::fake::{Fake, Step, nowhere};
use crate::program::{Ran, command, run};
use crate::server::Server;

const ASK: &[u8] = b"*3\r\n$8\r\nTHROTTLE\r\n$1\r\nL\r\n$3\r\nada\r\n";

fn ask(words: &[&str], steps: Vec<Step>) -> Ran {
    ask_within("20s", words, steps)
}

fn ask_within(timeout: &str, words: &[&str], steps: Vec<Step>) -> Ran {
    let fake = Fake::stream(steps);
    let first = ["ask", "resp", "--timeout", timeout, "--server", &fake.address, "--"];
    let ran = run(&[&first, words].concat());
    fake.finish();
    ran
}

#[test]
fn a_reply_is_printed_and_said_in_words() {
    for (reply, code, printed, said) in [
        (
            &b"*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n"[..],
            0,
            "0 3 2 -1 20",
            "allowed: 2 of 3 are left",
        ),
        (b"*5\r\n:1\r\n:3\r\n:0\r\n:20\r\n:60\r\n", 1, "1 3 0 20 60", "denied, try again in 20 s"),
        (b"*5\r\n:1\r\n:3\r\n:0\r\n:-1\r\n:60\r\n", 1, "1 3 0 -1 60", "denied for ever"),
    ] {
        let ran = ask(&["THROTTLE", "L", "ada"], vec![Expect(ASK), Send(reply)]);
        assert_eq!((ran.code, ran.stdout.trim_end()), (Some(code), printed), "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn every_kind_of_reply_is_printed() {
    let ping: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    for (reply, printed) in [
        (&b"+PONG\r\n"[..], "PONG"),
        (b":1\r\n", "1"),
        (b"$3\r\na b\r\n", "a b"),
        (b"$-1\r\n", "(none)"),
        (b"*0\r\n", ""),
        (b"*2\r\n*2\r\n:1\r\n$1\r\nx\r\n*-1\r\n", "[1 x] (none)"),
    ] {
        let mut steps = vec![Expect(ping)];
        steps.extend(reply.chunks(1).map(Send));
        let ran = ask(&["PING"], steps);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), &*format!("{printed}\n")), "{}", ran.stderr);
    }
}

#[test]
fn what_the_server_refuses_is_a_mistake() {
    let ran = ask(&["THROTTLE", "L", "ada"], vec![Expect(ASK), Send(b"-ERR no limit\r\n")]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("says: ERR no limit"), "{}", ran.stderr);
}

#[test]
fn what_is_no_answer_is_unreachable() {
    for (timeout, steps, expected) in [
        ("50ms", vec![Wait], "did not answer within 50ms"),
        ("50ms", vec![Expect(ASK), Send(b"*5\r\n:1\r\n"), Wait], "it sent 8 bytes of an answer"),
        ("20s", vec![Expect(ASK)], "closed the connection before it answered"),
        ("20s", vec![Expect(ASK), Send(b"INVALID COMMAND\n")], "is it another server?"),
        ("20s", vec![Expect(ASK), Send(b"*x\r\n")], "is it another server?"),
    ] {
        let ran = ask_within(timeout, &["THROTTLE", "L", "ada"], steps);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    assert_eq!(run(&["ask", "resp", "--server", &nowhere(), "PING"]).code, Some(3));
    // A port alone is one of this machine.
    let port = nowhere().replace("127.0.0.1", "");
    let ran = run(&["ask", "resp", "--server", &port, "PING"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains(&format!("connecting to 127.0.0.1{port}")), "{}", ran.stderr);
    assert_eq!(run(&["ask", "resp"]).code, Some(2), "nothing to ask");
}

#[test]
fn replies_of_version_3_are_read_too() {
    let server = Server::start(&[]);
    let ran = run(&["ask", "resp", "--server", &server.address("resp").to_string(), "HELLO", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("proto 3"), "{}", ran.stdout);
    assert!(server.stop().success());
}

#[test]
fn a_token_is_shown_first() {
    let mut serve = command(&["serve", "--memory", "16MiB", "--control", "off", "--udp", "off"]);
    serve.args(["--bucket", "off", "--throttr", "off", "--http", "off", "--resp", "127.0.0.1:0"]);
    serve.env("RATEKEEPER_TOKENS", "app decide a-token-of-the-test;ops read another-of-the-test");
    let server = Server::start_command(serve, 1);
    let address = server.address("resp").to_string();
    let ask = |token: Option<&str>| {
        let words = ["ask", "resp", "--server", &address, "THROTTLE", "LoginsPerUser", "ada"];
        let mut command = command(&words);
        command.envs(token.map(|token| ("RATEKEEPER_TOKEN", token)));
        let ran = command.output().unwrap();
        let text = String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap();
        (ran.status.code(), text)
    };
    let (code, text) = ask(Some("a-token-of-the-test"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("0 5 4 -1 60\n"), "{text}");
    let bench = |token: Option<&str>| {
        let load = ["bench", "resp", "--server", &address, "--command", "throttle"];
        let short = ["--for", "200ms", "--warm-up", "0s", "--connections", "2"];
        let mut command = command(&[&load[..], &short, &["--timeout", "20s"]].concat());
        command.envs(token.map(|token| ("RATEKEEPER_TOKEN", token)));
        let ran = command.output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, text) = bench(Some("a-token-of-the-test"));
    assert_eq!(code, Some(0), "{text}");
    for (token, error) in [(None, "NOAUTH"), (Some("nobody-has-this-token"), "WRONGPASS")] {
        let (code, text) = bench(token);
        assert!(matches!(code, Some(2 | 3)) && text.contains(error), "{text}");
    }
    for (token, error) in [
        (None, "NOAUTH"),
        (Some("nobody-has-this-token"), "WRONGPASS"),
        (Some("another-of-the-test"), "NOPERM"),
    ] {
        let (code, text) = ask(token);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(error), "{text}");
    }
    assert!(server.stop().success());
}
