//! `ratekeeper ask offline`.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{command, file, run};
use crate::server::Server;

const LIMITS: &str = "examples/limits.yaml";
const OVERRIDES: &str = "examples/overrides.yaml";

#[test]
fn an_allowed_ask_says_what_is_left() {
    let ran = run(&["ask", "offline", "--limits", LIMITS, "NewOrdersPerAccount", "12345678"]);
    let expected = "1  allowed  299 left, full again in 36s\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
}

#[test]
fn a_denied_ask_says_when_to_come_back() {
    let ran = run(&["ask", "offline", "--limits", LIMITS, "LoginsPerUser", "ada", "--times", "6"]);
    let expected = "\
1  allowed  4 left, full again in 1m30s
2  allowed  3 left, full again in 3m
3  allowed  2 left, full again in 4m30s
4  allowed  1 left, full again in 6m
5  allowed  0 left, full again in 7m30s
6  denied   try again in 1m30s
5 allowed, 1 denied
";
    assert_eq!((ran.code, &*ran.stdout), (Some(1), expected));
}

#[test]
fn long_runs_are_cut_short() {
    let ran = run(&["ask", "offline", "NewOrdersPerAccount", "12345678", "--times", "301"]);
    let expected = "  1  allowed  299 left, full again in 36s
  2  allowed  298 left, full again in 1m12s
  3  allowed  297 left, full again in 1m48s
...
298  allowed  2 left, full again in 2h59m
299  allowed  1 left, full again in 3h
300  allowed  0 left, full again in 3h
301  denied   try again in 36s
300 allowed, 1 denied
";
    assert_eq!((ran.code, &*ran.stdout), (Some(1), expected));
}

#[test]
fn nothing_is_left_out_of_a_run_that_is_short_enough() {
    let ran = run(&["ask", "offline", "--limits", LIMITS, "LoginsPerUser", "ada", "--times", "21"]);
    assert!(ran.stdout.contains("\n 3  allowed  2 left, full again in 4m30s\n 4  allowed"));
    assert!(ran.stdout.contains("\n 8  denied   try again in 1m30s\n...\n19  denied"));
    assert!(ran.stdout.ends_with("\n5 allowed, 16 denied\n"), "{}", ran.stdout);
}

#[test]
fn time_passes_as_asked() {
    let args = ["ask", "offline", "--limits", LIMITS, "LoginsPerUser", "ada", "--cost", "5"];
    let ran = run(&[&args[..], &["--times", "3", "--every", "3m45s"]].concat());
    let expected = "\
1  at 0s        allowed  0 left, full again in 7m30s
2  at 3m45s     denied   try again in 3m45s
3  at 7m30s     allowed  0 left, full again in 7m30s
2 allowed, 1 denied
";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected));
}

#[test]
fn a_peek_finds_the_bucket_full() {
    let ran = run(&["ask", "offline", "--limits", LIMITS, "LoginsPerUser", "ada", "--cost", "0"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "1  allowed  5 left, full\n"));
}

#[test]
fn without_a_file_the_starter_limits_apply_and_it_is_said() {
    let ran = run(&["ask", "offline", "NewOrdersPerAccount", "12345678"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1));
    assert!(ran.stderr.starts_with("note: no --limits given"), "{}", ran.stderr);
}

