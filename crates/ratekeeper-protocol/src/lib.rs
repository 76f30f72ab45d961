//! The doors: one folder per wire format, each with a page that shows the wire.
//!
//! A door turns bytes into asks and outcomes into bytes. It has no socket and no clock: it is
//! given what was read and what time it is, and appends what is to be written. So the same door
//! serves a server, a replay of recorded traffic and a fuzzer, and no door knows of another.
//!
//! There are two kinds. A [`StreamDoor`] is for clients that keep a connection: it remembers what
//! was left of the last read, and cutting the stream elsewhere changes no reply. A
//! [`DatagramDoor`] is for clients that send one datagram and wait for one.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod bucket;
#[cfg(any(test, feature = "fuzzing"))]
mod drive;
mod foreign;
mod number;
pub mod resp;
mod scan;
mod spare;
pub mod throttr;
pub mod udp;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ratekeeper::Moment;

/// What a door was asked, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were understood.
    pub requests: u64,
    /// Requests that were allowed to pass.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests that were not answered.
    pub ignored: u64,
    /// Requests that were not understood.
    pub malformed: u64,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It stays open.
    Open,
    /// It stays open, and what was received is not all answered: there is so much to reply that it
    /// is to be written first. Then receiving nothing goes on with it.
    Again,
    /// It is to be closed, after what was replied.
    Close,
}

/// A door for clients that keep a connection.
pub trait StreamDoor: Send + Sync + 'static {
    /// What is remembered of a connection between two reads; bounded.
    type Session: Default;

    /// How many bytes of reply one byte of request can cause at most, so that a server can bound
    /// what it has to hold for a client that does not read.
    const REPLY_BYTES_PER_BYTE: usize;

    /// How many more they can be for a door that says [`Flow::Again`], whatever it receives.
    const REPLY_BYTES_MORE: usize = 0;

    /// Whether replies may have to be waited for, because buckets are elsewhere.
    fn waits(&self) -> bool;

    /// Answers every request that is complete with `bytes`, which is what one read brought, and
    /// appends the replies to `out`, in order. After [`Flow::Close`] nothing more is received.
    fn receive_wherever(
        &self,
        session: &mut Self::Session,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> impl Future<Output = Flow>;

    /// Answers what can be answered when the client will send no more.
    fn finish_wherever(
        &self,
        session: &mut Self::Session,
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> impl Future<Output = ()>;

    /// Does what [`receive_wherever`](Self::receive_wherever) does, at once.
    ///
    /// # Panics
    ///
    /// If it has to wait.
    fn receive(
        &self,
        session: &mut Self::Session,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Flow {
        promptly(self.receive_wherever(session, bytes, now, out, counts))
    }

    /// Does what [`finish_wherever`](Self::finish_wherever) does, at once.
    ///
    /// # Panics
    ///
    /// If it has to wait.
    fn finish(
        &self,
        session: &mut Self::Session,
        now: Moment,
        out: &mut Vec<u8>,
        counts: &mut Counts,
    ) {
        promptly(self.finish_wherever(session, now, out, counts));
    }
}

/// A door for clients that send a datagram and wait for one.
pub trait DatagramDoor: Send + Sync + 'static {
    /// Datagrams longer than this are ignored.
    const REQUEST_BYTES_MAX: usize;

    /// Whether replies may have to be waited for, because buckets are elsewhere.
    fn waits(&self) -> bool;

    /// Whether a client tells the reply to this request from its others by what is in it. Those may be
    /// sent in another order than the requests came in; the others may not.
    fn is_told_apart(_request: &[u8]) -> bool {
        false
    }

    /// Answers every datagram, in order; one without an answer gets an empty reply.
    fn answer_wherever(
        &self,
        requests: &[&[u8]],
        now: Moment,
        replies: &mut Replies,
        counts: &mut Counts,
    ) -> impl Future<Output = ()>;

    /// Does what [`answer_wherever`](Self::answer_wherever) does, at once.
    ///
    /// # Panics
    ///
    /// If it has to wait.
    fn answer(&self, requests: &[&[u8]], now: Moment, replies: &mut Replies, counts: &mut Counts) {
        promptly(self.answer_wherever(requests, now, replies, counts));
    }
}

/// The output of what never waits.
///
/// # Panics
///
/// If it waits.
fn promptly<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a door whose buckets are in memory does not wait"),
    }
}

/// The replies to a batch of datagrams, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Replies {
    /// Forgets all replies, and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the reply that `write` appends.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The replies, in order; empty where there is none.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }
}
