//! `ratekeeper replay udp|bucket|throttr|resp`: the recorded exchanges hold through the program.

use std::fmt::Write as _;

use serde_json::Value;

use crate::program::{Ran, file, run_with};

macro_rules! vectors {
    ($name:literal) => {
        include_str!(concat!("../../../ratekeeper-protocol/tests/vectors/", $name))
    };
}

/// The first two columns in; all three out.
fn holds_for_udp(name: &str, rule: &str, vectors: &str) {
    let rules = file(&format!("doors-{name}.yaml"), &format!("rules: [{{match: '.*', {rule}}}]"));
    let mut input = String::new();
    for row in vectors.lines() {
        let end = if row.starts_with('#') { row.len() } else { row.rfind('\t').unwrap() };
        writeln!(input, "{}", &row[..end]).unwrap();
    }
    let ran = run_with(&["replay", "udp", "--rules", &rules], input.as_bytes());
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    for (found, expected) in ran.stdout.lines().zip(vectors.lines()) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(ran.stdout.lines().count(), vectors.lines().count());
}

#[test]
fn recorded_rates_are_the_same_to_the_last_digit() {
    let strict = "limit: 22, period: 20, strict: true";
    holds_for_udp("burst", strict, vectors!("burst_strict_22_20.tsv"));
    holds_for_udp("backwards", strict, vectors!("clock_backwards.tsv"));
    holds_for_udp("leaky", "limit: 125, period: 10", vectors!("leaky_125_10.tsv"));
}

#[test]
fn rules_can_use_limits() {
    let rules = file("doors-use.yaml", "rules: [{match: '^login (.*)$', use: Logins}]");
    let limits = file("doors-use-limits.yaml", "Logins: {burst: 1, count: 1, period: 10s}");
    let input = b"0\tover_limit login ada\n1\tover_limit login ada\n10\tover_limit login ada\n";
    let ran = run_with(&["replay", "udp", "--rules", &rules, "--limits", &limits], input);
    let verdicts: Vec<_> = ran.stdout.lines().filter_map(|row| row.rsplit('\t').next()).collect();
    let verdicts: Vec<_> = verdicts.iter().map(|answer| &answer[..4]).collect();
    assert_eq!(verdicts, ["ok N", "ok Y", "ok N"], "{}", ran.stderr);
}

fn replay_bucket(name: &str, input: &str) -> Ran {
    let buckets = file(&format!("doors-{name}.conf"), "bucket_a 1\nbucket_b 100\n");
    run_with(&["replay", "bucket", "--buckets", &buckets], input.as_bytes())
}

/// All that was answered, as it is written, without what says that nothing was.
fn answers(ran: &Ran) -> String {
    let answers = ran.stdout.lines().map(|row| row.rsplit('\t').next().unwrap());
    answers.filter(|answer| *answer != "(none)").collect()
}

#[test]
fn recorded_lines_are_answered_the_same_however_they_are_cut() {
    let mut count = 0;
    for row in vectors!("token_bucket.tsv").lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<_> = row.split('\t').collect();
        let [request, expected, _] = columns[..] else { panic!("{row}") };
        let request = request.replace("<EOF>", "");
        let expected = expected.replace("(nothing)", "");
        let whole = replay_bucket("cut", &format!("0\t{request}\n"));
        assert_eq!((whole.code, answers(&whole)), (Some(0), expected.clone()), "{row}");
        let (mut cut, mut rest) = (String::new(), request.as_str());
        while !rest.is_empty() {
            // An escape is one byte.
            let length = match rest.as_bytes() {
                [b'\\', b'x', ..] => 4,
                [b'\\', ..] => 2,
                _ => 1,
            };
            writeln!(cut, "0\t{}", &rest[..length]).unwrap();
            rest = &rest[length..];
        }
        assert_eq!(answers(&replay_bucket("cut", &cut)), expected, "{row}, cut");
        count += 1;
    }
    assert!(count > 20);
}

#[test]
fn tokens_come_back_as_time_passes() {
    let ran =
        replay_bucket("time", "5\tget bucket_a\\n\n5.9\tget bucket_a\\n\n6\tget bucket_a\\n\n");
    assert_eq!(answers(&ran), r"1\n0\n1\n");
}

