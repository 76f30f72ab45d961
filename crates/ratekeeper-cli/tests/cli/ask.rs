//! `ratekeeper ask LIMIT ID`, which asks a server over HTTP.

use ratekeeper::Nanos;
use ratekeeper::limits::parse_duration;
use serde_json::json;

use crate::fake::{Fake, Step, nowhere};
use crate::program::{Ran, command, file, run};
use crate::server::Server;

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

fn ask(url: &str, args: &[&str]) -> Ran {
    run(&[&["ask", "--url", url], args].concat())
}

#[test]
fn a_server_is_asked_and_what_it_allows_is_spent_there() {
    let server = Server::start(&[]);
    let ran = ask(&server.url(), &["LoginsPerUser", "ada", "--times", "5"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 6));
    assert!(ran.stdout.ends_with("5 allowed, 0 denied\n"), "{}", ran.stdout);
    let ran = ask(&server.url(), &["LoginsPerUser", "ada"]);
    assert_eq!(ran.code, Some(1));
    let wait = ran.stdout.trim_end().strip_prefix("1  denied   try again in ");
    let wait = parse_duration(wait.unwrap_or_else(|| panic!("{}", ran.stdout))).unwrap();
    assert!(!wait.is_zero() && wait <= Nanos::from_secs(60), "{wait}");
    // Another id has a bucket of its own.
    assert_eq!(ask(&server.url(), &["LoginsPerUser", "grace"]).code, Some(0));
    assert!(server.stop().success());
}

