//! Recorded data, through the arithmetic and through the limiter.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use ratekeeper::algorithm::average::{self, Average};
use ratekeeper::algorithm::gcra::{self, Rule, Tat, Verdict};
use ratekeeper::algorithm::quota::{Amend, Ask, Quota, Unit};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, MemoryStore, Question, Secret, Store};
use ratekeeper::{Decision, Limiter, Mode, Moment, Nanos, Request};
use serde_json::Value;

fn number(step: &Value, key: &str) -> u64 {
    step[key].as_u64().unwrap_or_else(|| panic!("{key} in {step}"))
}

fn limiter(text: &str) -> Limiter {
    let source = Source { name: "limits.yaml", text };
    Limiter::with_memory(Limits::parse(&source, None).unwrap(), MEMORY_MIN).unwrap()
}

#[test]
fn the_recorded_gcra_sequences_hold() {
    let data: Value = serde_json::from_str(include_str!("../vectors/gcra.json")).unwrap();
    let mut steps = 0;
    for sequence in data["sequences"].as_array().unwrap() {
        for step in sequence["steps"].as_array().unwrap() {
            check_gcra_step(step);
            steps += 1;
        }
    }
    assert_eq!(steps, 74);
}

fn check_gcra_step(step: &Value) {
    let period = Nanos::new(number(step, "period_ns").into());
    let rule = Rule::new(number(step, "burst"), number(step, "count"), period).unwrap();
    let (ticks, now) = (rule.emission_interval().1, Moment::from_nanos(number(step, "now_ns")));
    let tat = Tat::from_ticks(u128::from(number(step, "tat_in_ns")) * u128::from(ticks));
    let cost = number(step, "cost");
    let (after, outcome) = match step["op"].as_str().unwrap() {
        "refund" => gcra::refund(&rule, tat, cost, now),
        _ => gcra::spend(&rule, tat, cost, now),
    };
    assert_eq!(outcome.verdict == Verdict::Allow, step["allowed"].as_bool().unwrap(), "{step}");
    assert_eq!(outcome.remaining, number(step, "remaining"), "{step}");
    assert_eq!(outcome.retry_in.get(), number(step, "retry_in").into(), "{step}");
    assert_eq!(outcome.reset_in.get(), number(step, "reset_in").into(), "{step}");
    // A peek stores nothing; the recording shows what it would have been.
    if cost > 0 {
        let after = after.as_ticks() / u128::from(ticks);
        assert_eq!(after, u128::from(number(step, "new_tat")), "{step}");
    }
}

const BATCH_LIMITS: &str = "
D: {burst: 20, count: 20, period: 1s}
O: {burst: 40, count: 40, period: 1s}
";

