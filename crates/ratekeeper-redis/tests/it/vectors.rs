//! Recorded data, through Redis.

use ratekeeper::algorithm::average;
use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::{self, Outcome, Verdict};
use ratekeeper::algorithm::quota::{self, Amend, Unit};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Ask, AverageAsk, Kind, QuotaAsk, Rule, Visit, slot};
use serde_json::Value;

use crate::servers::{Blocking, Cluster, GENEROUS, Sentinel, Single};

const MICRO: u64 = 1_000;

fn number(step: &Value, key: &str) -> u64 {
    step[key].as_u64().unwrap_or_else(|| panic!("{key} in {step}"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Servers, and how an operator reaches each that decides.
struct Layout<'a> {
    url: String,
    primaries: Vec<&'a Single>,
}

impl Layout<'_> {
    /// Checks one server, servers that Sentinels watch, and a cluster, one after the other.
    fn each(check: impl Fn(&Layout<'_>)) {
        let single = Single::start();
        check(&Layout { url: single.url(), primaries: vec![&single] });
        let watched = Sentinel::start();
        let primary = watched.servers.iter().find(|it| Some(it.port) == watched.primary());
        check(&Layout { url: watched.url(), primaries: vec![primary.unwrap()] });
        let cluster = Cluster::start();
        let primaries = (0..3).map(|index| &cluster.servers[index]).collect();
        check(&Layout { url: cluster.url(), primaries });
    }

    /// Writes a key where it belongs.
    fn set(&self, key: &str, value: &str) {
        let index = match self.primaries.as_slice() {
            [_] => 0,
            _ => Cluster::owner(slot(key.as_bytes())),
        };
        self.primaries[index].command(&["SET", key, value, "PX", "60000"]);
    }
}

#[test]
fn the_recorded_gcra_steps_at_whole_microseconds_hold() {
    Layout::each(check_gcra);
}

fn check_gcra(servers: &Layout<'_>) {
    let link = Blocking::open(&servers.url);
    let data = json(include_str!("../../../ratekeeper/tests/vectors/gcra.json"));
    let sequences = data["sequences"].as_array().unwrap().iter();
    let mut steps = 0;
    for step in sequences.flat_map(|sequence| sequence["steps"].as_array().unwrap()) {
        let (now, tat) = (number(step, "now_ns"), number(step, "tat_in_ns"));
        if now % MICRO != 0 || tat % MICRO != 0 {
            continue;
        }
        let period = Nanos::new(number(step, "period_ns").into());
        let rule = gcra::Rule::new(number(step, "burst"), number(step, "count"), period).unwrap();
        let rule = Rule::new(&rule).unwrap();
        let key = String::from_utf8(Kind::Bucket.key(b"v")).unwrap();
        let debt = tat.saturating_sub(now) / MICRO * rule.emission_interval().1;
        let value = format!("{} {debt} {rule}", now / MICRO);
        servers.set(&key, &value);
        let action = if step["op"] == "refund" { Action::Refund } else { Action::CheckAndSpend };
        let ask = ask(b"v", &rule, action, number(step, "cost"));
        let outcome = link.gcra(&[ask], Some(Moment::from_nanos(now)))[0].outcome;
        let allowed = outcome.verdict == Verdict::Allow;
        assert_eq!(allowed, step["allowed"].as_bool().unwrap(), "{step}");
        assert_eq!(outcome.remaining, number(step, "remaining"), "{step}");
        let up = |key| u128::from(number(step, key).next_multiple_of(MICRO));
        assert_eq!(outcome.retry_in.get(), up("retry_in"), "{step}");
        assert_eq!(outcome.reset_in.get(), up("reset_in"), "{step}");
        steps += 1;
    }
    assert_eq!(steps, 54);
}

fn ask<'a>(bucket: &'a [u8], rule: &'a Rule, action: Action, cost: u64) -> Ask<'a> {
    let (since, is_shadow, joined) = (Moment::EPOCH, false, true);
    Ask { bucket, rule, since, action, is_shadow, cost, joined }
}

#[test]
fn the_recorded_transactions_hold_in_one_slot_and_across_slots() {
    Layout::each(check_transactions);
}

fn check_transactions(servers: &Layout<'_>) {
    use Action::{CheckAndSpend, CheckOnly, Refund, Reset, SpendOnly};
    let link = Blocking::open(&servers.url);
    let rule = |burst| gcra::Rule::new(burst, burst, Nanos::from_secs(1)).unwrap();
    let (ours, theirs) = (Rule::new(&rule(40)).unwrap(), Rule::new(&rule(20)).unwrap());
    let now = Some(Moment::from_nanos(1_000_000_000));
    let data = json(include_str!("../../../ratekeeper/tests/vectors/batch.json"));
    let steps = data["steps"].as_array().unwrap();
    for step in steps {
        let o = |action, cost| ask(b"o", &ours, action, cost);
        let d = |action, cost| ask(b"d", &theirs, action, cost);
        let text = step["do"].as_str().unwrap();
        let asks = match text.split(" (").next().unwrap() {
            "BatchSpend[O cs 1, D cs 1]" => vec![o(CheckAndSpend, 1), d(CheckAndSpend, 1)],
            "BatchSpend[O cs 1, D check-only 1]" => vec![o(CheckAndSpend, 1), d(CheckOnly, 1)],
            "BatchSpend[O cs 1, D spend-only 1]" => vec![o(CheckAndSpend, 1), d(SpendOnly, 1)],
            "BatchSpend[O cs 1, D spend-only 20]" => vec![o(CheckAndSpend, 1), d(SpendOnly, 20)],
            "BatchRefund[O 1, D 1]" => vec![o(Refund, 1), d(Refund, 1)],
            "Reset O, Reset D" => vec![o(Reset, 0), d(Reset, 0)],
            "Check O cost 0" => vec![o(CheckOnly, 0)],
            "Check D cost 0" => vec![d(CheckOnly, 0)],
            other => panic!("unknown step {other}"),
        };
        let answers = link.gcra(&asks, now);
        if text.starts_with("Reset") {
            continue;
        }
        // Whoever only spends if there is room has no say.
        let strictest = answers
            .iter()
            .zip(&asks)
            .filter(|(_, ask)| ask.action != SpendOnly)
            .map(|(answer, _)| answer.outcome)
            .min_by_key(|outcome| outcome.remaining)
            .unwrap();
        check_strictest(step, &strictest);
    }
    assert_eq!(steps.len(), 13);
}

fn check_strictest(step: &Value, outcome: &Outcome) {
    let nanos = |key| u128::from(number(step, key)) * 1_000_000;
    assert_eq!(outcome.remaining, number(step, "remaining"), "{step}");
    assert_eq!(outcome.retry_in.get(), nanos("retry_ms"), "{step}");
    assert_eq!(outcome.reset_in.get(), nanos("reset_ms"), "{step}");
}

#[test]
fn the_recorded_averages_hold() {
    Layout::each(check_averages);
}

fn check_averages(servers: &Layout<'_>) {
    let link = Blocking::open(&servers.url);
    let recordings = [
        (
            include_str!("../../../ratekeeper/tests/vectors/burst_strict_22_20.tsv"),
            22.0,
            20.0,
            true,
        ),
        (include_str!("../../../ratekeeper/tests/vectors/leaky_125_10.tsv"), 125.0, 10.0, false),
        (include_str!("../../../ratekeeper/tests/vectors/clock_backwards.tsv"), 22.0, 20.0, true),
    ];
    for (index, (text, limit, period, strict)) in recordings.into_iter().enumerate() {
        let rule = average::Rule::new(limit, period, strict).unwrap();
        let key = [u8::try_from(index).unwrap()];
        for row in text.lines().filter(|line| !line.starts_with('#')) {
            let [time, _, expected] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let now = Some(moment(time.parse().unwrap()));
            let mut answers = Vec::new();
            let asks = [AverageAsk { key: &key, rule }];
            link.wait(link.link.average(&asks, &Visit { within: GENEROUS, now }, &mut answers));
            let outcome = answers[0].as_ref().unwrap().outcome;
            let over = if outcome.over { "Y" } else { "N" };
            let said = format!("ok {over} {:.1} {limit:.1} {period:.0}", outcome.rate);
            assert_eq!(said, expected, "at {time}");
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
    Layout::each(check_quotas);
}

fn check_quotas(servers: &Layout<'_>) {
    let link = Blocking::open(&servers.url);
    let data = json(include_str!("../../../ratekeeper/tests/vectors/throttr.json"));
    let mut exchanges = 0;
    for case in data["cases"].as_array().unwrap() {
        if case["klass"] == "normative" {
            for primary in &servers.primaries {
                primary.command(&["FLUSHALL"]);
            }
            exchanges += check_quota_case(&link, case);
        }
    }
    assert!(exchanges > 40, "only {exchanges} exchanges");
}

fn check_quota_case(link: &Blocking, case: &Value) -> usize {
    let mut now = Moment::from_nanos(5_000_000_000);
    let mut exchanges = 0;
    for step in case["steps"].as_array().unwrap() {
        now = now.after(Nanos::new(u128::from(step["sleep_ms"].as_u64().unwrap_or(0)) * 1_000_000));
        let sent = step["send"].as_str().map(bytes).unwrap_or_default();
        let Some((ids, ask)) = parse_request(&sent) else { continue };
        let mut answers = Vec::new();
        let visit = Visit { within: GENEROUS, now: Some(now) };
        link.wait(link.link.quota(&[QuotaAsk { key: &ids, ask }], &visit, &mut answers));
        let outcome = answers[0].as_ref().unwrap().outcome;
        now = now.after(Nanos::new(1_000));
        let recorded = bytes(step["recv"].as_str().unwrap());
        assert_eq!(u8::from(outcome.can), recorded[0], "{}: {step}", case["name"]);
        if recorded.len() == 18 {
            let remaining = u64::from_le_bytes(recorded[1..9].try_into().unwrap());
            assert_eq!(outcome.remaining, remaining, "{}: {step}", case["name"]);
            assert_eq!(outcome.unit, unit(recorded[9]), "{}: {step}", case["name"]);
        }
        exchanges += 1;
    }
    exchanges
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
fn parse_request(bytes: &[u8]) -> Option<(Vec<u8>, quota::Ask)> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (header, ask) = match bytes.first()? {
        1 => {
            let (quota, usage, ttl) = (long(1), long(9), long(18));
            (28, quota::Ask::Insert { quota, usage, ttl, unit: unit(bytes[17]) })
        }
        2 => (3, quota::Ask::Query),
        3 => (13, parse_update(bytes[1], bytes[2], long(3))),
        4 => (3, quota::Ask::Purge),
        _ => return None,
    };
    Some((bytes[header - 2..].to_vec(), ask))
}

fn parse_update(attribute: u8, change: u8, value: u64) -> quota::Ask {
    let amend = match change {
        0 => Amend::Patch,
        1 => Amend::Increase,
        2 => Amend::Decrease,
        _ => return quota::Ask::Touch,
    };
    match attribute {
        0 => quota::Ask::AmendQuota(amend, value),
        1 => quota::Ask::AmendLifetime(amend, value),
        _ => quota::Ask::Touch,
    }
}
