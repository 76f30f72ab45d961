//! The recorded sequences hold for the oracle.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper_testkit::oracle::{Answer, Bucket};
use ratekeeper_testkit::terms::Terms;
use serde_json::Value;

const GCRA: &str = include_str!("../gcra.json");

fn number(step: &Value, field: &str) -> u64 {
    step[field].as_u64().unwrap_or_else(|| panic!("{field} in {step}"))
}

fn terms(step: &Value) -> Terms {
    let [burst, count, period_ns] = ["burst", "count", "period_ns"].map(|f| number(step, f));
    Terms { burst, count, period_ns }
}

/// The file writes `tat_in_ns = now` where the bucket is absent; one that is older is full too.
fn before(step: &Value) -> Bucket {
    let tat = number(step, "tat_in_ns");
    if tat == number(step, "now_ns") {
        Bucket::new(terms(step))
    } else {
        Bucket::with_tat(terms(step), tat)
    }
}

fn expected(step: &Value) -> Answer {
    Answer {
        allowed: step["allowed"].as_bool().unwrap(),
        remaining: number(step, "remaining"),
        retry_in: number(step, "retry_in").into(),
        reset_in: number(step, "reset_in").into(),
    }
}

fn holds(name: &str, step: &Value) {
    let mut bucket = before(step);
    let (cost, now) = (number(step, "cost"), number(step, "now_ns"));
    let op = step["op"].as_str().unwrap();
    let observed = match op {
        "spend" => bucket.spend(cost, now),
        "check" => bucket.check(cost, now),
        "refund" => bucket.refund(cost, now),
        other => panic!("unknown op {other}"),
    };
    assert_eq!(observed, Ok(expected(step)), "{name}: {step}");
    let stores = op != "check" && cost > 0 && expected(step).allowed;
    let new_tat = u128::from(number(step, "new_tat")) * u128::from(terms(step).count);
    let tat = if stores { Some(new_tat.into()) } else { before(step).tat().cloned() };
    assert_eq!(bucket.tat(), tat.as_ref(), "{name}: {step}");
}

#[test]
fn every_recorded_sequence_holds() {
    let file: Value = serde_json::from_str(GCRA).unwrap();
    let mut steps = 0;
    for sequence in file["sequences"].as_array().unwrap() {
        for step in sequence["steps"].as_array().unwrap() {
            holds(sequence["name"].as_str().unwrap(), step);
            steps += 1;
        }
    }
    assert_eq!(steps, 74);
}

#[test]
fn a_stored_time_of_now_answers_like_an_absent_bucket() {
    let terms = Terms { burst: 10, count: 3, period_ns: 1_000 };
    let (mut stored, mut absent) = (Bucket::with_tat(terms, 77), Bucket::new(terms));
    assert_eq!(stored.refund(1, 77), absent.refund(1, 77));
    assert_eq!(stored.spend(4, 77), absent.spend(4, 77));
    assert_eq!(stored.tat(), absent.tat());
}