fn ask(limit: &'static str, cost: u64, mode: Mode) -> Request<'static> {
    Request::new(limit, "64.112.117.1", cost).with_mode(mode)
}

#[test]
fn the_recorded_transactions_hold() {
    use Mode::{CheckAndSpend, CheckOnly, SpendOnly};
    let data: Value = serde_json::from_str(include_str!("../vectors/batch.json")).unwrap();
    let limiter = limiter(BATCH_LIMITS);
    let now = Moment::from_nanos(1_000_000_000);
    let mut steps = 0;
    for step in data["steps"].as_array().unwrap() {
        let both = |mode, cost| {
            let asks = [ask("O", 1, CheckAndSpend), ask("D", cost, mode)];
            Some(limiter.transaction(&asks, now).unwrap().decision)
        };
        let peek = |limit| Some(limiter.check(limit, "64.112.117.1", 0, now).unwrap());
        let text = step["do"].as_str().unwrap();
        let decision = match text.split(" (").next().unwrap() {
            "BatchSpend[O cs 1, D cs 1]" => both(CheckAndSpend, 1),
            "BatchSpend[O cs 1, D check-only 1]" => both(CheckOnly, 1),
            "BatchSpend[O cs 1, D spend-only 1]" => both(SpendOnly, 1),
            "BatchSpend[O cs 1, D spend-only 20]" => both(SpendOnly, 20),
            "BatchRefund[O 1, D 1]" => {
                let asks = [ask("O", 1, CheckAndSpend), ask("D", 1, CheckAndSpend)];
                Some(limiter.refund_all(&asks, now).unwrap().decision)
            }
            "Reset O, Reset D" => {
                let asks = [ask("O", 0, CheckAndSpend), ask("D", 0, CheckAndSpend)];
                let _ = limiter.reset_all(&asks, now).unwrap();
                None
            }
            "Check O cost 0" => peek("O"),
            "Check D cost 0" => peek("D"),
            other => panic!("unknown step {other}"),
        };
        if let Some(decision) = decision {
            check_batch_step(step, &decision);
        }
        steps += 1;
    }
    assert_eq!(steps, 13);
}

fn check_batch_step(step: &Value, decision: &Decision) {
    let nanos = |key| u128::from(number(step, key)) * 1_000_000;
    assert!(decision.allowed, "{step}");
    assert_eq!(decision.remaining, number(step, "remaining"), "{step}");
    assert_eq!(decision.retry_in.get(), nanos("retry_ms"), "{step}");
    assert_eq!(decision.reset_in.get(), nanos("reset_ms"), "{step}");
}

#[test]
fn denied_beats_allowed_and_the_other_is_not_debited() {
    let limiter =
        limiter("A: {burst: 2, count: 2, period: 1s}\nB: {burst: 2, count: 2, period: 1h}\n");
    let now = Moment::from_nanos(0);
    let _ = limiter.spend("A", "x", 2, now).unwrap();
    let _ = limiter.spend("B", "x", 1, now).unwrap();
    let asks = [Request::new("A", "x", 1), Request::new("B", "x", 1)];
    let merged = limiter.transaction(&asks, now).unwrap();
    assert!(!merged.decision.allowed);
    assert_eq!(merged.decided_by, 0);
    assert_eq!(limiter.check("B", "x", 0, now).unwrap().remaining, 1);
}

#[test]
fn the_recorded_averages_hold() {
    let recordings = [
        (include_str!("../vectors/burst_strict_22_20.tsv"), 22.0, 20.0, true, 45),
        (include_str!("../vectors/leaky_125_10.tsv"), 125.0, 10.0, false, 400),
        (include_str!("../vectors/clock_backwards.tsv"), 22.0, 20.0, true, 5),
    ];
    for (text, limit, period, strict, lines) in recordings {
        let rule = average::Rule::new(limit, period, strict).unwrap();
        let store = MemoryStore::<Average>::new(&Arc::new(()), MEMORY_MIN).unwrap();
        let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows.len(), lines);
        for row in rows {
            let [time, _, answer] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let bucket = Secret::new(1, 2).seal().fingerprint(b"dummy");
            let mut outcome = [average::Outcome::default()];
            let question = Question { bucket, ask: rule, joined: false };
            store.decide(&[question], &mut outcome, moment(time.parse().unwrap()));
            let over = if outcome[0].over { "Y" } else { "N" };
            let said = format!("ok {over} {:.1} {limit:.1} {period:.0}", outcome[0].rate);
            assert_eq!(said, answer, "at {time}");
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "recorded times fit")]
fn moment(secs: f64) -> Moment {
    let whole = secs.trunc();
    Moment::from_nanos(whole as u64 * 1_000_000_000 + ((secs - whole) * 1e9) as u64)
}

#[test]
fn the_recorded_quotas_hold() {
    let data: Value = serde_json::from_str(include_str!("../vectors/throttr.json")).unwrap();
    let mut exchanges = 0;
    for case in data["cases"].as_array().unwrap() {
        // The others cut or garble the stream, which is a matter of the protocol, or record what
        // the original got wrong.
        let is_arithmetic = matches!(
            case["name"].as_str().unwrap(),
            "insert_ttl_one_second_truncates"
                | "insert_ttl_zero"
                | "query_exhausted_can_is_1"
                | "update_invalid_attribute"
                | "update_invalid_change"
                | "empty_ids"
                | "one_empty_id"
        );
        if case["klass"] == "normative" || is_arithmetic {
            exchanges += check_quota_case(case);
        }
    }
    assert_eq!(exchanges, 65);
}

fn check_quota_case(case: &Value) -> usize {
    let store = MemoryStore::<Quota>::new(&Arc::new(()), MEMORY_MIN).unwrap();
    let mut now = Moment::from_nanos(5_000_000_000);
    let mut exchanges = 0;
    for step in case["steps"].as_array().unwrap() {
        now = now.after(Nanos::new(u128::from(step["sleep_ms"].as_u64().unwrap_or(0)) * 1_000_000));
        let sent = step["send"].as_str().map(bytes).unwrap_or_default();
        let Some((ids, ask)) = parse_request(&sent) else { continue };
        let bucket = Secret::new(1, 2).seal().fingerprint(&ids);
        let mut outcome = [ratekeeper::algorithm::quota::Outcome::default()];
        store.decide(&[Question { bucket, ask, joined: false }], &mut outcome, now);
        // A moment passes, as it did on the wire.
        now = now.after(Nanos::new(1_000));
        let recorded = bytes(step["recv"].as_str().unwrap());
        assert_eq!(u8::from(outcome[0].can), recorded[0], "{}: {step}", case["name"]);
        if recorded.len() == 18 {
            check_state(case, step, &recorded, outcome[0]);
        }
        exchanges += 1;
    }
    exchanges
}

fn check_state(
    case: &Value,
    step: &Value,
    recorded: &[u8],
    outcome: ratekeeper::algorithm::quota::Outcome,
) {
    let remaining = u64::from_le_bytes(recorded[1..9].try_into().unwrap());
    assert_eq!(outcome.remaining, remaining, "{}: {step}", case["name"]);
    assert_eq!(outcome.unit, unit(recorded[9]), "{}: {step}", case["name"]);
    if let Some(bounds) = step["ttl_bounds"].as_array() {
        let (low, high) = (bounds[0].as_u64().unwrap(), bounds[1].as_u64().unwrap());
        assert!((low..=high).contains(&outcome.ttl), "{}: {step}: {outcome:?}", case["name"]);
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn unit(code: u8) -> Unit {
    match code {
        0 => Unit::Nanoseconds,
        1 => Unit::Milliseconds,
        _ => Unit::Seconds,
    }
}

/// Just enough of the wire format to read the recordings.
fn parse_request(bytes: &[u8]) -> Option<(Vec<u8>, Ask)> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (header, ask) = match bytes.first()? {
        1 => {
            let (quota, usage, ttl) = (long(1), long(9), long(18));
            (28, Ask::Insert { quota, usage, ttl, unit: unit(bytes[17]) })
        }
        2 => (3, Ask::Query),
        3 => (13, parse_update(bytes[1], bytes[2], long(3))),
        4 => (3, Ask::Purge),
        _ => return None,
    };
    // The length of the first id keeps ("ab", "c") and ("a", "bc") apart.
    Some((bytes[header - 2..].to_vec(), ask))
}

fn parse_update(attribute: u8, change: u8, value: u64) -> Ask {
    let amend = match change {
        0 => Amend::Patch,
        1 => Amend::Increase,
        2 => Amend::Decrease,
        _ => return Ask::Touch,
    };
    match attribute {
        0 => Ask::AmendQuota(amend, value),
        1 => Ask::AmendLifetime(amend, value),
        _ => Ask::Touch,
    }
}
