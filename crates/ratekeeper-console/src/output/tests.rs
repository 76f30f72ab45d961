use super::*;

#[test]
fn what_is_said_moves_no_cursor() {
    let said = without_controls("no \u{1b}[2J`a\\d`\r\u{9b}1m\u{2029}\u{2067}\n\tädä\n");
    assert_eq!(said, "no \\u{1b}[2J`a\\d`\\r\\u{9b}1m\\u{2029}\\u{2067}\n\tädä\n");
}
