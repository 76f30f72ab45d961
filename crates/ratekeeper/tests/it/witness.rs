//! A witness is told of every decision, once, as it was.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::{Arc, Mutex};

use ratekeeper::limiter::{Act, Batch, Decided, Ruling, Witness};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{Fingerprint, MEMORY_MIN};
use ratekeeper::{Limiter, Mode, Moment, Request};

const NOW: Moment = Moment::from_nanos(1_700_000_000_000_000_000);

const LIMITS: &str = "
A: {burst: 2, count: 1, period: 1h}
B: {burst: 1, count: 1, period: 1h, shadow: true}
NewOrdersPerAccount: {burst: 9, count: 9, period: 1h}
";

/// What was told, call by call.
#[derive(Default)]
struct Diary(Mutex<Vec<Vec<Line>>>);

type Line = (Told, Fingerprint);

/// Limit and id, act, cost, how much was spent, ruling.
type Told = (String, Act, u64, u64, Ruling);

impl Witness for Diary {
    fn decided(&self, decided: &Decided<'_>) {
        let lines = decided.iter().map(|seen| {
            let mut id = format!("{}:", seen.limit());
            seen.write_id(&mut id);
            ((id, seen.act(), seen.cost(), seen.spent(), seen.ruling()), seen.bucket())
        });
        self.0.lock().unwrap().push(lines.collect());
    }
}

impl Diary {
    /// What was told since the last look, without the buckets.
    fn told(&self) -> Vec<Vec<Told>> {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.into_iter().map(|lines| lines.into_iter().map(|(told, _)| told).collect()).collect()
    }
}

fn limiter() -> Limiter {
    let limits = Limits::parse(&Source { name: "limits.yaml", text: LIMITS }, None).unwrap();
    Limiter::with_memory(limits, MEMORY_MIN).unwrap()
}

fn witnessed() -> (Limiter, Arc<Diary>) {
    let diary = Arc::new(Diary::default());
    (limiter().witnessed(diary.clone()), diary)
}

#[test]
fn of_one_ask_with_its_id_in_its_one_spelling() {
    let (limiter, diary) = witnessed();
    let told =
        |id: &str, act, cost, spent, ruling| vec![vec![(id.to_owned(), act, cost, spent, ruling)]];
    let _ = limiter.spend("NewOrdersPerAccount", "007", 2, NOW).unwrap();
    let id = "NewOrdersPerAccount:7";
    assert_eq!(diary.told(), told(id, Act::Spend, 2, 2, Ruling::Allowed));
    let _ = limiter.check("A", "x", 1, NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Check, 1, 0, Ruling::Allowed));
    let _ = limiter.spend("A", "x", 2, NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Spend, 2, 2, Ruling::Allowed));
    let _ = limiter.spend("A", "x", 1, NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Spend, 1, 0, Ruling::Denied));
    let _ = limiter.refund("A", "x", 1, NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Refund, 1, 0, Ruling::Allowed));
    let _ = limiter.reset("A", "x", NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Reset, 0, 0, Ruling::Allowed));
    let _ = limiter.refund("A", "x", 1, NOW).unwrap();
    assert_eq!(diary.told(), told("A:x", Act::Refund, 1, 0, Ruling::Allowed), "nobody is denied");
    let _ = limiter.spend("B", "x", 1, NOW).unwrap();
    let _ = limiter.spend("B", "x", 1, NOW).unwrap();
    let last = diary.told().pop().unwrap();
    assert_eq!(last, [("B:x".into(), Act::Spend, 1, 0, Ruling::Shadow)]);
}

