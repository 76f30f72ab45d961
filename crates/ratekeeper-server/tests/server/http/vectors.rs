//! What was recorded of named limits, through HTTP. Time stands still but for what the record says.

use ratekeeper::Nanos;
use serde_json::{Value, json};

use super::client::{Asked, assert_problem};

fn vector(name: &str) -> Value {
    let path = format!("{}/../ratekeeper/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn number(step: &Value, key: &str) -> u64 {
    step[key].as_u64().unwrap_or_else(|| panic!("{key} in {step}"))
}

#[test]
fn the_recorded_gcra_sequences_hold() {
    let mut steps = 0;
    for sequence in vector("vectors/gcra.json")["sequences"].as_array().unwrap() {
        let sequence = sequence["steps"].as_array().unwrap();
        let [burst, count, period] =
            ["burst", "count", "period_ns"].map(|key| number(&sequence[0], key));
        let limits = format!("L: {{burst: {burst}, count: {count}, period: {period}ns}}");
        let asked = Asked::limits(&limits);
        // When the bucket is full, as it was recorded.
        let mut full_at = 0;
        for step in sequence {
            run_gcra_step(&asked, step, &mut full_at);
            steps += 1;
        }
    }
    assert_eq!(steps, 74);
}

fn run_gcra_step(asked: &Asked, step: &Value, full_at: &mut u64) {
    let (now, before) = (number(step, "now_ns"), number(step, "tat_in_ns"));
    asked.at(Nanos::new(now.into()));
    if before.max(now) != (*full_at).max(now) {
        // Between the steps of the record it was reset.
        assert!(before <= now, "{step}");
        asked.post("/v1/reset", &json!({"limit": "L", "id": "x"}));
    }
    let (op, cost) = (step["op"].as_str().unwrap(), number(step, "cost"));
    let answer = asked.post(&format!("/v1/{op}"), &json!({"limit": "L", "id": "x", "cost": cost}));
    assert_eq!(answer["allowed"], step["allowed"], "{step}");
    assert_eq!(answer["remaining"], step["remaining"], "{step}");
    assert_eq!(answer["retry_in_ns"], step["retry_in"], "{step}");
    assert_eq!(answer["reset_in_ns"], step["reset_in"], "{step}");
    // A check and a cost of zero store nothing; the record shows what it would have been.
    *full_at = if op == "check" || cost == 0 { before } else { number(step, "new_tat") };
}

const BATCH_LIMITS: &str = "
D: {burst: 20, count: 20, period: 1s}
O: {burst: 40, count: 40, period: 1s}
";
const ID: &str = "64.112.117.1";

#[test]
fn the_recorded_transactions_hold() {
    let asked = Asked::limits(BATCH_LIMITS);
    let ask = |limit: &str, cost: u64| json!({"limit": limit, "id": ID, "cost": cost});
    let both = |mode: &str, cost: u64| {
        let mut second = ask("D", cost);
        second["mode"] = mode.into();
        asked.post("/v1/spend", &json!({"asks": [ask("O", 1), second]}))
    };
    let mut steps = 0;
    for step in vector("vectors/batch.json")["steps"].as_array().unwrap() {
        let text = step["do"].as_str().unwrap();
        let answer = match text.split(" (").next().unwrap() {
            "BatchSpend[O cs 1, D cs 1]" => both("check-and-spend", 1),
            "BatchSpend[O cs 1, D check-only 1]" => both("check-only", 1),
            "BatchSpend[O cs 1, D spend-only 1]" => both("spend-only", 1),
            "BatchSpend[O cs 1, D spend-only 20]" => both("spend-only", 20),
            "BatchRefund[O 1, D 1]" => {
                asked.post("/v1/refund", &json!({"asks": [ask("O", 1), ask("D", 1)]}))
            }
            "Reset O, Reset D" => {
                let buckets = json!([{"limit": "O", "id": ID}, {"limit": "D", "id": ID}]);
                asked.post("/v1/reset", &json!({"asks": buckets}))
            }
            "Check O cost 0" => asked.post("/v1/check", &ask("O", 0)),
            "Check D cost 0" => asked.post("/v1/check", &ask("D", 0)),
            other => panic!("unknown step {other}"),
        };
        if step.get("remaining").is_some() {
            let nanos = |key| Value::from(number(step, key) * 1_000_000);
            assert_eq!(answer["allowed"], true, "{step}");
            assert_eq!(answer["remaining"], step["remaining"], "{step}");
            assert_eq!(answer["retry_in_ns"], nanos("retry_ms"), "{step}");
            assert_eq!(answer["reset_in_ns"], nanos("reset_ms"), "{step}");
        }
        steps += 1;
    }
    assert_eq!(steps, 13);
}

/// The record is of overrides, whose ids are read more strictly than those of asks.
#[test]
fn the_recorded_ids_are_taken_or_refused() {
    let asked = Asked::starter();
    let cases = vector("limits/ids.json");
    let cases = cases["id_validation"].as_array().unwrap();
    for case in cases {
        let one = json!({
            "limit": case[0], "id": case[1], "burst": 1000, "count": 1000, "period": "1s",
            "why": "a test",
        });
        let body = json!({"overrides": [one]}).to_string();
        let answer = asked.send("PUT", "/v1/overrides?dry_run=1", Some(&body), &[]);
        if case[2] == true {
            assert_eq!(answer.status, 200, "{case}: {}", answer.text);
            asked.spend(case[0].as_str().unwrap(), case[1].as_str().unwrap());
        } else {
            assert_problem(&answer.problem(), "bad-id", Some("overrides[0].id"));
        }
    }
    assert_eq!(cases.len(), 22);
}

#[test]
fn the_recorded_lists_of_domains_have_their_hashes() {
    let asked = Asked::starter();
    for case in vector("limits/ids.json")["fqdn_set_sha256"].as_array().unwrap() {
        let names: Vec<_> =
            case["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let id = format!("7:{}", names.join(","));
        let answer = asked.spend("CertificatesPerFQDNSetPerAccount", &id);
        assert_eq!(answer["id"], format!("7:{}", case["sha256_hex"].as_str().unwrap()));
    }
}

#[test]
fn the_recorded_keys_of_overrides_can_be_overridden() {
    let asked = Asked::starter();
    let terms = json!({"burst": 1000, "count": 1000, "period": "1s", "why": "a test"});
    for case in vector("limits/ids.json")["override_key_parse"].as_array().unwrap() {
        let Some([limit, id]) = case[1].as_array().map(Vec::as_slice) else { continue };
        let (limit, id) = (limit.as_str().unwrap(), id.as_str().unwrap());
        let path = format!("/v1/overrides/{limit}/{}", id.replace('/', "%2F"));
        assert_eq!(asked.put(&path, &terms)["override"]["burst"], 1000, "{case}");
        assert_eq!(asked.spend(limit, id)["remaining"], 999, "{case}");
    }
}
