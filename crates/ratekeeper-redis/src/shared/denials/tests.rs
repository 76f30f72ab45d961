//! Denials that are remembered, where there are more than memory holds.

use ratekeeper::Nanos;
use ratekeeper::algorithm::book::BucketCell;
use ratekeeper::algorithm::gcra::Rule;

use super::*;

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
/// More than are remembered.
const MANY: usize = 500_000;

#[test]
fn the_newest_denials_are_remembered_and_nobody_else_is_denied() {
    let mut book = Book::default();
    let (limit, wait) = (Rule::new(1, 1, Nanos::from_secs(60)).unwrap(), Nanos::from_secs(60));
    let rule = book.add(limit).unwrap();
    let denials = Denials::<Gcra>::new().unwrap();
    denials.install(&Arc::new(book));
    denials.hear(Heard::Began);
    let ask = book::Ask { rule, action: Action::CheckAndSpend, is_shadow: false, cost: 1 };
    let name = |n: usize| n.to_le_bytes();
    let found = |n| denials.find(denials.seal.fingerprint(&name(n)), &ask, START);
    for n in 0..MANY {
        let bucket = denials.seal.fingerprint(&name(n));
        let cell = BucketCell::filling(rule, &limit, wait, 0, START);
        denials.remember(&name(n), cell, denials.forgotten(bucket), START);
        assert_eq!(found(n).map(|denial| denial.retry_in), Some(wait), "{n}");
    }
    assert!(found(0).is_none() || (1..1_000).any(|n| found(n).is_none()), "all have room");
    assert!((MANY..MANY + 1_000).all(|n| found(n).is_none()), "they were never denied");
}
