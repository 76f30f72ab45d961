//! Targets in one word, and what is made of their runs.

use super::*;
use crate::load::report_for_tests;

#[test]
fn a_target_is_a_command_line_of_its_own() {
    let contender = Contender::parse("resp --server :7000 --command 'INCR {key}' --depth 16");
    let Contender { target, step } = contender.unwrap();
    assert_eq!(target.server.to_string(), "127.0.0.1:7000");
    assert_eq!(target.door.to_string(), "INCR {key}");
    assert_eq!(step, Step { depth: 16, rate: None });
}

#[test]
fn what_is_said_for_both_together_cannot_be_said_for_one() {
    let wrong = [
        ("", "there is no word in it"),
        ("resp 'x", "the ' is never closed"),
        ("nobody", "unrecognized subcommand 'nobody'"),
        ("resp --for 2s", "unexpected argument '--for' found"),
        ("resp --format json", "unexpected argument '--format' found"),
        ("resp --chart x.svg", "unexpected argument '--chart' found"),
        ("resp --depth 1,2", "name one depth and at most one rate"),
        ("bucket --name same", "`get same` is the same for every key"),
    ];
    for (text, why) in wrong {
        let error = Contender::parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Runs with these rates, and with latencies that are a hundredth of them.
fn runs(rates: &[f64]) -> Vec<Report> {
    rates.iter().map(|rate| report_for_tests(*rate)).collect()
}

#[test]
fn a_ratio_is_made_of_the_two_runs_of_a_round() {
    // The machine was half as fast in the second round, for both; in the last only for A.
    let a = runs(&[200.0, 100.0, 200.0, 202.0, 50.0]);
    let b = runs(&[100.0, 50.0, 100.0, 100.0, 100.0]);
    let comparison = Comparison::of(&[a, b]);
    assert_eq!(comparison.rounds, 5);
    let rate = &comparison.metrics[0];
    assert_eq!((rate.name, rate.a.median, rate.b.median), ("rate", 200.0, 100.0));
    let expected = Spread { median: 2.0, lower: 2.0, upper: 2.0, min: 0.5, max: 2.02 };
    assert_eq!(rate.ratio, expected);
    let row = ["rate per second", "200", "100", "2.00", "2.00 to 2.00", "0.50 to 2.02"];
    assert_eq!(rate.row(), row);
}

#[test]
fn what_was_not_measured_is_not_compared() {
    let (a, mut b) = (runs(&[1.0, 2.0]), runs(&[1.0, 2.0]));
    let names = |a: &[Report], b: &[Report]| -> Vec<&str> {
        let comparison = Comparison::of(&[a.to_vec(), b.to_vec()]);
        comparison.metrics.iter().map(|metric| metric.name).collect()
    };
    assert_eq!(names(&a, &b), ["rate", "p50", "p99", "p99.9"]);
    let mut a = a;
    for report in a.iter_mut().chain(&mut b) {
        report.cpu_us_per_request = Some(4.0);
    }
    assert_eq!(names(&a, &b), ["rate", "p50", "p99", "p99.9", "cpu"]);
    b[1].cpu_us_per_request = None;
    assert_eq!(names(&a, &b), ["rate", "p50", "p99", "p99.9"]);
}
