//! Deciding allocates nothing once everything is warm, and bringing an id to its one spelling
//! never does.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::{Arc, Mutex};

use ratekeeper::algorithm::gcra::{Outcome, Rule};
use ratekeeper::algorithm::inline_rule::{Ask, InlineGcra, InlineRule};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::limiter::{Batch, Decided, TRANSACTION_ASKS_MAX, Witness};
use ratekeeper::limits::{ID_BYTES_MAX, IdBuffer, IdFormat, Limits, Source};
use ratekeeper::{Keyed, Limiter, Mode, Moment, Nanos, Request};
use ratekeeper_testkit::allocations::{Counting, assert_counted, during};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_count_sees_an_allocation() {
    assert_counted();
}

#[test]
fn no_id_allocates() {
    let names: Vec<_> = (0..100).rev().map(|n| format!("HOST{n}.example.com")).collect();
    let set = format!("007:{}", names.join(","));
    for (format, id) in [
        (IdFormat::Any, "anybody"),
        (IdFormat::IpAddress, "10.0.0.1"),
        (IdFormat::IpAddress, "2001:0DB8::1"),
        (IdFormat::IpAddress, "::ffff:10.0.0.1"),
        (IdFormat::Ipv6Range, "2001:0DB8::1"),
        (IdFormat::RegId, "0012345678"),
        (IdFormat::RegIdDomain, "12:example.com"),
        (IdFormat::RegIdDomain, "0012:Example.COM"),
        (IdFormat::RegIdFqdnSet, &set),
    ] {
        let count = during(|| {
            format.canonical(id, &mut IdBuffer::new()).map(str::len).unwrap();
        });
        assert_eq!(count, 0, "{format} {id}");
    }
}

#[test]
fn no_refusal_allocates() {
    for format in IdFormat::ALL {
        for id in ["", "x y", "1:x", "1:example.nosuch", "2001:db8::/47", &"x".repeat(600)] {
            let count = during(|| {
                let _ = format.canonical(id, &mut IdBuffer::new()).is_ok();
            });
            assert_eq!(count, 0, "{format} {id}");
        }
    }
}

const LIMITS: &str = "
PerUser: {burst: 3, count: 3, period: 1h}
PerAddress: {burst: 9, count: 9, period: 1h, id: ipAddress}
PerDomain: {burst: 9, count: 9, period: 1h, id: 'regId:domain', shadow: true}
";

#[test]
fn no_decision_allocates_once_warm() {
    no_decision_of(&limiter());
}

/// Adds up what it is told, and writes every id into text that is there.
struct Sum(Mutex<(u64, String)>);

impl Witness for Sum {
    fn decided(&self, decided: &Decided<'_>) {
        let (sum, text) = &mut *self.0.lock().unwrap();
        for seen in decided.iter() {
            text.clear();
            seen.write_id(text);
            *sum += seen.spent();
        }
    }
}

#[test]
fn being_told_of_it_does_not_allocate_either() {
    let sum = Arc::new(Sum(Mutex::new((0, String::with_capacity(ID_BYTES_MAX)))));
    no_decision_of(&limiter().witnessed(sum.clone()));
    assert!(sum.0.lock().unwrap().0 > 0);
}

fn limiter() -> Limiter {
    let source = Source { name: "limits.yaml", text: LIMITS };
    Limiter::new(Limits::parse(&source, None).unwrap()).unwrap()
}

fn no_decision_of(limiter: &Limiter) {
    let inline = Keyed::<InlineGcra>::new(1 << 20).unwrap();
    let ids: Vec<_> = (0..10_000).map(|n| format!("user-{n}")).collect();
    let mut batch = Batch::default();
    let round = |batch: &mut Batch, now: Moment| {
        for id in &ids {
            let _ = limiter.spend("PerUser", id, 2, now).unwrap();
            let _ = limiter.check("PerUser", id, 1, now).unwrap();
            let _ = limiter.refund("PerUser", id, 1, now).unwrap();
        }
        let asks: [Request<'_>; 64] =
            std::array::from_fn(|n| Request::new("PerUser", &ids[n], 1).with_mode(Mode::SpendOnly));
        assert_eq!(limiter.batch(batch, &asks, now).iter().flatten().count(), 64);
        let asks = [
            Request::new("PerUser", "ada", 1),
            Request::new("PerAddress", "2001:0DB8::1", 1),
            Request::new("PerDomain", "007:Example.COM", 1),
        ];
        let _ = limiter.transaction(&asks, now).unwrap();
        let _ = limiter.reset_all(&asks, now).unwrap();
        let many: [Request<'_>; TRANSACTION_ASKS_MAX] =
            std::array::from_fn(|n| Request::new("PerUser", &ids[n], 1));
        assert_eq!(limiter.transaction(&many, now).unwrap().each.len(), TRANSACTION_ASKS_MAX);
        let _ = limiter.refund_all(&many, now).unwrap();
        let rule = Rule::new(3, 1, Nanos::from_secs(1)).unwrap();
        let ask = Ask { rule: InlineRule::new(&rule), action: Action::CheckAndSpend, cost: 1 };
        let questions: [_; 64] =
            std::array::from_fn(|n| inline.question(&[ids[n].as_bytes()], ask));
        inline.decide(&questions, &mut [Outcome::default(); 64], now);
    };
    let now = Moment::from_nanos(0);
    round(&mut batch, now);
    assert_eq!(during(|| round(&mut batch, now)), 0, "with buckets that are there");
    let later = now.after(Nanos::from_secs(86_400));
    assert_eq!(during(|| round(&mut batch, later)), 0, "with buckets that have filled up");
}

#[test]
fn a_growing_table_does_not_allocate_either() {
    let limiter = limiter();
    let ids: Vec<_> = (0..300_000).map(|n| format!("user-{n}")).collect();
    let _ = limiter.spend("PerUser", "the first", 1, Moment::EPOCH).unwrap();
    let spend = || ids.iter().for_each(|id| drop(limiter.spend("PerUser", id, 1, Moment::EPOCH)));
    assert_eq!(during(spend), 0);
    assert_eq!(limiter.held().keys, 300_001);
}
