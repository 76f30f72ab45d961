//! A connection of HTTP/1: plain requests go the short way, and hyper has what is not plain, or not
//! whole, until it has answered something plain and wants to read on.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Broken, Connections, Ending, Io, Peer};
use super::head_watch::HeadWatch;
use super::short::{self, Rest};

/// What hyper calls for every request.
pub(super) trait Answering:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Unpin
{
}

impl<S> Answering for S where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Unpin
{
}

/// A connection of HTTP/1.
pub(super) struct Http1<S: Answering> {
    connections: Rc<Connections>,
    peer: Rc<Peer>,
    way: Way<S>,
    is_ending: bool,
}

#[derive(Default)]
enum Way<S: Answering> {
    Short(Line, S),
    Long(Box<http1::Connection<TokioIo<Line>, S>>),
    #[default]
    Over,
}

/// Whose turn it is to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// hyper reads on.
    #[default]
    Long,
    /// hyper has answered a plain request and has read all of it: what it reads next is the next request.
    Between,
    /// hyper wanted to read in that state, and was given nothing: the next request is looked at here, and
    /// answered the short way if it is plain.
    Short,
}

/// The heads that hyper has been given since it was last its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heads {
    answered: u64,
    /// Which of them, counted from one, has both a length and a coding.
    two_ends: Option<u64>,
}

impl Heads {
    /// Counts one more that is answered.
    pub(super) const fn next(self) -> Self {
        Self { answered: self.answered.saturating_add(1), two_ends: self.two_ends }
    }

    /// Whether the last one says in two ways where its body ends.
    pub(super) fn has_two_ends(self) -> bool {
        self.two_ends == Some(self.answered)
    }
}

enum Step {
    /// Nothing more will be read or written.
    Over,
    Long,
}

impl<S: Answering> Http1<S> {
    pub(super) fn new(
        connections: Rc<Connections>,
        peer: Rc<Peer>,
        io: Box<dyn Io>,
        service: S,
    ) -> Self {
        let line = Line {
            io,
            begun: Bytes::new(),
            unsent: Vec::new(),
            is_held_up: false,
            heads: HeadWatch::default(),
            peer: Rc::clone(&peer),
        };
        Self { connections, peer, way: Way::Short(line, service), is_ending: false }
    }