#[test]
fn of_a_transaction_as_of_one_call() {
    let (limiter, diary) = witnessed();
    let asks = [
        Request::new("A", "x", 2),
        Request::new("B", "x", 1),
        Request::new("NewOrdersPerAccount", "01", 1).with_mode(Mode::SpendOnly),
        Request::new("NewOrdersPerAccount", "02", 1).with_mode(Mode::CheckOnly),
    ];
    let lines = |a: (u64, Ruling), b: (u64, Ruling), spend_only| {
        vec![vec![
            ("A:x".to_owned(), Act::Spend, 2, a.0, a.1),
            ("B:x".to_owned(), Act::Spend, 1, b.0, b.1),
            ("NewOrdersPerAccount:1".to_owned(), Act::Spend, 1, spend_only, Ruling::Allowed),
            ("NewOrdersPerAccount:2".to_owned(), Act::Check, 1, 0, Ruling::Allowed),
        ]]
    };
    let _ = limiter.transaction(&asks, NOW).unwrap();
    assert_eq!(diary.told(), lines((2, Ruling::Allowed), (1, Ruling::Allowed), 1));
    let _ = limiter.transaction(&asks, NOW).unwrap();
    assert_eq!(diary.told(), lines((0, Ruling::Denied), (0, Ruling::Shadow), 0), "all or nothing");
    let _ = limiter.reset("A", "x", NOW).unwrap();
    diary.told();
    let _ = limiter.transaction(&asks, NOW).unwrap();
    assert_eq!(diary.told(), lines((2, Ruling::Allowed), (0, Ruling::Shadow), 1));
    let _ = limiter.refund_all(&asks, NOW).unwrap();
    let _ = limiter.reset_all(&asks, NOW).unwrap();
    let acts: Vec<_> = diary.told().concat().into_iter().map(|line| (line.1, line.3)).collect();
    assert_eq!(acts, [[(Act::Refund, 0); 4], [(Act::Reset, 0); 4]].concat());
}

#[test]
fn of_a_batch_without_its_mistakes() {
    let (limiter, diary) = witnessed();
    let asks = [
        Request::new("A", "x", 2),
        Request::new("Nonsense", "x", 1),
        Request::new("A", "x", 1),
        Request::new("A", "x", 3),
        Request::new("NewOrdersPerAccount", "ada", 1),
        Request::new("B", "x", 1),
        Request::new("B", "x", 1),
    ];
    let _ = limiter.batch(&mut Batch::default(), &asks, NOW);
    let line = |id: &str, cost, spent, ruling| (id.to_owned(), Act::Spend, cost, spent, ruling);
    let lines = vec![
        line("A:x", 2, 2, Ruling::Allowed),
        line("A:x", 1, 0, Ruling::Denied),
        line("B:x", 1, 1, Ruling::Allowed),
        line("B:x", 1, 0, Ruling::Shadow),
    ];
    assert_eq!(diary.told(), [lines]);
}

#[test]
fn of_nothing_else() {
    let (limiter, diary) = witnessed();
    limiter.spend("Nonsense", "x", 1, NOW).unwrap_err();
    limiter.spend("A", "x", 3, NOW).unwrap_err();
    let asks = [Request::new("A", "x", 1), Request::new("A", "y", 3)];
    limiter.transaction(&asks, NOW).unwrap_err();
    let _ = limiter.explain("A", "x", 1, NOW).unwrap();
    limiter.terms("A", "x").unwrap();
    limiter.bucket_key("A", "x").unwrap();
    assert_eq!(limiter.account("NewOrdersPerAccount", "0042").unwrap().id, "42");
    limiter.account("NewOrdersPerAccount", "ada").unwrap_err();
    limiter.held();
    assert!(diary.told().is_empty());
}

#[test]
fn two_witnesses_of_one_limiter_share_its_buckets() {
    let limiter = limiter();
    let (left, right) = (Arc::new(Diary::default()), Arc::new(Diary::default()));
    let (by_left, by_right) = (limiter.witnessed(left.clone()), limiter.witnessed(right.clone()));
    let _ = by_left.spend("A", "x", 2, NOW).unwrap();
    assert!(!by_right.spend("A", "x", 1, NOW).unwrap().allowed);
    let _ = limiter.spend("A", "x", 1, NOW).unwrap();
    let bucket = |diary: &Diary| diary.0.lock().unwrap()[0][0].1;
    assert_eq!(bucket(&left), bucket(&right));
    assert_eq!((left.told().len(), right.told().len()), (1, 1), "each hears of its own");

    let text = "C: {burst: 1, count: 1, period: 1h}";
    let limits = Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap();
    by_left.reload(limits, NOW).unwrap();
    assert!(limiter.spend("C", "x", 1, NOW).unwrap().allowed);
    assert!(!by_right.spend("C", "x", 1, NOW).unwrap().allowed);
}