#[test]
fn the_starter_limits_are_without_fault_or_hint() {
    let ran = run(&["check", "--limits", "crates/ratekeeper-server/src/starter/limits.yaml"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
}

#[test]
fn an_explanation_says_where_the_limit_is_written() {
    let files = ["ask", "offline", "--limits", LIMITS, "--overrides", OVERRIDES, "--explain"];
    // However the id is spelled.
    let ran = run(&[&files[..], &["NewOrdersPerAccount", "012345678"]].concat());
    assert_eq!(ran.code, Some(0));
    for part in ["\n\nNewOrdersPerAccount for 12345678\n", "6:12345678", OVERRIDES, LIMITS] {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
}

#[test]
fn mistakes_say_what_was_perhaps_meant() {
    let wrong: [(&[&str], &str); 5] = [
        (&["NewOrderPerAccount", "1"], "did you mean `NewOrdersPerAccount`?"),
        (&["NewOrdersPerAccount", "ada"], "`ada` is not an id of `NewOrdersPerAccount`"),
        (&["NewOrdersPerAccount", "1", "--cost", "301"], "its burst is 300"),
        (&["LoginsPerUser", "a", "--every", "10"], "it has no unit: write it like 10s"),
        (&["LoginsPerUser", "a", "--every", "70d", "--times", "9999"], "292 years"),
    ];
    for (args, expected) in wrong {
        let ran = run(&[&["ask", "offline", "--limits", LIMITS], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_file_with_faults_is_a_mistake() {
    let limits = file("ask-bad.yaml", "A: {burst: 0, count: 1, period: 1s}");
    let ran = run(&["ask", "offline", "--limits", &limits, "A", "x"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("burst is zero"), "{}", ran.stderr);
}

#[test]
fn programs_read_every_answer() {
    let args = ["ask", "offline", "--limits", LIMITS, "NewOrdersPerAccount", "7", "--cost", "300"];
    let ran = run(&[&args[..], &["--times", "2", "--format", "json", "--explain"]].concat());
    let lines: Vec<_> = ran.stdout.lines().collect();
    let expected = concat!(
        r#"{"allowed":true,"shadow":false,"remaining":0,"retry_in":10800,"#,
        r#""retry_in_ns":10800000000000,"reset_in":10800,"reset_in_ns":10800000000000,"#,
        r#""limit":{"name":"NewOrdersPerAccount","burst":300,"count":300,"period":10800,"#,
        r#""period_ns":10800000000000,"shadow":false},"id":"7","bucket":"6:7"}"#,
    );
    assert_eq!((ran.code, lines.len(), lines[0]), (Some(1), 3, expected));
    let [_, denied, explained] = &ran.json()[..] else { panic!("{}", ran.stdout) };
    assert_eq!(denied["allowed"], json!(false));
    let applies = &explained["explanation"]["applies"];
    assert_eq!(applies["terms"], json!("300 per 3h"));
    assert_eq!(applies["origin"], json!({"file": "examples/limits.yaml", "line": 7}));
}

#[test]
fn a_reader_who_leaves_does_not_change_the_verdict() {
    let args = ["ask", "offline", "--limits", LIMITS, "LoginsPerUser", "ada", "--format", "json"];
    let mut command = command(&[&args[..], &["--times", "10000"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*words), (Some(1), ""));
}

#[test]
fn naming_a_file_is_asking_without_a_server() {
    let trials: [&[&str]; 3] = [
        &["--limits", LIMITS, "LoginsPerUser", "ada", "--times", "6", "--every", "10s"],
        &["--limits", LIMITS, "--overrides", OVERRIDES, "NewOrdersPerAccount", "7", "--explain"],
        &["LoginsPerUser", "ada", "--cost", "9", "--limits", LIMITS],
    ];
    for args in trials {
        let named = run(&[&["ask"], args].concat());
        let offline = run(&[&["ask", "offline"], args].concat());
        assert_eq!(named.code, offline.code, "{args:?}: {}", named.stderr);
        assert_eq!((named.stdout, named.stderr), (offline.stdout, offline.stderr), "{args:?}");
    }
}

#[test]
fn a_file_wins_over_a_server_in_the_environment() {
    let mut command = command(&["ask", "--limits", LIMITS, "NewOrdersPerAccount", "12345678"]);
    let output = command.env("RATEKEEPER_URL", "http://127.0.0.1:9").output().unwrap();
    assert_eq!(output.stdout, b"1  allowed  299 left, full again in 36s\n");
}

#[test]
fn what_only_a_server_is_told_does_not_go_with_a_file() {
    let server: [&[&str]; 9] = [
        &["--check"],
        &["--refund"],
        &["--reset"],
        &["--url", "http://127.0.0.1:9"],
        &["--token-file", "t"],
        &["--ca", "c"],
        &["--cert", "c", "--key", "k"],
        &["--key", "k", "--cert", "c"],
        &["--timeout", "1s"],
    ];
    for args in server {
        let ran = run(&[&["ask", "--limits", LIMITS, "LoginsPerUser", "ada"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        for part in ["--limits", args[0]] {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    }
    let ran = run(&["ask", "LoginsPerUser", "ada", "--every", "10s"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("--limits <FILE>"), "{}", ran.stderr);
}

/// What programs read is the same, whoever decides.
#[test]
fn a_server_and_files_answer_in_one_vocabulary() {
    let server = Server::start(&["--limits", LIMITS]);
    let whom = ["LoginsPerUser", "ada", "--explain", "--format", "json"];
    let there = run(&[&["ask", "--url", &server.url()][..], &whom].concat()).json();
    let here = run(&[&["ask", "--limits", LIMITS][..], &whom].concat()).json();
    for field in
        ["allowed", "shadow", "remaining", "reset_in", "reset_in_ns", "limit", "id", "bucket"]
    {
        assert_eq!(here[0][field], there[0][field], "{field}");
    }
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (here, there) = (&here[1]["explanation"], &there[1]["explanation"]);
    assert_eq!(names(here), names(there));
    assert_eq!(
        (names(&here["applies"]), &here["applies"]),
        (names(&there["applies"]), &there["applies"])
    );
    let listed = server.get("/v1/limits/LoginsPerUser");
    let checked = run(&["check", LIMITS, "--format", "json"]).json();
    let checked = checked[0]["limits"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(checked, listed);
    assert!(server.stop().success());
}

#[test]
fn what_goes_wrong_is_told_to_programs_too() {
    let nobody = format!("http://{}", crate::fake::nowhere());
    let wrong: [(&[&str], i32, &str); 5] = [
        (&["ask", "--limits", LIMITS, "Nobody", "ada"], 2, "no limit is called `Nobody`"),
        (&["ask", "--url", &nobody, "A", "ada"], 3, "no server answers at"),
        (&["check", "--limits", "/nowhere.yaml"], 2, "reading the limits from /nowhere.yaml"),
        (&["stats", "--url", &nobody], 3, "no server answers at"),
        (&["ask", "--nonsense", "A", "ada"], 2, "unexpected argument"),
    ];
    for (args, code, part) in wrong {
        let ran = run(&[args, &["--format", "json"]].concat());
        let told = &ran.json()[0];
        assert_eq!((ran.code, &told["exit"]), (Some(code), &json!(code)), "{args:?}");
        assert!(told["error"].as_str().unwrap().contains(part), "{told}");
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
        assert_eq!(run(args).stdout, "", "people read it on standard error only");
    }
}

#[test]
fn a_cost_below_zero_says_the_way_out() {
    for args in [&["ask", "A", "x"][..], &["ask", "offline", "A", "x"]] {
        let ran = run(&[args, &["--cost", "-1"]].concat());
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains("`--refund --cost 1` gives tokens back"), "{}", ran.stderr);
    }
}

#[test]
fn people_read_two_units_at_most() {
    let limits = file("brief.yaml", "A: {burst: 1, count: 1, period: 4m59s812ms345us678ns}");
    let ran = run(&["ask", "--limits", &limits, "A", "x", "--times", "2", "--explain"]);
    for part in ["full again in 4m59.9s", "try again in 4m59.9s", "allowed in 4m59.9s"] {
        assert!(ran.stdout.contains(part), "{part:?} is not in {}", ran.stdout);
    }
}
