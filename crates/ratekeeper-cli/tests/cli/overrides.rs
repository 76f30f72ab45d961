//! `ratekeeper override`, against servers that say what a test tells them to.

use serde_json::json;

use crate::fake::{Fake, Step, nowhere};
use crate::program::{Ran, file, run};
use crate::server::Server;

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
const TERMS: [&str; 8] =
    ["--burst", "600", "--count", "600", "--period", "180m", "--why", "moves house"];

fn change(change: &str, dry_run: bool, durable: bool) -> serde_json::Value {
    json!({
        "override": {}, "before": "300 per 3h", "after": "600 per 3h", "change": change,
        "lowers": false, "dry_run": dry_run, "durable": durable,
    })
}

fn at(fake: &Fake, args: &[&str]) -> Ran {
    run(&[&["override"], args, &["--url", &fake.url()]].concat())
}

#[test]
fn adding_says_what_changed() {
    let words = "LoginsPerUser:ada: 300 per 3h becomes 600 per 3h";
    let body = r#"{"burst":600,"count":600,"period":"3h","why":"moves house","lower":false}"#;
    let parts = ["PUT /v1/overrides/LoginsPerUser/ada HTTP", body];
    let fake = Fake::http(&parts, 200, JSON, &change(words, false, true).to_string());
    let ran = at(&fake, &[&["add", "LoginsPerUser", "ada"], &TERMS[..]].concat());
    assert_eq!((ran.code, ran.stdout, &*ran.stderr), (Some(0), format!("{words}\n"), ""));
    fake.finish();
}

