//! `ratekeeper replay limits`: what it answers.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{command, file, line, replay, run, run_with};

const SECOND: u64 = 1_000_000_000;
const REPLAY: [&str; 4] = ["replay", "limits", "--limits", "examples/limits.yaml"];

#[test]
fn the_keys_come_in_their_order() {
    let input = r#"{"at":0,"op":"spend","limit":"NewOrdersPerAccount","id":"12345678","cost":1}"#;
    let ran = run_with(&REPLAY, input.as_bytes());
    let expected = concat!(
        r#"{"allowed":true,"shadow":false,"remaining":299,"retry_in":0,"retry_in_ns":0,"#,
        r#""reset_in":36,"reset_in_ns":36000000000,"limit":{"name":"NewOrdersPerAccount","#,
        r#""burst":300,"count":300,"period":10800,"period_ns":10800000000000,"shadow":false},"#,
        r#""id":"12345678","bucket":"6:12345678"}"#,
        "\n"
    );
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""));
}

#[test]
fn no_line_in_gives_no_line_out() {
    let ran = run(&REPLAY);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "", ""));
}

#[test]
fn bad_files_end_it_before_it_begins() {
    let limits = file("replay-bad.yaml", "A: {burst: 0, count: 1, period: 1s}");
    for limits in [&limits, "no/such.yaml"] {
        let ran = run_with(&["replay", "limits", "--limits", limits], b"{}\n");
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
        assert!(ran.stderr.contains(limits), "{}", ran.stderr);
    }
}

#[test]
fn an_id_may_be_a_number_and_is_told_in_its_one_spelling() {
    let limits = file(
        "replay-ids.yaml",
        "
NewOrdersPerAccount: {burst: 3, count: 3, period: 3s}
NewRegistrationsPerIPAddress: {burst: 3, count: 3, period: 3s}
Mine: {burst: 3, count: 3, period: 3s}
",
    );
    let ask = |limit, id: Value| json!({"at": 0, "op": "spend", "limit": limit, "id": id});
    let asks = [
        (ask("NewOrdersPerAccount", json!("7")), "7", "6:7", 2),
        (ask("NewOrdersPerAccount", json!(7)), "7", "6:7", 1),
        (
            ask("NewRegistrationsPerIPAddress", json!("2001:DB8:0::1")),
            "2001:db8::1",
            "4:2001:db8::1",
            2,
        ),
        (
            ask("NewRegistrationsPerIPAddress", json!("2001:db8::1")),
            "2001:db8::1",
            "4:2001:db8::1",
            1,
        ),
        (ask("Mine", json!("a\"b\\\u{1}é")), "a\"b\\\u{1}é", "Mine:a\"b\\\u{1}é", 2),
        (ask("Mine", json!(-4)), "-4", "Mine:-4", 2),
    ];
    let lines: Vec<_> = asks.iter().map(|(ask, ..)| ask.to_string()).collect();
    for (answer, (_, id, bucket, remaining)) in replay(&limits, &lines).iter().zip(&asks) {
        let told = (&answer["id"], &answer["bucket"], &answer["remaining"]);
        assert_eq!(told, (&json!(id), &json!(bucket), &json!(remaining)));
    }
    // Longer than any number that a computer counts with.
    let input = r#"{"at":0,"op":"check","limit":"Mine","id":123456789012345678901234567890}"#;
    let answer = &replay(&limits, &[input.to_owned()])[0];
    assert_eq!(answer["id"], json!("123456789012345678901234567890"));
}

#[test]
fn waits_longer_than_64_bits_are_exact() {
    let limits = file("replay-wide.yaml", "A: {burst: 4294967296, count: 1, period: 36500d}");
    let input = line(0, "spend", "A", 4_294_967_296);
    let ran = run_with(&["replay", "limits", "--limits", &limits], input.as_bytes());
    let nanos = u128::from(36_500 * 86_400 * SECOND) * 4_294_967_296;
    assert!(nanos > u64::MAX.into());
    let waits = format!("\"retry_in_ns\":{nanos},\"reset_in\":{},", nanos / u128::from(SECOND));
    assert!(ran.stdout.contains(&waits), "{}", ran.stdout);
}

