//! The recorded vectors hold through the program.

use serde_json::{Value, json};

use crate::program::{file, line, replay};

const GCRA: &str = include_str!("../vectors/gcra.json");
const BATCH: &str = include_str!("../vectors/batch.json");

fn sequences() -> Vec<Value> {
    let file: Value = serde_json::from_str(GCRA).unwrap();
    file["sequences"].as_array().unwrap().clone()
}

fn number(step: &Value, field: &str) -> u64 {
    step[field].as_u64().unwrap_or_else(|| panic!("{field} in {step}"))
}

/// The lines that bring the bucket from what the earlier steps left to what `step` begins with.
///
/// Mostly there are none. A stored time of now or earlier is a full bucket; where the earlier
/// steps left another, somebody has reset it.
fn lead_up(step: &Value, tat: u64) -> Option<String> {
    let (before, now) = (number(step, "tat_in_ns"), number(step, "now_ns"));
    if before == tat || before.max(tat) <= now {
        return None;
    }
    assert!(before <= now, "no op leads from {tat} to {step}");
    Some(line(now, "reset", "A", 0))
}

/// The time that the bucket stores after the step: denials, checks and peeks store none.
fn tat_after(step: &Value, tat: u64) -> u64 {
    let stores =
        step["op"] != "check" && number(step, "cost") > 0 && step["allowed"] == json!(true);
    if stores { number(step, "new_tat") } else { tat }
}

fn holds(sequence: &Value) -> usize {
    let steps = sequence["steps"].as_array().unwrap();
    let name = sequence["name"].as_str().unwrap();
    let terms = ["burst", "count", "period_ns"].map(|field| number(&steps[0], field));
    let [burst, count, period] = terms;
    let limits = file(
        &format!("gcra-{}.yaml", name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        &format!("A: {{burst: {burst}, count: {count}, period: {period}ns}}"),
    );
    let (mut tat, mut lines, mut places) = (0, Vec::new(), Vec::new());
    for step in steps {
        lines.extend(lead_up(step, tat));
        places.push(lines.len());
        let (now, cost) = (number(step, "now_ns"), number(step, "cost"));
        lines.push(line(now, step["op"].as_str().unwrap(), "A", cost));
        tat = tat_after(step, number(step, "tat_in_ns"));
    }
    let answers = replay(&limits, &lines);
    for (step, place) in steps.iter().zip(places) {
        for field in ["allowed", "remaining"] {
            assert_eq!(answers[place][field], step[field], "{field} in {name}: {step}");
        }
        for field in ["retry_in", "reset_in"] {
            let told = &answers[place][format!("{field}_ns")];
            assert_eq!(told, &step[field], "{field} in {name}: {step}");
        }
    }
    steps.len()
}

#[test]
fn every_recorded_sequence_holds() {
    assert_eq!(sequences().iter().map(holds).sum::<usize>(), 74);
}

fn ask(limit: &str, cost: u64, mode: &str) -> Value {
    json!({"limit": limit, "id": "x", "cost": cost, "mode": mode})
}

fn transaction(asks: &[Value]) -> String {
    json!({"at": 1000, "op": "transaction", "asks": asks}).to_string()
}

/// The lines for one step of the file; `do` is prose, so it is matched as a whole.
fn lines_of(what: &str) -> Vec<String> {
    let both =
        |mode, cost| vec![transaction(&[ask("O", 1, "check-and-spend"), ask("D", cost, mode)])];
    let each = |op, cost| vec![line(1000, op, "O", cost), line(1000, op, "D", cost)];
    match what.split(" (").next().unwrap() {
        "BatchSpend[O cs 1, D cs 1]" => both("check-and-spend", 1),
        "BatchSpend[O cs 1, D check-only 1]" => both("check-only", 1),
        "BatchSpend[O cs 1, D spend-only 1]" => both("spend-only", 1),
        "BatchSpend[O cs 1, D spend-only 20]" => both("spend-only", 20),
        // The recorded answer is the one with less remaining, which is that of D.
        "BatchRefund[O 1, D 1]" => each("refund", 1),
        "Reset O, Reset D" => each("reset", 0),
        "Check O cost 0" => vec![line(1000, "check", "O", 0)],
        "Check D cost 0" => vec![line(1000, "check", "D", 0)],
        other => panic!("unknown step {other}"),
    }
}

#[test]
fn every_recorded_transaction_holds() {
    let file_: Value = serde_json::from_str(BATCH).unwrap();
    let steps = file_["steps"].as_array().unwrap();
    let limits = file(
        "batch.yaml",
        "D: {burst: 20, count: 20, period: 1s}\nO: {burst: 40, count: 40, period: 1s}",
    );
    let groups: Vec<_> = steps.iter().map(|step| lines_of(step["do"].as_str().unwrap())).collect();
    let mut answers = replay(&limits, &groups.concat()).into_iter();
    for (step, group) in steps.iter().zip(groups) {
        let answer = answers.by_ref().take(group.len()).last().unwrap();
        assert_eq!(answer["allowed"], json!(true), "{step}");
        let Some(remaining) = step.get("remaining") else { continue };
        assert_eq!(&answer["remaining"], remaining, "{step}");
        for (field, recorded) in [("retry_in_ns", "retry_ms"), ("reset_in_ns", "reset_ms")] {
            assert_eq!(number(&answer, field), number(step, recorded) * 1_000_000, "{step}");
        }
    }
}

#[test]
fn a_denial_beats_an_allowance_and_names_itself() {
    let limits = file(
        "denied.yaml",
        "A: {burst: 2, count: 2, period: 1s}\nB: {burst: 2, count: 2, period: 1h, number: 77}",
    );
    let lines = [
        line(1000, "spend", "A", 2),
        line(1000, "spend", "B", 1),
        transaction(&[ask("B", 1, "check-and-spend"), ask("A", 1, "check-and-spend")]),
        line(1000, "check", "B", 0),
        transaction(&[ask("B", 1, "check-and-spend"), ask("A", 1, "spend-only")]),
    ];
    let answers = replay(&limits, &lines);
    assert_eq!(answers[2]["allowed"], json!(false));
    assert_eq!((&answers[2]["limit"]["name"], &answers[2]["bucket"]), (&json!("A"), &json!("A:x")));
    assert_eq!(answers[3]["remaining"], json!(1), "B was not debited");
    assert_eq!(answers[4]["allowed"], json!(true), "A has no say where it is only spent");
    assert_eq!(
        (&answers[4]["limit"]["name"], &answers[4]["bucket"]),
        (&json!("B"), &json!("77:x"))
    );
}