#[test]
fn a_dry_run_an_end_and_a_server_that_forgets_are_told() {
    let args = ["--until", "2030-12-01T00:00:00Z", "--lower", "--dry-run"];
    let parts = ["/a%2Fb?dry_run=1 HTTP", r#""until":"2030-12-01T00:00:00Z","lower":true}"#];
    let fake = Fake::http(&parts, 200, JSON, &change("x", true, false).to_string());
    let ran = at(&fake, &[&["add", "L", "a/b"], &TERMS[..], &args].concat());
    assert_eq!((ran.code, &*ran.stderr), (Some(0), "note: a dry run: nothing has changed\n"));
    fake.finish();
    let answer = change("x", false, false).to_string();
    let fake = Fake::http(&[r#""until":"20"#], 200, JSON, &answer);
    let args = ["--until", "2h", "--format", "json"];
    let ran = at(&fake, &[&["add", "L", "a"], &TERMS[..], &args].concat());
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{answer}\n")));
    assert!(ran.stderr.starts_with("warning: the server has no state directory"), "{}", ran.stderr);
    fake.finish();
}

#[test]
fn lowering_is_refused_with_the_way_to_do_it() {
    let problem = json!({"type": "/api#would-lower", "title": "t", "status": 409,
        "detail": "it is lower", "field": "lower", "rule": "true, if it is meant"});
    let fake = Fake::http(&["PUT "], 409, PROBLEM, &problem.to_string());
    let ran = at(&fake, &[&["add", "L", "a"], &TERMS[..]].concat());
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    let expected = "error: it is lower\n  field: lower\n  expected: true, if it is meant\n  help: --lower says so\n";
    assert_eq!(ran.stderr, expected);
    fake.finish();
}

#[test]
fn removing_says_why() {
    let parts = ["DELETE /v1/overrides/L/a?why=has%20moved&dry_run=1 HTTP"];
    let fake = Fake::http(&parts, 200, JSON, &change("gone", true, true).to_string());
    let ran = at(&fake, &["remove", "L", "a", "--why", "has moved", "--dry-run"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "gone\n"));
    fake.finish();
}

fn listed(id: &str, source: &str) -> serde_json::Value {
    json!({"limit": "L", "id": id, "burst": 5, "count": 1, "period": 60, "period_ns": 60_000_000_000_u64,
        "terms": "1 per 1m, burst 5", "source": source, "why": "because", "by": "ops",
        "at": "2026-01-01T00:00:00Z", "until": null, "origin": null, "in_force": true})
}

fn two_pages() -> Fake {
    let mut written = listed("grace", "file");
    written["origin"] = json!({"file": "o.yaml", "line": 3});
    written["by"] = json!(null);
    written["in_force"] = json!(false);
    written["reason"] = json!("another applies");
    let first = json!({"overrides": [listed("ada", "run-time"), written], "next": "L:grace"});
    let second = json!({"overrides": [listed("x", "run-time")], "next": null});
    Fake::stream(vec![
        Step::Request(vec!["GET /v1/overrides".into()]),
        Step::Answer(200, JSON, first.to_string()),
        Step::Request(vec!["after=L%3Agrace HTTP".into()]),
        Step::Answer(200, JSON, second.to_string()),
    ])
}

#[test]
fn every_page_of_a_list_is_read() {
    let fake = two_pages();
    let ran = at(&fake, &["list"]);
    let expected = "\
limit  id     terms              from      until  by   why
L      ada    1 per 1m, burst 5  run time  -      ops  because
L      grace  1 per 1m, burst 5  o.yaml:3  -      -    because (not in force: another applies)
L      x      1 per 1m, burst 5  run time  -      ops  because
";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
    fake.finish();
    let fake = two_pages();
    let ran = at(&fake, &["list", "--limit", "L", "--format", "json"]);
    let ids: Vec<_> = ran.json().iter().map(|it| it["id"].clone()).collect();
    assert_eq!((ran.code, ids), (Some(0), vec![json!("ada"), json!("grace"), json!("x")]));
    fake.finish();
}

#[test]
fn what_is_exported_can_be_imported() {
    let fake = two_pages();
    let ran = at(&fake, &["export"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let one = |id| {
        format!(r#"{{"limit":"L","id":"{id}","burst":5,"count":1,"period":"1m","why":"because"}}"#)
    };
    // Those from files stay in files.
    assert_eq!(ran.stdout, format!("{{\"overrides\": [\n{},\n{}\n]}}\n", one("ada"), one("x")));
    fake.finish();
    let path = file("exported.json", &ran.stdout);
    let body = format!(r#"{{"overrides":[{},{}],"lower":true}}"#, one("ada"), one("x"));
    let answer = json!({"changes": [change("one", false, true), change("two", false, true)],
        "dry_run": false, "durable": true});
    let fake = Fake::http(&["PUT /v1/overrides HTTP", &body], 200, JSON, &answer.to_string());
    let ran = at(&fake, &["import", &path, "--lower"]);
    let expected = (Some(0), "one\ntwo\n", "2 overrides made\n");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), expected);
    fake.finish();
}

#[test]
fn an_overrides_file_is_imported_as_the_server_knows_its_limits() {
    let first =
        json!({"limits": [{"name": "b", "id_format": "any", "is_bucket": true}], "next": "a b"});
    let limits = json!({"limits": [{"name": "NewOrdersPerAccount", "id_format": "regId", "is_bucket": false}],
        "next": null});
    let path = file("import.yaml", "NewOrdersPerAccount:007: {burst: 2, count: 2, period: 1h}\n");
    let answer =
        json!({"changes": [change("one", true, false)], "dry_run": true, "durable": false});
    let expected = r#"{"limit":"NewOrdersPerAccount","id":"7","burst":2,"count":2,"period":"1h","why":"a move"}"#;
    let fake = Fake::stream(vec![
        Step::Request(vec!["GET /v1/limits HTTP".into()]),
        Step::Answer(200, JSON, first.to_string()),
        Step::Request(vec!["GET /v1/limits?after=a%20b HTTP".into()]),
        Step::Answer(200, JSON, limits.to_string()),
        Step::Request(vec!["PUT /v1/overrides?dry_run=1 HTTP".into(), expected.into()]),
        Step::Answer(200, JSON, answer.to_string()),
    ]);
    let ran = at(&fake, &["import", &path, "--why", "a move", "--dry-run"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "one\n"), "{}", ran.stderr);
    fake.finish();
    for (text, told) in [
        ("NewOrdersPerAccount:7: {burst: 2, count: 2, period: 1h}", "nobody says why"),
        ("NewOrdersPerAccount:ada: {burst: 2, count: 2, period: 1h}", "import-bad.yaml:1:21"),
        ("{\"overrides\": [{\"limit\": 5}]}", "reading the overrides from"),
    ] {
        let path = file("import-bad.yaml", text);
        let fake = Fake::http(&[], 200, JSON, &limits.to_string());
        let ran = at(&fake, &["import", &path]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{text}");
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
}

#[test]
fn a_file_that_is_too_long_for_the_server_is_told_with_the_ways_out() {
    let problem = json!({"title": "t", "status": 413, "detail": "the body is too long"});
    let path = file("import-long.json", r#"{"overrides": []}"#);
    let fake = Fake::http(&["PUT "], 413, PROBLEM, &problem.to_string());
    let ran = at(&fake, &["import", &path]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    let help = "raise --http-body-bytes on the server, or import the file in parts";
    assert_eq!(ran.stderr, format!("error: the body is too long\n  help: {help}\n"));
    fake.finish();
}

#[test]
fn nothing_is_said_to_be_done_if_it_is_not() {
    let url = format!("http://{}", nowhere());
    let path = file("import-nowhere.json", r#"{"overrides": []}"#);
    let remove = ["remove", "L", "a", "--why", "x"];
    let wrong: [&[&str]; 4] = [&["list"], &["export"], &remove, &["import", &path]];
    for args in wrong {
        let ran = run(&[&["override"], args, &["--url", &url]].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{args:?}");
        assert!(ran.stderr.contains("no server answers at"), "{}", ran.stderr);
    }
    for body in ["{}", "{\"overrides\": [{\"limit\": 1}], \"next\": null}", "<html>"] {
        let fake = Fake::http(&["GET /v1/overrides"], 200, JSON, body);
        let ran = at(&fake, &["list"]);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{body}");
        assert!(ran.stderr.contains("no Ratekeeper server of this version"), "{}", ran.stderr);
        fake.finish();
    }
}

#[test]
fn wrong_arguments_are_usage_mistakes() {
    let wrong: [&[&str]; 5] = [
        &["add", "L", "a", "--burst", "5"],
        &["add", "L", "a", "--burst", "5", "--count", "5", "--period", "5", "--why", "x"],
        &["remove", "L", "a"],
        &["import"],
        &["list", "--cert", "x"],
    ];
    for args in wrong {
        let ran = run(&[&["override"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
    }
    let ran = run(&[&["override", "add", "L", "a", "--until", "soon"], &TERMS[..]].concat());
    assert!(ran.stderr.contains("write it like 2h or 2040-12-01T00:00:00Z"), "{}", ran.stderr);
}

#[test]
fn a_limit_that_is_not_there_has_no_overrides_to_list() {
    let server = Server::start(&[]);
    let ran = run(&["override", "list", "--url", &server.url(), "--limit", "LoginPerUser"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("did you mean `LoginsPerUser`?"), "{}", ran.stderr);
    let ran = run(&["override", "list", "--url", &server.url(), "--limit", "LoginsPerUser"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "no overrides\n"));
    assert!(server.stop().success());
}
