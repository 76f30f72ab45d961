//! `ratekeeper ask udp`.

use crate::fake::{Fake, nowhere};
use crate::program::{Ran, run};

/// Asks a server on IPv4 that answers with what `answers` makes of the id.
fn ask(
    request: &[&str],
    expected: &'static str,
    answers: impl FnOnce(&str) -> Vec<String> + Send + 'static,
) -> Ran {
    ask_at("127.0.0.1:0", request, expected, answers)
}

fn ask_at(
    at: &str,
    request: &[&str],
    expected: &'static str,
    answers: impl FnOnce(&str) -> Vec<String> + Send + 'static,
) -> Ran {
    let fake = Fake::datagrams(at, move |datagram| {
        let (id, body) = datagram.split_once(' ').unwrap();
        assert!(id.bytes().all(|byte| byte.is_ascii_digit()), "{datagram}");
        assert_eq!(body, expected);
        answers(id)
    });
    let ran =
        run(&[&["ask", "udp", "--timeout", "20s", "--server", &fake.address], request].concat());
    fake.finish();
    ran
}

#[test]
fn the_answer_is_printed_without_its_id() {
    let ran = ask(&["ping"], "ping", |id| vec![format!("{id} pong")]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "pong\n", ""));
}

#[test]
fn words_are_joined_and_the_verdict_is_told() {
    let ran = ask(&["over_limit", "ws global"], "over_limit ws global", |id| {
        vec![format!("{id} ok N 2034.3 2500.0 10")]
    });
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "ok N 2034.3 2500.0 10\n"));
    assert_eq!(ran.stderr, "allowed: the rate is 2034.3, the limit 2500.0 in 10 s\n");
}

#[test]
fn a_key_over_its_limit_is_denied() {
    let ran = ask(&["over_limit", "ws", "ip=4.14.989.98"], "over_limit ws ip=4.14.989.98", |id| {
        vec![format!("{id} ok Y 28.1 22.0 20")]
    });
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "ok Y 28.1 22.0 20\n"));
    assert_eq!(ran.stderr, "over the limit: the rate is 28.1, the limit 22.0 in 20 s\n");
}

#[test]
fn the_last_test_of_check_limit_decides() {
    let json = r#"{"origin":"ws","ip":"9.9.9.9"}"#;
    let rest = r#", ["ws ua=","ws ip=9.9.9.9","ws global"], [{"key":"ws ua=","over_limit":"ok Y 9.0 9.0 1"}]"#;
    let ran =
        ask(&["check_limit", json], r#"check_limit {"origin":"ws","ip":"9.9.9.9"}"#, move |id| {
            vec![format!("{id} ok Y 9.0 9.0 1{rest}")]
        });
    assert_eq!((ran.code, ran.stdout), (Some(1), format!("ok Y 9.0 9.0 1{rest}\n")));
}

#[test]
fn what_a_key_echoes_is_no_verdict() {
    let answer = "n_req=2 n_over=1 last_max_rate=1 key=ok Y 1.0 1.0 1";
    let ran = ask(&["get_stats", "ok Y 1.0 1.0 1"], "get_stats ok Y 1.0 1.0 1", move |id| {
        vec![format!("{id} {answer}")]
    });
    assert_eq!((ran.code, ran.stdout, &*ran.stderr), (Some(0), format!("{answer}\n"), ""));
}

#[test]
fn answers_to_others_are_ignored() {
    let ran = ask(&["ping"], "ping", |id| {
        let mut answers = vec!["pong".into(), "1 pong of another".into(), format!("{id}0 longer")];
        answers.extend([id.into(), String::new(), format!("{id} pong"), format!("{id} again")]);
        answers
    });
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "pong\n"));
}

#[test]
fn an_id_that_is_given_is_taken() {
    let fake = Fake::datagrams("127.0.0.1:0", |datagram| {
        assert_eq!(datagram, "0078229 ping");
        vec!["78229 not this".into(), "0078229 pong".into()]
    });
    let ran = run(&["ask", "udp", "--server", &fake.address, "0078229", "ping"]);
    fake.finish();
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "pong\n"));
}

#[test]
fn silence_is_told_with_what_it_may_mean() {
    let fake = Fake::datagrams("127.0.0.1:0", |_| vec!["1 of another".into()]);
    let ran = run(&["ask", "udp", "--timeout", "50ms", "--server", &fake.address, "no_such"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    let expected = format!("error: {} did not answer within 50ms: nobody listens", fake.address);
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    assert!(ran.stderr.contains("not understood, and such requests get no answer"));
    fake.finish();
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let ran = run(&["ask", "udp", "--server", &nowhere(), "--timeout", "50ms", "ping"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    let ran = run(&["ask", "udp", "--server", "no-such-host.invalid", "ping"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    let expected = "error: finding the address of no-such-host.invalid:2000: ";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
}

#[test]
fn ipv6_and_names_work() {
    let ran = ask_at("[::1]:0", &["ping"], "ping", |id| vec![format!("{id} pong")]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "pong\n"));
    let fake = Fake::datagrams("127.0.0.1:0", |datagram| {
        vec![format!("{} pong", datagram.split_once(' ').unwrap().0)]
    });
    let server = fake.address.replace("127.0.0.1", "localhost");
    let ran = run(&["ask", "udp", "--server", &server, "ping"]);
    fake.finish();
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "pong\n"));
}

#[test]
fn what_no_server_would_read_is_not_sent() {
    let ran = run(&["ask", "udp", "over_limit", &"k".repeat(1_200)]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("ignore what is longer than 1200"), "{}", ran.stderr);
}

#[test]
fn addresses_that_are_none_are_usage_mistakes() {
    let cases = [
        ("", "it has no host"),
        (":", "is not a port"),
        ("host:", "`` is not a port"),
        ("host:0", "`0` is not a port"),
        ("host:65536", "`65536` is not a port"),
        ("[::1", "the `[` is never closed"),
        ("[::1]2000", "after the `]` comes a `:`"),
        ("[host]:2000", "`host` is not an IPv6 address"),
        ("::1:x", "has brackets: [::1]:2000"),
    ];
    for (server, expected) in cases {
        let ran = run(&["ask", "udp", "--server", server, "ping"]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{server}");
        assert!(ran.stderr.contains(expected), "{server}: {}", ran.stderr);
    }
}
