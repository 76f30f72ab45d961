//! A line per request, for doors whose originals wrote one.

use std::io::Write;

use ratekeeper::Moment;
use ratekeeper_protocol::Replies;
use serde::Serialize;
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};

use crate::overrides::Utc;
use crate::shown::push_shown_bytes;

/// Writes `<< RESP (>> REQ)` to standard error, or an object of JSON where that is how the log is written.
/// The door never waits for whoever reads it.
#[derive(Clone)]
pub(crate) struct RequestLog {
    writer: NonBlocking,
    is_json: bool,
}

/// Named as in the other lines of the log.
#[derive(Serialize)]
struct JsonLine<'a> {
    timestamp: Utc,
    level: &'static str,
    message: &'static str,
    request: &'a str,
    reply: &'a str,
}

impl RequestLog {
    /// A log, and what writes the rest of it when it is dropped.
    pub(crate) fn start(is_json: bool) -> (Self, WorkerGuard) {
        let (writer, guard) = crate::log::writer();
        (Self { writer, is_json }, guard)
    }

    /// One text for a whole batch, of those requests that were answered; `wall` says when.
    pub(super) fn write(&mut self, requests: &[&[u8]], replies: &Replies, wall: Moment) {
        let text = lines(requests, replies, self.is_json.then_some(wall));
        if !text.is_empty() {
            // If nobody reads it, there is nobody to tell that to.
            let _ = self.writer.write_all(text.as_bytes());
        }
    }
}

/// The lines of a batch; as JSON with a time.
fn lines(requests: &[&[u8]], replies: &Replies, json: Option<Moment>) -> String {
    let shown = |bytes: &[u8]| {
        let mut text = String::new();
        push_shown_bytes(bytes, &mut text);
        text
    };
    let mut text = String::new();
    for (request, reply) in requests.iter().zip(replies.iter()) {
        if reply.is_empty() {
            continue;
        }
        let (request, reply) = (shown(request), shown(reply));
        match json {
            Some(wall) => text.push_str(&json_line(&request, &reply, wall)),
            None => text.extend(["<< ", &reply, " (>> ", &request, ")"]),
        }
        text.push('\n');
    }
    text
}

fn json_line(request: &str, reply: &str, wall: Moment) -> String {
    let timestamp = Utc(wall);
    let line = JsonLine { timestamp, level: "INFO", message: "answered", request, reply };
    // Texts and a time are always JSON.
    serde_json::to_string(&line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
}
