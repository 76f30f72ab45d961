use super::super::{Limit, Origin, Source};
use super::*;
use crate::Nanos;

fn over(id: &str, burst: u64) -> Override {
    let limit = Limit::new(burst, 1, Nanos::from_secs(1)).unwrap();
    Override { id: id.into(), limit, origin: Origin::named("a test"), comment: None }
}

#[test]
fn many_at_once_are_what_one_after_the_other_are() {
    let defaults = Source { name: "d", text: "A: {burst: 1, count: 1, period: 1s}" };
    let text = "A:b: {burst: 2, count: 1, period: 1s}\nA:d: {burst: 2, count: 1, period: 1s}";
    let limits = Limits::parse(&defaults, Some(&Source { name: "o", text })).unwrap();
    let ids = ["d", "a", "c", "a", "z"];
    let (many, left_out) = limits
        .clone()
        .with_overrides(ids.iter().zip(10..).map(|(id, burst)| ("A", over(id, burst))));
    assert_eq!(left_out, []);
    let mut one_by_one = limits;
    for (id, burst) in ids.iter().zip(10..) {
        let Override { limit, origin, .. } = over(id, burst);
        one_by_one = one_by_one.with_override_from("A", id, limit, origin, None).unwrap();
    }
    assert_eq!(many, one_by_one);
}

#[test]
fn what_does_not_fit_is_left_out_and_told() {
    let text = "A: {burst: 1, count: 1, period: 1s, id: ipAddress}";
    let limits = Limits::parse(&Source { name: "d", text }, None).unwrap();
    let buckets = Source { name: "b", text: "pail 1" };
    let limits = limits.with_buckets(&buckets).unwrap();
    let wordy =
        Override { comment: Some("x".repeat(COMMENT_BYTES_MAX + 1).into()), ..over("::1", 9) };
    let (limits, left_out) = limits.with_overrides([
        ("A", over("ada", 9)),
        ("A", over("0:0::1", 9)),
        ("B", over("::1", 9)),
        ("pail", over("*", 9)),
        ("A", wordy),
    ]);
    let reasons: Vec<_> = left_out.iter().map(|(at, error)| (*at, error.to_string())).collect();
    assert_eq!(reasons.len(), 4);
    assert!(reasons[0].1.starts_with("`ada` is not an id of `A`"), "{reasons:?}");
    assert_eq!([0, 2, 3, 4], [reasons[0].0, reasons[1].0, reasons[2].0, reasons[3].0]);
    assert_eq!(limits.named("A").unwrap().overrides().len(), 1);
    assert!(limits.named("A").unwrap().override_for("::1").is_some());
}

#[test]
fn the_spelling_of_an_id_has_itself_as_its_spelling() {
    let name = "CertificatesPerFQDNSetPerAccount";
    let limit = Limit::new(1, 1, Nanos::from_secs(1)).unwrap();
    let limits = Limits::new().with(name, limit).unwrap();
    let named = limits.named(name).unwrap();
    let id = named.canonical_id("7:b.example.com,A.example.com").unwrap();
    assert_eq!(named.canonical_id(&id), Ok(id.clone()));
    assert!(named.canonical_id(&id.to_uppercase()).is_err());
    assert!(named.canonical_id(&id[..id.len() - 1]).is_err());
    let (limits, left_out) = limits.with_overrides([(name, over(&id, 9))]);
    assert_eq!(left_out, []);
    assert!(limits.named(name).unwrap().override_for(&id).is_some());
}
