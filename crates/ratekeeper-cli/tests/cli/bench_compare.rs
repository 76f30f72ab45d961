//! `ratekeeper bench compare`.

use crate::fake::nowhere;
use crate::program::{Ran, run};
use crate::server::Server;

const SHORT: [&str; 6] = ["--rounds", "3", "--for", "100ms", "--warm-up", "0s"];

fn compare(a: &str, b: &str, args: &[&str]) -> Ran {
    run(&[&["bench", "compare", a, b], &SHORT[..], args].concat())
}

/// The command line of a target at a real server.
fn target(server: &Server, door: &str, more: &str) -> String {
    let address = server.address(door);
    format!("{door} --server {address} --connections 2 --timeout 20s {more}")
}

#[test]
fn two_doors_are_measured_in_turns_and_their_ratios_told() {
    let server = Server::start(&[]);
    let a = target(&server, "bucket", "--name 'LoginsPerUser:a{key}' --depth 8");
    let b = target(&server, "throttr", "--rate 100");
    let ran = compare(&a, &b, &["--format", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let [told] = &ran.json()[..] else { panic!("one line: {}", ran.stdout) };
    assert_eq!((&told["rounds"], &told["a"]["target"]), (&3.into(), &"bucket".into()));
    assert_eq!(told["a"]["request"], "get LoginsPerUser:a{key}");
    let metrics = told["metrics"].as_array().unwrap();
    let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rate", "p50", "p99", "p99.9"]);
    for metric in metrics {
        let at = |name: &str| metric["ratio"][name].as_f64().unwrap();
        let ordered = ["min", "lower", "median", "upper", "max"].map(at);
        assert!(ordered.is_sorted() && ordered[0] > 0.0, "{metric}");
    }
    let ran = compare(&a, &b, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in ["A  bucket ", "B  throttr ", "A / B", "rate per second", "p99.9"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert_eq!(ran.stderr.lines().count(), 1, "no display where nobody looks: {}", ran.stderr);
}

#[test]
fn a_target_that_is_not_there_is_unreachable() {
    let server = Server::start(&[]);
    let there = target(&server, "bucket", "");
    let away = format!("bucket --server {}", nowhere());
    for (a, b) in [(&there, &away), (&away, &there)] {
        let ran = compare(a, b, &[]);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
        assert!(ran.stderr.contains("error: connecting to "), "{}", ran.stderr);
    }
}

#[test]
fn wrong_arguments_are_usage_mistakes() {
    let wrong: [&[&str]; 6] = [
        &["bucket"],
        &["bucket", "nobody"],
        &["bucket --for 1s", "bucket"],
        &["bucket --depth 1,2", "bucket"],
        &["bucket --name same", "bucket"],
        &["bucket", "bucket", "--rounds", "0"],
    ];
    for args in wrong {
        let ran = run(&[&["bench", "compare"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}
