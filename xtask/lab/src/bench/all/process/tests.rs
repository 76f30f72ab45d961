use super::*;

#[test]
fn the_first_number_is_the_time_on_a_processor() {
    assert_eq!(on_processor("123 45 6\n"), Some(123));
    assert_eq!(on_processor(""), None);
}

#[test]
fn a_program_that_says_nothing_is_refused() {
    let mut process = Process::start(Command::new("true")).unwrap();
    assert!(process.line().is_err());
}
