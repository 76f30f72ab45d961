//! `ratekeeper replay limits`: limits that change on the way.

use serde_json::{Value, json};

use crate::program::{file, line, replay};

const HOUR: u64 = 3_600_000_000_000;

fn reload(at: u64, limits: &str) -> String {
    json!({"at": at, "op": "reload", "limits": limits}).to_string()
}

fn told(answer: &Value) -> (bool, u64) {
    (answer["allowed"].as_bool().unwrap(), answer["remaining"].as_u64().unwrap())
}

#[test]
fn raised_from_50_to_300_leaves_250() {
    let small = file("raise-50.yaml", "A: {burst: 50, count: 50, period: 3h}");
    let large = file("raise-300.yaml", "A: {burst: 300, count: 300, period: 3h}");
    let lines = [
        line(0, "spend", "A", 50),
        line(0, "spend", "A", 1),
        reload(0, &large),
        line(0, "check", "A", 0),
        line(0, "spend", "A", 250),
        line(0, "spend", "A", 1),
    ];
    let answers = replay(&small, &lines);
    assert_eq!((told(&answers[0]), told(&answers[1])), ((true, 0), (false, 0)));
    assert_eq!(answers[2], json!({"reloaded": true}));
    assert_eq!(told(&answers[3]), (true, 250));
    assert_eq!((told(&answers[4]), told(&answers[5])), ((true, 0), (false, 0)));
}

#[test]
fn lowered_from_300_to_50_is_empty_and_refills_at_the_new_rate() {
    let large = file("lower-300.yaml", "A: {burst: 300, count: 300, period: 3h}");
    let small = file("lower-50.yaml", "A: {burst: 50, count: 50, period: 3h}");
    let interval = 3 * HOUR / 50;
    let lines = [
        line(0, "spend", "A", 100),
        reload(0, &small),
        line(0, "check", "A", 0),
        line(0, "spend", "A", 1),
        line(interval - 1, "spend", "A", 1),
        line(interval, "check", "A", 0),
        line(interval, "spend", "A", 1),
        line(interval, "spend", "A", 1),
    ];
    let answers = replay(&large, &lines);
    assert_eq!(told(&answers[0]), (true, 200));
    assert_eq!(told(&answers[2]), (true, 0));
    assert_eq!((told(&answers[3]), &answers[3]["retry_in_ns"]), ((false, 0), &json!(interval)));
    assert_eq!((told(&answers[4]), &answers[4]["retry_in_ns"]), ((false, 0), &json!(1)));
    assert_eq!(told(&answers[5]), (true, 1));
    assert_eq!((told(&answers[6]), told(&answers[7])), ((true, 0), (false, 0)));
}

#[test]
fn an_override_that_comes_keeps_what_was_spent() {
    let limits = file("over.yaml", "A: {burst: 10, count: 10, period: 10s}");
    let overrides = file("over-o.yaml", "A:x: {burst: 100, count: 100, period: 10s}");
    let lines = [
        line(0, "spend", "A", 10),
        json!({"at": 0, "op": "reload", "limits": limits, "overrides": overrides}).to_string(),
        line(0, "check", "A", 0),
        reload(0, &limits),
        line(0, "check", "A", 0),
    ];
    let answers = replay(&limits, &lines);
    assert_eq!((told(&answers[2]), told(&answers[4])), ((true, 90), (true, 0)));
}

#[test]
fn overrides_that_are_null_are_none() {
    let limits = file("null.yaml", "A: {burst: 10, count: 10, period: 10s}");
    let overrides = file("null-o.yaml", "A:x: {burst: 100, count: 100, period: 10s}");
    let reload = |limits: Value, overrides: Value| {
        json!({"at": 0, "op": "reload", "limits": limits, "overrides": overrides}).to_string()
    };
    let lines = [
        reload(json!(limits), json!(overrides)),
        line(0, "check", "A", 0),
        reload(json!(limits), Value::Null),
        line(0, "check", "A", 0),
        reload(Value::Null, Value::Null),
        reload(json!(limits), json!(false)),
        r#"{"at":0,"op":"spend","limit":"A","id":"x","overrides":null}"#.to_owned(),
    ];
    let answers = replay(&limits, &lines);
    assert_eq!((told(&answers[1]), told(&answers[3])), ((true, 100), (true, 10)));
    assert_eq!(answers[2], json!({"reloaded": true}));
    let errors = [
        "`limits` is null: expected a string",
        "`overrides` is false: expected a string",
        "`overrides` does not belong to `spend`: leave it out",
    ];
    for (answer, error) in answers[4..].iter().zip(errors) {
        assert_eq!(answer, &json!({"error": error}));
    }
}

#[test]
fn a_bad_file_never_replaces_a_good_one() {
    let good = file("reload-good.yaml", "A: {burst: 10, count: 10, period: 10s}");
    let bad = file("reload-bad.yaml", "A: {burst: 0, count: 10, period: 10}");
    let lines = [
        line(0, "spend", "A", 4),
        reload(0, &bad),
        reload(0, "no/such.yaml"),
        line(0, "spend", "A", 4),
    ];
    let answers = replay(&good, &lines);
    let error = |answer: &Value| answer["error"].as_str().unwrap().to_owned();
    for part in ["reload-bad.yaml:1:12: burst is zero", "reload-bad.yaml:1:34: period has no unit"]
    {
        assert!(error(&answers[1]).contains(part), "{part} in {}", answers[1]);
    }
    assert!(error(&answers[2]).starts_with("reading the limits from no/such.yaml: No such file"));
    assert_eq!(told(&answers[3]), (true, 2));
}