#[test]
fn a_check_spends_nothing_a_refund_gives_back_a_reset_fills() {
    let server = Server::start(&[]);
    let url = server.url();
    let ran = ask(&url, &["LoginsPerUser", "ada", "--check", "--cost", "5", "--times", "2"]);
    assert!(ran.stdout.ends_with("2 allowed, 0 denied\n"), "{}", ran.stdout);
    assert_eq!(ask(&url, &["LoginsPerUser", "ada", "--cost", "5"]).code, Some(0));
    assert_eq!(ask(&url, &["LoginsPerUser", "ada", "--check"]).code, Some(1));
    let ran = ask(&url, &["LoginsPerUser", "ada", "--refund", "--cost", "2"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.starts_with("1  refunded  2 left, full again in "), "{}", ran.stdout);
    let ran = ask(&url, &["LoginsPerUser", "ada", "--reset"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "1  reset    5 left, full\n"));
    let ran = ask(&url, &["LoginsPerUser", "ada", "--refund"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "1  nothing given back  5 left, full\n"));
    assert!(server.stop().success());
}

#[test]
fn programs_read_what_the_server_wrote() {
    let body = r#"{"allowed":false,"shadow":false,"remaining":0,"retry_in":60.5,"retry_in_ns":60500000000,"reset_in":300,"reset_in_ns":300000000000,"more":[1]}"#;
    let parts =
        ["POST /v1/spend ", "authorization: Bearer ", r#"{"limit":"L","id":"a b","cost":3}"#];
    let fake = Fake::http(&parts, 200, JSON, body);
    let mut command = command(&["ask", "--url", &fake.url(), "L", "a b", "--cost", "3"]);
    let ran =
        command.args(["--format", "json"]).env("RATEKEEPER_TOKEN", "0123456789abcdef").output();
    let ran = ran.unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{body}\n"));
    fake.finish();
}

#[test]
fn an_explanation_is_the_servers() {
    let decision = json!({"allowed": true, "shadow": true, "remaining": 0, "retry_in_ns": 0, "reset_in_ns": 0});
    // Nothing else is asked: an explanation says what a check would be answered, and takes only the
    // role `read`.
    let fake = Fake::stream(vec![
        Step::Request(vec!["GET /v1/explain/L/2001%3Adb8%3A%3A%2F48?cost=1 ".into()]),
        Step::Answer(
            200,
            JSON,
            json!({"text": "L for 2001:db8::/48\nbe\u{1b}[2Jcause\n", "answer": decision})
                .to_string(),
        ),
    ]);
    let ran = ask(&fake.url(), &["L", "2001:db8::/48", "--check", "--explain"]);
    let expected = "1  allowed  0 left, full; denied if it were not for the shadow\n\nL for 2001:db8::/48\nbe\\u{1b}[2Jcause\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
    fake.finish();
}

#[test]
fn a_problem_says_what_is_wrong_where_and_what_would_be_right() {
    let server = Server::start(&[]);
    let ran = ask(&server.url(), &["LoginPerUser", "ada"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    for part in
        ["did you mean `LoginsPerUser`?", "\n  field: limit\n", "\n  expected: the name of a limit"]
    {
        assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
    }
    let ran = ask(&server.url(), &["LoginsPerUser", "ada", "--cost", "6"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("its burst is 5"), "{}", ran.stderr);
    assert!(server.stop().success());
}

#[test]
fn whoever_may_not_ask_is_told_how_to_give_a_token() {
    let problem = r#"{"type":"/api#needs-token","title":"A token is needed","status":401,"detail":"a token is needed here","rule":"a header"}"#;
    let fake = Fake::http(&["POST /v1/spend "], 401, PROBLEM, problem);
    let ran = ask(&fake.url(), &["L", "a"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("error: a token is needed here\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("RATEKEEPER_TOKEN") && ran.stderr.contains("--token-file"));
    fake.finish();
    let token = file("ask-token", " tok-of-sixteen-c \n");
    let fake = Fake::http(&["authorization: Bearer tok-of-sixteen-c\r\n"], 403, PROBLEM, problem);
    let ran = ask(&fake.url(), &["--token-file", &token, "L", "a"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the token was sent"), "{}", ran.stderr);
    fake.finish();
}

#[test]
fn a_token_is_never_an_argument() {
    let ran = run(&["ask", "--token", "secret-secret-secret", "L", "a"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("set RATEKEEPER_TOKEN"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("secret-secret"), "{}", ran.stderr);
    let ran = ask(&format!("http://{}", nowhere()), &["--token-file", "/nonexistent", "L", "a"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("reading the token from /nonexistent"), "{}", ran.stderr);
}

#[test]
fn without_a_server_it_is_said_how_to_start_one() {
    let ran = ask(&format!("http://{}", nowhere()), &["L", "a"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    for part in [
        "no server answers at http://127.0.0.1:",
        "`ratekeeper serve`",
        "--url",
        "`ratekeeper ask offline`",
    ] {
        assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
    }
    let ran = ask("http://no-such-host.invalid", &["L", "a"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
}

#[test]
fn strange_servers_are_told_as_such() {
    for (status, kind, body) in [
        (200, JSON, "{\"allowed\": tr"),
        (200, JSON, "[]"),
        (200, "text/html", "<html>hello</html>"),
        (404, "text/html", "not here"),
        (302, "text/html", ""),
        (500, PROBLEM, "oops"),
    ] {
        let fake = Fake::http(&["POST /v1/spend "], status, kind, body);
        let ran = ask(&fake.url(), &["L", "a"]);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{body}");
        let expected = format!("is no Ratekeeper server of this version: /v1/spend got {status}");
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
        fake.finish();
    }
    let fake = Fake::stream(vec![Step::Request(vec![]), Step::Send(b"220 smtp ready\r\n")]);
    assert_eq!(ask(&fake.url(), &["L", "a"]).code, Some(3));
    fake.finish();
    let fake = Fake::stream(vec![Step::Wait]);
    let ran = ask(&fake.url(), &["--timeout", "50ms", "L", "a"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("did not answer within 50ms"), "{}", ran.stderr);
    fake.finish();
}

#[test]
fn a_server_that_is_starting_is_not_there_yet() {
    let problem = r#"{"title":"Not ready","status":503,"detail":"the server is starting"}"#;
    let fake = Fake::http(&[], 503, PROBLEM, problem);
    let ran = ask(&fake.url(), &["L", "a"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(3), "error: the server is starting\n"));
    fake.finish();
}

#[test]
fn a_server_that_cannot_keep_things_was_reached() {
    let problem =
        json!({"title": "Not kept", "status": 507, "detail": "the disk is full\u{1b}[2J\nsee"});
    let fake = Fake::http(&[], 507, PROBLEM, &problem.to_string());
    let ran = ask(&fake.url(), &["L", "a"]);
    let expected = (Some(2), "error: the disk is full\\u{1b}[2J\nsee\n");
    assert_eq!((ran.code, &*ran.stderr), expected);
    fake.finish();
}

#[test]
fn wrong_addresses_are_usage_mistakes() {
    for url in ["localhost:8080", "ftp://x", "http://u:p@x", "http://x/#a"] {
        let ran = ask(url, &["L", "a"]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{url}");
        assert!(ran.stderr.contains("--url"), "{}", ran.stderr);
    }
}

#[test]
fn the_address_in_the_environment_does_not_change_the_other_commands() {
    let mut command = command(&["ask", "offline", "LoginsPerUser", "ada"]);
    let ran =
        command.env("RATEKEEPER_URL", "http://x").env("RATEKEEPER_TOKEN", "t").output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}
