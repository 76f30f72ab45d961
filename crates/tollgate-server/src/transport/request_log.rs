//! A line per request, for doors whose originals wrote one.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tollgate_protocol::Replies;

/// How many batches may wait to be written. More are not written, and their requests are counted.
const QUEUE: usize = 1 << 10;

/// Writes `<< RESP (>> REQ)` to standard error, from a thread of its own. The door never waits for
/// whoever reads it.
#[derive(Clone)]
pub(crate) struct RequestLog {
    texts: SyncSender<Vec<u8>>,
    missed: Arc<AtomicU64>,
}

impl RequestLog {
    /// Starts the thread, which ends when the last log is dropped.
    pub(crate) fn start() -> std::io::Result<(Self, JoinHandle<()>)> {
        let (texts, received) = sync_channel::<Vec<u8>>(QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let log = Self { texts, missed: Arc::clone(&missed) };
        let thread = std::thread::Builder::new().name("request log".into()).spawn(move || {
            let mut error = std::io::stderr();
            for text in received {
                // If nobody reads it, there is nobody to tell that to.
                let _ = error.write_all(&text);
                let count = missed.swap(0, Ordering::Relaxed);
                if count > 0 {
                    tracing::warn!(count, "requests came too fast to be logged");
                }
            }
        })?;
        Ok((log, thread))
    }

    /// One text for a whole batch, of those requests that were answered.
    pub(super) fn write(&self, requests: &[&[u8]], replies: &Replies) {
        let mut text = Vec::new();
        let mut count = 0;
        for (request, reply) in requests.iter().zip(replies.iter()).filter(|(_, it)| !it.is_empty())
        {
            text.extend_from_slice(b"<< ");
            push_shown(reply, &mut text);
            text.extend_from_slice(b" (>> ");
            push_shown(request, &mut text);
            text.extend_from_slice(b")\n");
            count += 1;
        }
        if count > 0 && self.texts.try_send(text).is_err() {
            self.missed.fetch_add(count, Ordering::Relaxed);
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
