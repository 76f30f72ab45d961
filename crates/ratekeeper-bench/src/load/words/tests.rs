use super::split;

#[test]
fn blanks_divide_and_quotes_hold_together() {
    let words = split(r#" a  'b c'd"e'f" '' "#).unwrap();
    assert_eq!(words, ["a", "b cde'f", ""]);
}

#[test]
fn what_has_no_word_or_no_end_is_refused() {
    assert!(split(" ").is_err());
    assert_eq!(split("a 'b").unwrap_err(), "the ' is never closed");
}
