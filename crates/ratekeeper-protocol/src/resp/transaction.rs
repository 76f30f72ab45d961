//! `MULTI` and `EXEC`: requests that are kept until all of them are there, and then done in order.
//!
//! The queue holds requests as they came, so doing them is reading them once more. What is wrong with
//! a request as such is said when it is queued, and `EXEC` then does none of them, as in Redis.

use super::command::Verb;
use super::connection::Client;

/// How many bytes of requests a connection may queue between `MULTI` and `EXEC`.
pub const QUEUE_BYTES_MAX: usize = 1 << 20;

const OK: &[u8] = b"+OK\r\n";
const QUEUED: &[u8] = b"+QUEUED\r\n";
const NOTHING: &[u8] = b"*0\r\n";
const NESTED: &[u8] = b"-ERR MULTI calls can not be nested\r\n";
const WATCH_INSIDE: &[u8] = b"-ERR WATCH inside MULTI is not allowed\r\n";
const EXEC_ALONE: &[u8] = b"-ERR EXEC without MULTI\r\n";
const DISCARD_ALONE: &[u8] = b"-ERR DISCARD without MULTI\r\n";
const ABORTED: &[u8] = b"-EXECABORT Transaction discarded because of previous errors.\r\n";
const FULL: &[u8] = b"-ERR the queue of MULTI is full: it takes 1048576 bytes of requests\r\n";

const _: () = assert!(QUEUE_BYTES_MAX == 1_048_576, "it is told what it is");

/// Requests between `MULTI` and `EXEC`.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    requests: Vec<u8>,
    count: usize,
    /// Whether one of them was wrong, so that none is to be done.
    is_spoiled: bool,
}

/// When a request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// At once.
    Now,
    /// It has been, and this is the reply.
    Done(&'static [u8]),
    /// With `EXEC`, and this is the reply until then.
    Later(&'static [u8]),
    /// It is `EXEC`: so many requests are due, which are in [`Client::due`].
    Due(usize),
}

impl Queue {
    fn push(&mut self, request: &[u8]) -> &'static [u8] {
        if self.is_spoiled {
            return QUEUED;
        }
        if self.requests.len().saturating_add(request.len()) > QUEUE_BYTES_MAX {
            self.spoil();
            return FULL;
        }
        self.requests.extend_from_slice(request);
        self.count = self.count.saturating_add(1);
        QUEUED
    }

    /// Nothing of it will be done, so nothing of it is kept.
    fn spoil(&mut self) {
        *self = Self { is_spoiled: true, ..Self::default() };
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.requests.len()
    }
}

impl Client {
    /// Has the next `EXEC` do nothing, if there is to be one: a request was wrong.
    pub(super) fn spoil(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.spoil();
        }
    }

    /// When a request is done, which is there as it came.
    pub(super) fn turn(&mut self, verb: Verb, request: &[u8]) -> Turn {
        match (verb, &mut self.queue) {
            (Verb::Multi, queue @ None) => {
                *queue = Some(Box::default());
                Turn::Done(OK)
            }
            (Verb::Multi, Some(_)) => Turn::Done(NESTED),
            (Verb::Exec, None) => Turn::Done(EXEC_ALONE),
            (Verb::Exec, queue) => {
                queue.take().map_or(Turn::Done(NOTHING), |queue| self.run(*queue))
            }
            (Verb::Discard, None) => Turn::Done(DISCARD_ALONE),
            (Verb::Discard, queue) => {
                *queue = None;
                Turn::Done(OK)
            }
            (Verb::Watch, Some(_)) => Turn::Done(WATCH_INSIDE),
            (Verb::Quit | Verb::Reset, _) | (_, None) => Turn::Now,
            (_, Some(queue)) => Turn::Later(queue.push(request)),
        }
    }

    fn run(&mut self, queue: Queue) -> Turn {
        match queue {
            Queue { is_spoiled: true, .. } => Turn::Done(ABORTED),
            Queue { count: 0, .. } => Turn::Done(NOTHING),
            Queue { requests, count, .. } => {
                self.due = requests;
                Turn::Due(count)
            }
        }
    }
}
