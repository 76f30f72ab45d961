//! The recorded facts of transactions hold for the oracle.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper_testkit::oracle::{Answer, Bucket, Mistake};
use ratekeeper_testkit::terms::Terms;
use ratekeeper_testkit::transaction::{Mode, Verdict, strictest, transaction};
use serde_json::Value;

const BATCH: &str = include_str!("../batch.json");
const SECOND_NS: u64 = 1_000_000_000;
const NOW: u64 = 1_000;

fn steps() -> Vec<Value> {
    let file: Value = serde_json::from_str(BATCH).unwrap();
    file["steps"].as_array().unwrap().clone()
}

fn per_second(n: u64) -> Bucket {
    Bucket::new(Terms { burst: n, count: n, period_ns: SECOND_NS })
}

fn merged(verdict: Result<Verdict, Mistake>) -> Answer {
    verdict.unwrap().merged
}

/// Carries out one step of the file; `do` is prose, so it is matched as a whole.
fn carry_out(what: &str, o: &mut Bucket, d: &mut Bucket) -> Option<Answer> {
    let mut both = |mode, cost| {
        let mut asks = [(&mut *o, 1, Mode::CheckAndSpend), (&mut *d, cost, mode)];
        Some(merged(transaction(&mut asks, NOW)))
    };
    match what.split(" (").next().unwrap() {
        "BatchSpend[O cs 1, D cs 1]" => both(Mode::CheckAndSpend, 1),
        "BatchSpend[O cs 1, D check-only 1]" => both(Mode::CheckOnly, 1),
        "BatchSpend[O cs 1, D spend-only 1]" => both(Mode::SpendOnly, 1),
        "BatchSpend[O cs 1, D spend-only 20]" => both(Mode::SpendOnly, 20),
        "BatchRefund[O 1, D 1]" => {
            let answers = [o.refund(1, NOW).unwrap(), d.refund(1, NOW).unwrap()];
            strictest(&answers, 0..2).map(|place| answers[place])
        }
        "Reset O, Reset D" => {
            o.reset();
            d.reset();
            None
        }
        "Check O cost 0" => Some(o.check(0, NOW).unwrap()),
        "Check D cost 0" => Some(d.check(0, NOW).unwrap()),
        other => panic!("unknown step {other}"),
    }
}

#[test]
fn every_recorded_step_holds() {
    let (mut o, mut d) = (per_second(40), per_second(20));
    for step in steps() {
        let observed = carry_out(step["do"].as_str().unwrap(), &mut o, &mut d);
        let Some(answer) = observed else { continue };
        assert!(answer.allowed, "{step}");
        assert_eq!(Some(answer.remaining), step["remaining"].as_u64(), "{step}");
        let ms = |field: &str| u128::from(step[field].as_u64().unwrap()) * 1_000_000;
        assert_eq!((answer.retry_in, answer.reset_in), (ms("retry_ms"), ms("reset_ms")), "{step}");
    }
}

#[test]
fn a_denial_beats_an_allowance_and_spends_nothing() {
    let mut a = per_second(2);
    let mut b = Bucket::new(Terms { burst: 2, count: 2, period_ns: 3_600 * SECOND_NS });
    a.spend(2, NOW).unwrap();
    b.spend(1, NOW).unwrap();
    let mut asks = [(&mut b, 1, Mode::CheckAndSpend), (&mut a, 1, Mode::CheckAndSpend)];
    let verdict = transaction(&mut asks, NOW).unwrap();
    // B would have to wait longer for the next one, but it is A that denies.
    assert!(verdict.own[0].retry_in > verdict.own[1].retry_in);
    assert_eq!((verdict.merged.allowed, verdict.decided_by), (false, 1));
    assert_eq!(b.check(0, NOW).unwrap().remaining, 1);
}

#[test]
fn a_denial_keeps_spend_only_asks_from_spending() {
    let (mut a, mut b) = (per_second(2), per_second(3));
    a.spend(2, NOW).unwrap();
    transaction(&mut [(&mut a, 1, Mode::CheckOnly), (&mut b, 1, Mode::SpendOnly)], NOW).unwrap();
    assert_eq!(b.tat(), None);
}

#[test]
fn spend_only_asks_alone_are_allowed_and_spend_what_there_is_room_for() {
    let (mut a, mut b) = (per_second(2), per_second(3));
    a.spend(2, NOW).unwrap();
    let mut asks = [(&mut a, 1, Mode::SpendOnly), (&mut b, 1, Mode::SpendOnly)];
    let verdict = transaction(&mut asks, NOW).unwrap();
    assert_eq!((verdict.merged.allowed, verdict.decided_by), (true, 0));
    assert_eq!((verdict.own[0].allowed, verdict.own[1].allowed), (false, true));
    assert_eq!(b.check(0, NOW).unwrap().remaining, 2);
}

#[test]
fn the_longer_retry_then_fewer_remaining_then_the_first_decides() {
    let answer =
        |allowed, retry_in, remaining| Answer { allowed, remaining, retry_in, reset_in: 9 };
    let answers = [answer(true, 5, 1), answer(true, 7, 3), answer(true, 7, 2), answer(true, 7, 2)];
    assert_eq!(strictest(&answers, 0..1), Some(0));
    assert_eq!(strictest(&answers, 0..2), Some(1));
    assert_eq!(strictest(&answers, 0..4), Some(2));
    assert_eq!(strictest(&answers, 0..0), None);
}

#[test]
fn a_mistake_in_one_ask_spends_nothing_anywhere() {
    let (mut a, mut b) = (per_second(2), per_second(3));
    let mut asks = [(&mut a, 1, Mode::CheckAndSpend), (&mut b, 4, Mode::SpendOnly)];
    assert_eq!(transaction(&mut asks, NOW), Err(Mistake::CostAboveBurst));
    assert_eq!(a.tat(), None);
    assert_eq!(transaction(&mut [], NOW), Err(Mistake::NoAsks));
}