#[test]
fn after_the_end_nothing_is_answered() {
    let ran =
        replay_bucket("end", "0\tquit\\nget bucket_a\\n\n0\tget bucket_a\\n\n0\tget bucket_a\\n\n");
    let rest = "0\tget bucket_a\\n\t(none)\n0\tget bucket_a\\n\t(none)\n";
    assert_eq!(ran.stdout, format!("0\tquit\\nget bucket_a\\n\tBYE\\n\n{rest}"));
    assert_eq!((ran.code, ran.stderr.lines().count()), (Some(0), 1));
    let ran = replay_bucket("end", "0\tget bucket_a");
    assert_eq!(ran.stdout, "0\tget bucket_a\t(none)\n# the end of the connection\t1\\n\n");
}

/// Replays the steps of a recorded case, a millisecond apart, and returns what was answered.
fn replay_throttr(case: &Value) -> Vec<String> {
    let (mut millis, mut input) = (1_700_000_000_000_u64, String::new());
    for step in case["steps"].as_array().unwrap() {
        millis += step["sleep_ms"].as_u64().unwrap_or(1);
        if let Some(sent) = step["send"].as_str() {
            writeln!(input, "{}.{:03}\t{sent}", millis / 1_000, millis % 1_000).unwrap();
        }
    }
    let ran = run_with(&["replay", "throttr"], input.as_bytes());
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    ran.stdout.lines().map(|row| row.rsplit('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn recorded_quotas_are_the_same() {
    let file: Value = serde_json::from_str(vectors!("throttr.json")).unwrap();
    let cases = file["cases"].as_array().unwrap().iter();
    let mut count = 0;
    for case in cases.filter(|case| case["klass"] == "normative") {
        let steps = case["steps"].as_array().unwrap().iter();
        let answers = replay_throttr(case);
        for (step, answer) in steps.filter(|step| step["send"].is_string()).zip(answers) {
            let expected = step["recv"].as_str().unwrap();
            // How much of a lifetime is left depends on when the recording was made.
            let head = expected.len().min(20);
            assert_eq!(answer.len(), expected.len(), "{step}");
            assert_eq!(answer[..head], expected[..head], "{step}");
            if let Some(bounds) = step["ttl_bounds"].as_array() {
                let ttl = u64::from_str_radix(&answer[20..], 16).unwrap().swap_bytes();
                let [low, high] = [0, 1].map(|index| bounds[index].as_u64().unwrap());
                assert!((low..=high).contains(&ttl), "{ttl}: {step}");
            }
            count += 1;
        }
    }
    assert!(count > 30);
}

#[test]
fn strict_closes_and_named_limits_answer() {
    let ran = run_with(&["replay", "throttr", "--strict"], b"0\tff\n0\t0201016372\n");
    assert_eq!(ran.stdout, "0\tff\t(none)\n0\t0201016372\t(none)\n");
    let limits = file("doors-named.yaml", "r: {burst: 1, count: 1, period: 10s}");
    // An insert of one use of `r` by `c`, which brings a quota of 5 that a named limit ignores.
    let insert = "0105000000000000000100000000000000023c0000000000000001016372";
    let input = format!("0\t{insert}\n0\t{insert}\n");
    let args = ["replay", "throttr", "--named-limits", "--limits", &limits];
    let ran = run_with(&args, input.as_bytes());
    let allowed: Vec<_> =
        ran.stdout.lines().map(|row| &row.rsplit('\t').next().unwrap()[..2]).collect();
    assert_eq!(allowed, ["01", "00"], "{}", ran.stderr);
}

#[test]
fn clients_of_redis_are_answered_at_the_times_they_asked() {
    let limits = file("doors-resp.yaml", "Logins: {burst: 1, count: 1, period: 10s}");
    let input = b"0\tTHROTTLE Logins ada\\r\\n\n9.5\tTHROTTLE Logins ada\\r\\n\n10\tTHROTTLE Log\n\
        10\tins ada\\nCL.THROTTLE a 2 3 60\\nQUIT\\n\n11\tPING\\n\n";
    let ran = run_with(&["replay", "resp", "--limits", &limits], input);
    let expected = [
        r"*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10\r\n",
        r"*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n",
        "(none)",
        r"*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:20\r\n+OK\r\n",
        "(none)",
    ];
    let answers: Vec<_> = ran.stdout.lines().filter_map(|row| row.rsplit('\t').next()).collect();
    assert_eq!((ran.code, answers), (Some(0), expected.to_vec()), "{}", ran.stderr);
    assert!(ran.stderr.contains("the connection was closed"), "{}", ran.stderr);
}