    /// Answers plain requests until there is something else.
    fn poll_short(&mut self, cx: &mut Context<'_>, line: &mut Line) -> Poll<io::Result<Step>> {
        loop {
            ready!(line.poll_sent(cx))?;
            if self.is_ending && line.begun.is_empty() {
                ready!(Pin::new(&mut line.io).poll_shutdown(cx))?;
                return Poll::Ready(Ok(Step::Over));
            }
            let connections = Rc::clone(&self.connections);
            let mut input = connections.buffers.input.borrow_mut();
            let begun = line.begun.len();
            let Some((behind, room)) = input.split_at_mut_checked(begun) else {
                return Poll::Ready(Ok(Step::Long));
            };
            behind.copy_from_slice(&line.begun);
            let mut room = ReadBuf::new(room);
            if room.remaining() == 0 {
                return Poll::Ready(Ok(Step::Long));
            }
            let read = match Pin::new(&mut line.io).poll_read(cx, &mut room) {
                Poll::Ready(read) => read.map(|()| room.filled().len())?,
                // hyper knows how long the rest may take.
                Poll::Pending if begun > 0 => return Poll::Ready(Ok(Step::Long)),
                Poll::Pending => return Poll::Pending,
            };
            let is_full = room.remaining() == 0;
            match read {
                0 if begun == 0 => self.is_ending = true,
                0 => return Poll::Ready(Ok(Step::Long)),
                _ => {
                    let rest = self.answer(cx, &input[..begun + read], line)?;
                    ready!(line.poll_sent(cx))?;
                    if rest == Rest::Other && !line.begun.is_empty() {
                        return Poll::Ready(Ok(Step::Long));
                    }
                }
            }
            if is_full {
                // There is more, and others have their turn first.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Answers the plain requests that `bytes` begin with, and has the rest of them kept.
    fn answer(&self, cx: &mut Context<'_>, bytes: &[u8], line: &mut Line) -> io::Result<Rest> {
        let Connections { app, server_context, buffers, .. } = &*self.connections;
        let (now, wall) = (server_context.time.now(), server_context.time.wall());
        let mut output = buffers.output.borrow_mut();
        output.clear();
        let answered = short::answer(app, &self.peer, buffers, bytes, now, wall, &mut output);
        line.begun = Bytes::copy_from_slice(&bytes[answered.bytes..]);
        let requests = answered.counts.requests + answered.counts.malformed;
        if requests > 0 {
            self.peer.activity.answered(requests);
            self.peer.wire.answered();
            let counters = self.peer.guest.counters();
            counters.add(&answered.counts);
            counters.took(server_context.time.now().since(now), requests);
            line.send(cx, &output)?;
        }
        Ok(answered.rest)
    }
}

impl<S: Answering> Future for Http1<S> {
    type Output = Result<(), Broken>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match std::mem::take(&mut this.way) {
                Way::Short(mut line, service) => match this.poll_short(cx, &mut line) {
                    Poll::Ready(Ok(Step::Over)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(Step::Long)) => {
                        this.peer.turn.set(Turn::Long);
                        this.peer.heads.set(Heads::default());
                        line.heads = HeadWatch::new();
                        let io = TokioIo::new(line);
                        let mut long = this.connections.http1().serve_connection(io, service);
                        if this.is_ending {
                            Pin::new(&mut long).graceful_shutdown();
                        }
                        this.way = Way::Long(Box::new(long));
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Io)),
                    Poll::Pending => {
                        this.way = Way::Short(line, service);
                        return Poll::Pending;
                    }
                },
                Way::Long(mut long) => {
                    if let Poll::Ready(ended) = Pin::new(&mut *long).poll(cx) {
                        return Poll::Ready(ended.map_err(Broken::from));
                    }
                    if this.peer.turn.get() != Turn::Short {
                        this.way = Way::Long(long);
                        return Poll::Pending;
                    }
                    let http1::Parts { io, read_buf, service, .. } = long.into_parts();
                    let line = Line { begun: read_buf, ..io.into_inner() };
                    this.way = Way::Short(line, service);
                }
                Way::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: Answering> Ending for Http1<S> {
    fn end(mut self: Pin<&mut Self>) {
        self.is_ending = true;
        if let Way::Long(long) = &mut self.way {
            Pin::new(&mut **long).graceful_shutdown();
        }
    }
}

/// What both ways read from and write to.
struct Line {
    io: Box<dyn Io>,
    /// What was read, and is to be read again.
    begun: Bytes,
    /// What was answered the short way, and not yet taken.
    unsent: Vec<u8>,
    /// Whether not all was taken of what was answered the long way.
    is_held_up: bool,
    /// Looks at the heads that go the long way.
    heads: HeadWatch,
    peer: Rc<Peer>,
}

impl Line {
    /// Has answers written as soon as they are taken.
    fn send(&mut self, cx: &mut Context<'_>, answers: &[u8]) -> io::Result<()> {
        let mut rest = answers;
        while !rest.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(taken) => rest = &rest[taken?..],
                Poll::Pending => {
                    self.unsent.extend_from_slice(rest);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Has the watch shorten what was read. If it drops all of that, this is not ready, and is polled again:
    /// to hyper a read of no bytes means that the client has closed.
    fn poll_watched(
        &mut self,
        cx: &mut Context<'_>,
        before: usize,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = &mut into.filled_mut()[before..];
        let (read_bytes, kept) = (read.len(), self.heads.shorten(read));
        let heads = self.peer.heads.get();
        self.peer.heads.set(Heads { two_ends: self.heads.two_ends(), ..heads });
        into.set_filled(before + kept);
        if kept == 0 && read_bytes > 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until all was taken.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            self.send(cx, &unsent)?;
            if !self.unsent.is_empty() {
                return Poll::Pending;
            }
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begun.is_empty() {
            if self.peer.turn.get() == Turn::Between && !self.is_held_up {
                // It is looked at in the same call.
                self.peer.turn.set(Turn::Short);
                return Poll::Pending;
            }
            let before = into.filled().len();
            ready!(Pin::new(&mut self.io).poll_read(cx, into))?;
            return self.poll_watched(cx, before, into);
        }
        let (count, before) = (self.begun.len().min(into.remaining()), into.filled().len());
        into.put_slice(&self.begun.split_to(count));
        self.poll_watched(cx, before, into)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.is_held_up = !matches!(taken, Poll::Ready(Ok(taken)) if taken == bytes.len());
        taken
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
