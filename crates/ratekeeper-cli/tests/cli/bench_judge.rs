//! `ratekeeper bench .. --judge`: servers that decide as they should, and some that do not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use crate::program::{Ran, file, run};
use crate::server::Server;

/// More is asked than passes, by several at once.
const SHORT: [&str; 10] = [
    "--for",
    "300ms",
    "--warm-up",
    "100ms",
    "--timeout",
    "20s",
    "--connections",
    "4",
    "--format",
    "json",
];

const LIMITS: &str = "
Few: {burst: 5, count: 50, period: 1s}
Slow: {burst: 3, count: 1, period: 1h}
";
const RULES: &str = "
rules:
  - { match: '^strict ', limit: 9, period: 1, strict: true }
  - { match: '^leaky ', limit: 9, period: 1 }
  - { match: '^named (.*)$', use: Few }
";

fn judge(door: &str, address: &impl ToString, args: &[&str]) -> (Ran, Value) {
    let address = address.to_string();
    let ran = run(&[&["bench", door, "--server", &address], &SHORT[..], args].concat());
    let [report] = &ran.json()[..] else { panic!("one line: {} {}", ran.stdout, ran.stderr) };
    let report = report.clone();
    (ran, report)
}

/// Nothing was found, though there was something to be found.
fn assert_innocent(door: &str, address: &impl ToString, args: &[&str], keys: u64) {
    let (ran, report) = judge(door, address, args);
    let judgement = &report["judgement"];
    assert_eq!(ran.code, Some(0), "{door} {args:?}: {judgement}");
    for field in ["over_admissions", "wrong_denials", "unjudged", "errors", "unanswered"] {
        assert_eq!(judgement[field], 0, "{door} {args:?}: {field} of {judgement}");
    }
    assert_eq!(judgement["keys"], keys, "{judgement}");
    assert!(judgement["decisions"].as_u64() >= report["requests"].as_u64(), "{report}");
    assert!(report["denied"].as_u64() > Some(0), "{door} {args:?}: {report}");
    assert!(judgement["deviation"][0]["granted"].as_u64() > Some(0), "{judgement}");
}

