use serde_json::{Value, json};

use super::*;

fn of(request: &[u8], reply: &[u8], json: Option<Moment>) -> String {
    let mut replies = Replies::default();
    replies.push_with(|to| to.extend_from_slice(reply));
    lines(&[request], &replies, json)
}

#[test]
fn a_key_begins_no_line_and_does_not_reach_the_terminal() {
    let request = "over_limit a\n<< ok\u{9b}2J\u{202e}".as_bytes();
    let line = of(request, b"ok", None);
    assert_eq!(line, "<< ok (>> over_limit a\\x0a<< ok\\u{9b}2J\\u{202e})\n");
    assert_eq!(of(b"\\x0a\xff", b"ok", None), "<< ok (>> \\\\x0a\\xff)\n");
}

#[test]
fn in_a_json_log_a_request_is_an_object() {
    let line = of(b"a\n\"b", b"ok", Some(Moment::from_nanos(1_700_000_000_000_000_000)));
    let expected = json!({
        "timestamp": "2023-11-14T22:13:20Z", "level": "INFO", "message": "answered",
        "request": "a\\x0a\"b", "reply": "ok",
    });
    assert_eq!(serde_json::from_str::<Value>(line.trim_end()).unwrap(), expected);
    assert_eq!(line.lines().count(), 1);
}
