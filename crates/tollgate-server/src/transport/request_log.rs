//! A line per request, for doors whose originals wrote one.

use std::io::Write;

use tollgate_protocol::Replies;
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};

/// Writes `<< RESP (>> REQ)` to standard error. The door never waits for whoever reads it.
#[derive(Clone)]
pub(crate) struct RequestLog {
    writer: NonBlocking,
}

impl RequestLog {
    /// A log, and what writes the rest of it when it is dropped.
    pub(crate) fn start() -> (Self, WorkerGuard) {
        let (writer, guard) = crate::log::writer();
        (Self { writer }, guard)
    }

    /// One text for a whole batch, of those requests that were answered.
    pub(super) fn write(&mut self, requests: &[&[u8]], replies: &Replies) {
        let mut text = Vec::new();
        let answered = requests.iter().zip(replies.iter()).filter(|(_, reply)| !reply.is_empty());
        for (request, reply) in answered {
            text.extend_from_slice(b"<< ");
            push_shown(reply, &mut text);
            text.extend_from_slice(b" (>> ");
            push_shown(request, &mut text);
            text.extend_from_slice(b")\n");
        }
        if !text.is_empty() {
            // If nobody reads it, there is nobody to tell that to.
            let _ = self.writer.write_all(&text);
        }
    }
}

/// A key is any bytes. Those that would begin a line or move a cursor are written as `\x0a`.
fn push_shown(bytes: &[u8], text: &mut Vec<u8>) {
    for &byte in bytes {
        if byte.is_ascii_control() {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 0xf)];
            text.extend([b'\\', b'x', digit(byte >> 4), digit(byte)]);
        } else {
            text.push(byte);
        }
    }
}
