//! `ratekeeper override`, `stats` and `top` against a real server: what one command writes, the
//! others read.

use serde_json::json;

use crate::program::{Ran, command, file, run};
use crate::server::Server;

const TOKENS: &str = "ops admin 0123456789abcdef-ops; eve read 0123456789abcdef-eve";

fn at(server: &Server, args: &[&str]) -> Ran {
    run(&[args, &["--url", &server.url()]].concat())
}

fn more(id: &str) -> Vec<&str> {
    let terms = ["--burst", "50", "--count", "10", "--period", "60s", "--why", "moves house"];
    [&["override", "add", "LoginsPerUser", id], &terms[..]].concat()
}

#[test]
fn an_override_is_made_shown_exported_removed_and_imported_again() {
    let server = Server::start(&[]);
    let dry = at(&server, &[&more("ada")[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert!(dry.stderr.contains("nothing has changed"), "{}", dry.stderr);
    assert_eq!(at(&server, &["override", "list"]).stdout, "no overrides\n");
    let made = at(&server, &more("ada"));
    assert_eq!((made.code, &made.stdout), (Some(0), &dry.stdout));
    assert!(made.stdout.contains("10 per 1m, burst 50"), "{}", made.stdout);
    assert!(made.stderr.starts_with("warning: the server has no state directory"));
    let asked = at(&server, &["ask", "LoginsPerUser", "ada"]);
    assert_eq!((asked.code, &*asked.stdout), (Some(0), "1  allowed  49 left, full again in 6s\n"));
    let listed = at(&server, &["override", "list", "--limit", "LoginsPerUser"]);
    assert!(
        listed.stdout.contains("LoginsPerUser  ada  10 per 1m, burst 50  run time"),
        "{}",
        listed.stdout
    );
    let exported = at(&server, &["override", "export"]);
    let removed =
        at(&server, &["override", "remove", "LoginsPerUser", "ada", "--why", "has moved"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(at(&server, &["override", "list"]).stdout, "no overrides\n");
    let path = file("exported-live.json", &exported.stdout);
    let imported = at(&server, &["override", "import", &path]);
    assert_eq!((imported.code, &imported.stdout), (Some(0), &made.stdout), "{}", imported.stderr);
    assert_eq!(at(&server, &["override", "export"]).stdout, exported.stdout);
    assert!(server.stop().success());
}

#[test]
fn an_overrides_file_is_imported_all_or_nothing() {
    let server = Server::start(&[]);
    let path = file(
        "import-live.yaml",
        "- LoginsPerUser:\n    burst: 50\n    count: 50\n    period: 1m\n    ids:\n      \
         - {id: ada, comment: moves}\n      - {id: grace}\n",
    );
    let refused = at(&server, &["override", "import", &path]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("nobody says why for LoginsPerUser:grace"),
        "{}",
        refused.stderr
    );
    let done = at(&server, &["override", "import", &path, "--why", "a test"]);
    assert_eq!((done.code, done.stdout.lines().count()), (Some(0), 2), "{}", done.stderr);
    let listed = at(&server, &["override", "list", "--format", "json"]).json();
    let reasons: Vec<_> = listed.iter().map(|it| it["why"].clone()).collect();
    assert_eq!(reasons, [json!("moves"), json!("a test")]);
    // One of them is lower than before, so none is made.
    let lower = file(
        "import-lower.yaml",
        "LoginsPerUser:x: {burst: 60, count: 60, period: 1m}\n\
         LoginsPerUser:ada: {burst: 6, count: 6, period: 1m}\n",
    );
    let refused = at(&server, &["override", "import", &lower, "--why", "y"]);
    assert_eq!((refused.code, &*refused.stdout), (Some(2), ""));
    assert!(refused.stderr.contains("--lower"), "{}", refused.stderr);
    assert_eq!(at(&server, &["override", "list", "--format", "json"]).json().len(), 2);
    let done = at(&server, &["override", "import", &lower, "--why", "y", "--lower"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("note: this allows less than before"), "{}", done.stderr);
    assert!(server.stop().success());
}

#[test]
fn mistakes_are_told_as_the_server_tells_them() {
    let server = Server::start(&[]);
    for (args, part) in [
        (&["remove", "LoginsPerUser", "ada", "--why", "x"][..], "has no override"),
        (&["remove", "LoginPerUser", "ada", "--why", "x"], "did you mean `LoginsPerUser`?"),
        (&["remove", "LoginsPerUser", "ada", "--why", " "], "say why"),
    ] {
        let ran = at(&server, &[&["override"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains(part), "{part:?} is not in {}", ran.stderr);
    }
    assert!(server.stop().success());
}

#[test]
fn tokens_say_who_may_change_and_who_may_only_read() {
    let mut serve = command(&["serve", "--memory", "16MiB", "--control", "off", "--udp", "off"]);
    serve.args(["--bucket", "off", "--throttr", "off", "--resp", "off", "--http", "127.0.0.1:0"]);
    let server = Server::start_command(
        {
            serve.env("RATEKEEPER_TOKENS", TOKENS);
            serve
        },
        1,
    );
    let with = |token: Option<&str>, args: &[&str]| {
        let mut command = command(&[args, &["--url", &server.url()]].concat());
        if let Some(token) = token {
            command.env("RATEKEEPER_TOKEN", token);
        }
        let ran = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
    };
    let ran = with(None, &["ask", "LoginsPerUser", "ada"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("give a token with RATEKEEPER_TOKEN"), "{}", ran.stderr);
    let ran = with(Some("0123456789abcdef-bad"), &["override", "list"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the token was sent"), "{}", ran.stderr);
    assert_eq!(with(Some("0123456789abcdef-eve"), &["override", "list"]).code, Some(0));
    assert_eq!(with(Some("0123456789abcdef-eve"), &["stats"]).code, Some(0));
    assert_eq!(with(Some("0123456789abcdef-eve"), &more("ada")).code, Some(2));
    let ran = with(Some("0123456789abcdef-ops"), &more("ada"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let listed = with(Some("0123456789abcdef-eve"), &["override", "list", "--format", "json"]);
    assert_eq!(listed.json()[0]["by"], "ops");
    server.logged("curl -H \"Authorization: Bearer $RATEKEEPER_TOKEN\" ");
    assert!(server.stop().success());
}

#[test]
fn a_tokens_text_is_never_an_argument() {
    let ran = run(&["serve", "--tokens", TOKENS]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("set RATEKEEPER_TOKENS"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("0123456789abcdef"), "{}", ran.stderr);
}

#[test]
fn an_explanation_and_the_live_view_come_from_a_real_server() {
    let server = Server::start(&[]);
    let ran = at(&server, &["ask", "LoginsPerUser", "ada", "--explain"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("\n\nLoginsPerUser for ada\n"), "{}", ran.stdout);
    let ran = at(&server, &["top", "--once"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    for part in ["  live", "LoginsPerUser", "ada", "allowed/s", "http"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in\n{}", ran.stdout);
    }
    assert!(server.stop().success());
}