#[test]
fn every_door_decides_as_it_should() {
    let (limits, rules) = (file("judge-limits.yaml", LIMITS), file("judge-rules.yaml", RULES));
    let overrides = file("judge-over.yaml", "Few:user1: {burst: 1, count: 20, period: 1s}");
    let buckets = file("judge-buckets.conf", "one 40 5\n");
    let files = ["--limits", &limits, "--overrides", &overrides];
    let more = ["--rules", &rules, "--buckets", &buckets];
    let server = Server::start(&[&files[..], &more[..]].concat());
    let address = |door: &str| server.address(door);
    let by_limits = ["--keys", "3", "--judge", &limits, "--judge-overrides", &overrides];
    let with = |args: &[&'static str]| [&by_limits[..], args].concat();

    assert_innocent("http", &address("http"), &with(&["--limit", "Few"]), 3);
    assert_innocent("bucket", &address("bucket"), &with(&["--name", "Few:b{key}"]), 3);
    let throttle = with(&["--command", "throttle", "--limit", "Few", "--key", "r{key}"]);
    assert_innocent("resp", &address("resp"), &throttle, 3);
    let carried = [
        "--burst", "4", "--count", "60", "--period", "1s", "--depth", "4", "--keys", "2", "--judge",
    ];
    assert_innocent("resp", &address("resp"), &carried, 2);
    let one = ["--name", "one", "--keys", "1", "--judge", &buckets];
    assert_innocent("bucket", &address("bucket"), &one, 1);
    let quota = ["--quota", "20", "--ttl", "100ms", "--keys", "2", "--judge"];
    assert_innocent("throttr", &address("throttr"), &quota, 2);
    for key in ["strict {key}", "leaky {key}", "named u{key}"] {
        let by_rules = ["--judge", &rules, "--judge-limits", &limits, "--keys", "2", "--key", key];
        assert_innocent("udp", &address("udp"), &by_rules, 2);
    }
    assert!(server.stop().success());
}

/// A token-bucket server that always answers the same.
fn always(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(|| answer_all(stream.unwrap(), answer));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for _line in lines.map_while(Result::ok) {
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn a_server_that_allows_too_much_is_caught() {
    let buckets = file("judge-liar.conf", "a 100 20\n");
    let args = ["--name", "a", "--keys", "1", "--judge", &buckets];
    let (ran, report) = judge("bucket", &always(b"1\n"), &args);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let judgement = &report["judgement"];
    let all = judgement["decisions"].as_u64().unwrap();
    // Half a second has 50 tokens, and the bucket 20.
    assert!(all > 200 && judgement["over_admissions"].as_u64().unwrap() > all - 150, "{judgement}");
    assert_eq!(judgement["wrong_denials"], 0);
    let first = &judgement["first_over_admissions"][0];
    assert_eq!(first["key"], "a", "{judgement}");
    assert!(first["why"].as_str().unwrap().contains(" were allowed within 0.0"), "{first}");
    assert!(judgement["deviation"][0]["percent"].as_f64().unwrap() > 100.0);
}

#[test]
fn a_server_that_denies_what_it_has_is_caught_and_people_are_told() {
    let buckets = file("judge-miser.conf", "a 100 20\n");
    let address = always(b"0\n");
    let args = ["--name", "a", "--keys", "1", "--judge", &buckets, "--for", "200ms"];
    let first = ["bench", "bucket", "--server", &address, "--timeout", "20s", "--warm-up", "0s"];
    let ran = run(&[&first[..], &args[..]].concat());
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let parts = [
        "over      0 definite over-admissions",
        " wrong denials\n          a, 0.0",
        "tokens were there, of which it asked for 1",
        "|       name |       time |    granted |       rate |       goal |      dev % |",
    ];
    for part in parts {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn files_that_do_not_fit_are_told_before_anybody_is_asked() {
    let limits = file("judge-wrong.yaml", LIMITS);
    let shadow = "S: {burst: 1, count: 1, period: 1s, shadow: true}";
    let shadow = file("judge-shadow.yaml", shadow);
    let rules = file("judge-shadow-rules.yaml", "rules: [{match: '^s (.*)$', use: S}]");
    let udp = ["udp", "--judge", &rules, "--judge-limits", &shadow, "--key", "s {key}"];
    // One of the buckets that a server begins with has to give way, and the others stay.
    let taken = "
bucketa: {burst: 1, count: 1, period: 1s}
Typed: {id: ipAddress, burst: 1, count: 1, period: 1s}
";
    let taken = file("judge-taken.yaml", taken);
    let bucket =
        |name| ["bucket", "--judge", &taken, "--keys", "1", "--cost", "101", "--name", name];
    let wrong: [(&[&str], &str); 12] = [
        (&udp, "is in shadow"),
        (&bucket("bucketb"), "bucketb cannot be judged: the cost is more than a bucket"),
        (&bucket("Typed"), "`*` is no id of `Typed`"),
        (&["http", "--judge", "nowhere.yaml"], "reading the limits from nowhere.yaml"),
        (&["http", "--judge", &limits], "no limit called `LoginsPerUser`"),
        (&["http", "--judge", &limits, "--limit", "Few", "--cost", "6"], "more than a bucket"),
        (&["http", "--judge", &limits, "--limit", "Few", "--cost", "0"], "takes nothing"),
        (&["http", "--judge", &shadow, "--limit", "S"], "is in shadow"),
        (&["throttr", "--judge", &limits], "say --judge without a file"),
        (&["resp", "--judge", &limits], "say --judge without a file"),
        (&["resp", "--command", "get", "--judge"], "nobody knows how it decides"),
        (&["udp", "--judge", &limits], "judge-wrong.yaml:"),
    ];
    for (args, words) in wrong {
        let ran = run(&[&["bench"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}
