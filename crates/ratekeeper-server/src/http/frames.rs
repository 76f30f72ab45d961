//! The frames of an HTTP/2 connection, counted as they pass: whoever sends little but control
//! frames is sent away.
//!
//! The library below bounds what a frame can make it remember, and some floods: heads in endless
//! pieces, small pieces of bodies, resets of streams that were not looked at. Every PING and SETTINGS
//! it answers, and it reads every PRIORITY, `WINDOW_UPDATE` and unknown frame, for as long as they come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ratekeeper::Moment;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Io;
use crate::Time;

/// How many control frames a connection may send that it has not earned.
pub(super) const CONTROL_FRAMES_MAX: u32 = 1024;
/// How many of them come back in a second: those that keep a connection alive, or a window open.
const CONTROL_FRAMES_PER_SEC: u128 = 64;
/// How many a request earns, for its windows. One that is reset earns none.
const CONTROL_FRAMES_PER_REQUEST: u32 = 4;
/// How many bytes of answers earn one, as clients open their windows again for what they have read.
const ANSWER_BYTES_PER_FRAME: usize = 1 << 10;

/// What a client says before its first frame.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;

/// Says goodbye: nothing is known of the last stream, and there were too many frames
/// (`ENHANCE_YOUR_CALM`).
const FAREWELL: [u8; HEAD_BYTES + 8] =
    [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11];

/// A connection of HTTP/2 whose frames are counted.
pub(super) struct CountedFrames {
    io: Box<dyn Io>,
    time: Arc<dyn Time>,
    read: FrameHeads,
    written: FrameHeads,
    budget: FrameBudget,
}

impl CountedFrames {
    /// From its first byte on.
    pub(super) fn new(io: Box<dyn Io>, time: Arc<dyn Time>) -> Self {
        let budget = FrameBudget::new(time.now());
        let read = FrameHeads { skip: PREFACE_BYTES, ..FrameHeads::default() };
        Self { io, time, read, written: FrameHeads::default(), budget }
    }

    /// Counts what was read, and says whether that may go on.
    fn count(&mut self, bytes: &[u8]) -> bool {
        let Self { read, budget, time, .. } = self;
        budget.refill(time.now());
        let mut is_within = true;
        read.pass(bytes, |head| is_within &= budget.take(head));
        is_within
    }

    /// Says why it ends, if nothing is half written.
    fn send_away(&mut self, cx: &mut Context<'_>) {
        if self.written.is_between_frames() {
            let written = Pin::new(&mut self.io).poll_write(cx, &FAREWELL);
            if matches!(written, Poll::Ready(Ok(_))) {
                let _ = Pin::new(&mut self.io).poll_flush(cx);
            }
        }
    }
}

impl AsyncRead for CountedFrames {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, into))?;
        if self.count(&into.filled()[before..]) {
            return Poll::Ready(Ok(()));
        }
        self.send_away(cx);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "too many control frames")))
    }
}

impl AsyncWrite for CountedFrames {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        self.written.pass(&bytes[..taken], |_| ());
        self.budget.answered(taken);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// What a frame says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHead {
    payload_bytes: usize,
    kind: u8,
    flags: u8,
}

/// Finds the heads of frames in a stream that is cut anywhere.
#[derive(Clone, Copy, Debug, Default)]
struct FrameHeads {
    head: [u8; HEAD_BYTES],
    /// How much of it has come.
    have: usize,
    /// How many bytes are left that are no head.
    skip: usize,
}

impl FrameHeads {
    fn pass(&mut self, bytes: &[u8], mut each: impl FnMut(FrameHead)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = self.skip.min(rest.len());
            self.skip -= skipped;
            rest = &rest[skipped..];
            let missing = rest.len().min(HEAD_BYTES - self.have);
            self.head[self.have..self.have + missing].copy_from_slice(&rest[..missing]);
            self.have += missing;
            rest = &rest[missing..];
            if self.have == HEAD_BYTES {
                let [high, middle, low, kind, flags, ..] = self.head;
                let payload_bytes = u32::from_be_bytes([0, high, middle, low]) as usize;
                (self.have, self.skip) = (0, payload_bytes);
                each(FrameHead { payload_bytes, kind, flags });
            }
        }
    }

    fn is_between_frames(&self) -> bool {
        self.have == 0 && self.skip == 0
    }
}

/// How many control frames a client may still send.
#[derive(Clone, Copy, Debug)]
struct FrameBudget {
    frames: u32,
    as_of: Moment,
    /// What was answered, and has not earned a frame yet.
    answered_bytes: usize,
}

impl FrameBudget {
    fn new(now: Moment) -> Self {
        Self { frames: CONTROL_FRAMES_MAX, as_of: now, answered_bytes: 0 }
    }

    fn refill(&mut self, now: Moment) {
        let gained = now.since(self.as_of).get().saturating_mul(CONTROL_FRAMES_PER_SEC);
        let gained = gained / 1_000_000_000;
        if gained > 0 {
            self.as_of = now;
            self.earn(u32::try_from(gained).unwrap_or(u32::MAX));
        }
    }

    fn answered(&mut self, bytes: usize) {
        let all = self.answered_bytes.saturating_add(bytes);
        self.answered_bytes = all % ANSWER_BYTES_PER_FRAME;
        self.earn(u32::try_from(all / ANSWER_BYTES_PER_FRAME).unwrap_or(u32::MAX));
    }

    fn earn(&mut self, frames: u32) {
        self.frames = self.frames.saturating_add(frames).min(CONTROL_FRAMES_MAX);
    }

    /// Counts a frame, and says whether it may come.
    fn take(&mut self, head: FrameHead) -> bool {
        let cost = match head.kind {
            HEADERS => {
                self.earn(CONTROL_FRAMES_PER_REQUEST);
                0
            }
            // A body in empty pieces, or in padding, is none.
            DATA if head.flags & PADDED == 0 => {
                u32::from(head.payload_bytes == 0 && head.flags & END_STREAM == 0)
            }
            RST_STREAM => 1 + CONTROL_FRAMES_PER_REQUEST,
            _ => 1,
        };
        match self.frames.checked_sub(cost) {
            Some(left) => {
                self.frames = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
