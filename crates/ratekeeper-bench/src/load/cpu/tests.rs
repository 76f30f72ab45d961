use super::*;

#[test]
fn the_ticks_stand_behind_the_name_whatever_that_is() {
    let text = "42 (a) R 1 (b) S 1 42 42 0 -1 4194560 1 0 0 0 123 45 0 0 20 0 1 0 9 9";
    assert_eq!(ticks(text), Some(168));
    assert_eq!(ticks("42 (a) R 1 2"), None);
    assert_eq!(ticks(""), None);
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    assert!(Cpu::of(u32::MAX).is_err());
    assert!(used(std::process::id()).is_ok());
}
