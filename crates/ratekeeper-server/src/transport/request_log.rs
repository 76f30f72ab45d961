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
mod tests;