#[test]
fn a_refund_says_whether_anything_was_given_back_and_a_reset_fills() {
    let limits = file("replay-refund.yaml", "A: {burst: 5, count: 5, period: 5s}");
    let lines = [
        line(0, "refund", "A", 1),
        line(0, "spend", "A", 4),
        line(0, "refund", "A", 3),
        line(0, "check", "A", 1),
        line(0, "reset", "A", 1),
        line(0, "reset", "A", 1),
    ];
    let told: Vec<_> = replay(&limits, &lines)
        .iter()
        .map(|answer| (answer["allowed"].as_bool().unwrap(), answer["remaining"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [(false, 5), (true, 1), (true, 4), (true, 3), (true, 5), (true, 5)]);
}

#[test]
fn a_cost_left_out_is_one() {
    let limits = file("replay-cost.yaml", "A: {burst: 5, count: 5, period: 5s}");
    let spend = r#"{"at":0,"op":"spend","limit":"A","id":"x"}"#;
    let transaction = r#"{"at":0,"op":"transaction","asks":[{"limit":"A","id":"x"}]}"#;
    let answers = replay(&limits, &[spend.to_owned(), transaction.to_owned()]);
    assert_eq!((&answers[0]["remaining"], &answers[1]["remaining"]), (&json!(4), &json!(3)));
}

#[test]
fn time_may_step_backwards() {
    let limits = file("replay-back.yaml", "A: {burst: 2, count: 1, period: 1s}");
    let lines = [
        line(10 * SECOND, "spend", "A", 1),
        line(9 * SECOND, "spend", "A", 1),
        line(10 * SECOND, "spend", "A", 1),
    ];
    let answers = replay(&limits, &lines);
    // At 9 s the bucket is full again in 2 s: there is no room for a third second.
    assert_eq!(
        (&answers[1]["allowed"], &answers[1]["retry_in_ns"]),
        (&json!(false), &json!(SECOND))
    );
    assert_eq!((&answers[2]["allowed"], &answers[2]["remaining"]), (&json!(true), &json!(0)));
}

#[test]
fn the_last_moment_is_a_moment() {
    let limits = file("replay-last.yaml", "A: {burst: 2, count: 1, period: 1s}");
    let last = (1 << 63) - 1;
    let answers = replay(&limits, &[line(last, "spend", "A", 1), line(last, "spend", "A", 1)]);
    assert_eq!((&answers[0]["remaining"], &answers[1]["remaining"]), (&json!(1), &json!(0)));
}

/// Whoever asks again as soon as it is told to gets exactly what the limit says, for an hour, and
/// every answer comes before the next question is asked.
#[test]
fn three_per_second_for_an_hour_is_three_and_10800() {
    let limits = file("replay-three.yaml", "A: {burst: 3, count: 3, period: 1s}");
    let args = ["replay", "limits", "--limits", &limits];
    let mut child = command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut now, mut admitted, mut answer) = (0, 0, String::new());
    while now <= 3600 * SECOND {
        writeln!(stdin, "{}", line(now, "spend", "A", 1)).unwrap();
        answer.clear();
        stdout.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        if answer["allowed"] == json!(true) {
            admitted += 1;
        }
        now += answer["retry_in_ns"].as_u64().unwrap();
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(admitted, 3 + 3 * 3600);
}

#[test]
fn nobody_is_told_when_the_reader_leaves() {
    let mut input = String::new();
    for at in 0..100_000 {
        writeln!(input, "{}", line(at, "spend", "LoginsPerUser", 1)).unwrap();
    }
    let mut command = command(&REPLAY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", line(0, "spend", "LoginsPerUser", 1)).unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    // It stops reading as well, so this may fail.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*words), (Some(0), ""));
}

#[test]
fn times_may_step_back_whatever_the_number_of_keys() {
    let limits = file("replay-back.yaml", "L: {burst: 1, count: 1, period: 1s}");
    let mut input = String::new();
    for (letter, at) in [('k', 10 * SECOND), ('j', 20 * SECOND), ('k', 10 * SECOND + 1)] {
        for n in 0..2_000 {
            let id = format!("{letter}{n}");
            let ask = json!({"at": at, "op": "spend", "limit": "L", "id": id});
            writeln!(input, "{ask}").unwrap();
        }
    }
    let ran = run_with(&["replay", "limits", "--limits", &limits], input.as_bytes());
    let allowed: Vec<_> = ran.json().iter().map(|it| it["allowed"] == true).collect();
    assert_eq!(allowed, [[true; 4_000].as_slice(), &[false; 2_000]].concat());
}
