use super::*;

#[test]
fn results_say_so_if_not_everything_was_measured_as_usual() {
    let only = vec!["udp".to_owned(), "resp".to_owned()];
    let usual = Args { quick: false, only: Vec::new(), out: None };
    assert_eq!(usual.reservation(), "");
    let some = Args { only, ..usual };
    assert_eq!(some.reservation(), " Only this was measured: udp, resp.");
    let quick = Args { quick: true, ..some }.reservation();
    assert!(quick.contains("3 rounds of 300 ms each, and 100000 keys instead of 1000000."));
    assert!(quick.ends_with("udp, resp."));
}
