use super::*;

#[test]
fn a_million_random_decisions_agree_with_the_oracle() {
    let next = AtomicU64::new(0);
    let summary = judge(1_000_000, 50, &next).unwrap();
    assert_eq!(summary.decisions, 1_000_000);
    for count in [summary.allowed, summary.denied, summary.mistakes, summary.refunds] {
        assert!(count > 5_000, "{summary:?}");
    }
    for count in [summary.transactions, summary.changes, summary.steps_back, summary.resets] {
        assert!(count > 1_000, "{summary:?}");
    }
}
