//! The bytes of one connection.
//!
//! What is answered while its task runs is written when it has run, so many requests that came
//! together are answered with one write, and no answer waits for the rest of the next request.
//! While a client does not take its answers, nothing more is read from it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};

use crate::transport::LINGER;

/// How much is gathered before it is written.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How much room for output is kept for the next who has some.
const SPARE_BYTES_MAX: usize = 2 * OUTPUT_BYTES_MAX;
/// How much of what nobody wants is read at once, and how long a worker then reads no more of it:
/// at most 16 MiB a second, from however many that send on and on.
const DISCARD_BYTES: usize = 64 << 10;
const DISCARD_PAUSE: Duration = Duration::from_millis(4);

/// A connection's socket, and what is to be written to it.
pub(super) struct Wire {
    stream: RefCell<TcpStream>,
    /// How long a client may leave its answers unread.
    stall: Duration,
    output: RefCell<Output>,
    spare: Spare,
    failed: Cell<Option<Failed>>,
    /// Whether all that had come was handed on.
    is_exhausted: Cell<bool>,
    has_ended: Cell<bool>,
    heard_bytes: Cell<usize>,
    /// How many of them had come when the last answer was made.
    answered_bytes: Cell<usize>,
}

/// Room for output, which the connections of a worker have in turn: one that has nothing to write keeps
/// none, and most write all they have before another has any.
pub(super) type Spare = Rc<RefCell<Vec<u8>>>;

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    written: usize,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// Why nothing more can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The client is gone.
    Gone,
    /// It does not read.
    Stalled,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, stall: Duration, spare: &Spare) -> io::Result<Rc<Self>> {
        stream.set_nodelay(true)?;
        Ok(Rc::new(Self {
            stream: RefCell::new(stream),
            stall,
            output: RefCell::default(),
            spare: Rc::clone(spare),
            failed: Cell::new(None),
            is_exhausted: Cell::new(false),
            has_ended: Cell::new(false),
            heard_bytes: Cell::new(0),
            answered_bytes: Cell::new(0),
        }))
    }

    /// Runs what reads and writes here, and writes what it has written.
    pub(super) async fn drive<F: Future>(
        &self,
        mut future: Pin<&mut F>,
    ) -> Result<F::Output, Failed> {
        poll_fn(|cx| {
            // What could not be written before makes room for more.
            let _ = self.poll_write_out(cx);
            let polled = future.as_mut().poll(cx);
            let _ = self.poll_write_out(cx);
            match (polled, self.failed.get()) {
                (Poll::Ready(output), _) => Poll::Ready(Ok(output)),
                (Poll::Pending, Some(failed)) => Poll::Ready(Err(failed)),
                (Poll::Pending, None) => Poll::Pending,
            }
        })
        .await
    }

    /// How many bytes have come so far.
    pub(super) fn heard_bytes(&self) -> usize {
        self.heard_bytes.get()
    }

    /// A request was answered. What comes from here on is another.
    pub(super) fn answered(&self) {
        self.answered_bytes.set(self.heard_bytes.get());
    }

    /// Whether something came since.
    pub(super) fn has_begun_more(&self) -> bool {
        self.answered_bytes.get() != self.heard_bytes.get()
    }

    /// Whether there is something to read. The system is asked itself: the runtime may not have
    /// heard of it yet.
    pub(super) fn has_more(&self) -> bool {
        let stream = self.stream.borrow();
        let peeked = SockRef::from(&*stream).peek(&mut [MaybeUninit::uninit()]);
        !self.has_ended.get() && peeked.is_ok_and(|bytes| bytes > 0)
    }

    /// Whether nothing has come behind what was read so far and taken by whoever reads.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get() && !self.has_more()
    }

    /// Whether something waits for the client to take it.
    pub(super) fn is_blocked(&self) -> bool {
        !self.output.borrow().bytes.is_empty()
    }

    /// Whether the client has said that nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    pub(super) fn failed(&self) -> Option<Failed> {
        self.failed.get()
    }

    /// Says that nothing more will come, and waits for the client to say the same, for a while:
    /// closing at once would have the client's system throw away answers it has not read yet.
    pub(super) async fn close(&self, discard: &Discard) {
        if self.failed.get().is_some() || self.has_ended.get() {
            return;
        }
        // It may have been shut down already.
        let _ = self.shut_down();
        let _ = timeout(LINGER, discard.all_of(self)).await;
    }

    fn shut_down(&self) -> io::Result<()> {
        SockRef::from(&*self.stream.borrow()).shutdown(Shutdown::Write)
    }

    /// Reads something that nobody wants, and says whether there was any before the end.
    #[expect(clippy::large_stack_arrays, reason = "while it is read, and by no connection kept")]
    fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut nobodys = [MaybeUninit::uninit(); DISCARD_BYTES];
        let mut into = ReadBuf::uninit(&mut nobodys);
        let read = ready!(self.poll_read_some(cx, &mut into));
        Poll::Ready(read.is_ok() && !into.filled().is_empty())
    }

    fn poll_read_in(&self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        // Whoever takes no answers gets no more of them. The end of the wait wakes this task.
        if self.is_blocked() && self.poll_write_out(cx)?.is_pending() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        let Poll::Ready(read) = self.poll_read_some(cx, into) else {
            self.is_exhausted.set(true);
            return Poll::Pending;
        };
        read.map_err(|error| self.gone(error))?;
        let read = into.filled().len() - before;
        // The end is told at the second time: whoever sends a request and then says that nothing
        // more will come still wants his answer, and hyper would give it up.
        if read == 0 && !self.has_ended.replace(true) {
            self.is_exhausted.set(true);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_exhausted.set(read == 0);
        self.heard_bytes.set(self.heard_bytes.get().saturating_add(read));
        Poll::Ready(Ok(()))
    }

    fn poll_read_some(&self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, into)
    }

    fn poll_gather(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        if self.output.borrow().bytes.len() >= OUTPUT_BYTES_MAX {
            ready!(self.poll_write_out(cx))?;
        }
        let mut output = self.output.borrow_mut();
        if output.bytes.capacity() == 0 {
            output.bytes = self.spare.take();
        }
        let room = OUTPUT_BYTES_MAX.saturating_sub(output.bytes.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        output.bytes.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    /// Writes what was gathered, as far as the client takes it.
    fn poll_write_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        let mut output = self.output.borrow_mut();
        while let Some(rest) = output.bytes.get(output.written..).filter(|it| !it.is_empty()) {
            match self.poll_write_some(cx, rest) {
                Poll::Ready(Ok(written)) => {
                    output.written += written;
                    output.stalled = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.gone(error))),
                Poll::Pending => {
                    let stalled = output.stalled.get_or_insert_with(|| Box::pin(sleep(self.stall)));
                    ready!(stalled.as_mut().poll(cx));
                    self.failed.set(Some(Failed::Stalled));
                    return Poll::Ready(self.check());
                }
            }
        }
        output.written = 0;
        if (1..=SPARE_BYTES_MAX).contains(&output.bytes.capacity()) {
            output.bytes.clear();
            self.spare.replace(mem::take(&mut output.bytes));
        } else {
            output.bytes = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_some(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, bytes)
    }

    fn check(&self) -> io::Result<()> {
        match self.failed.get() {
            None => Ok(()),
            Some(Failed::Gone) => Err(io::ErrorKind::ConnectionReset.into()),
            Some(Failed::Stalled) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn gone(&self, error: io::Error) -> io::Error {
        self.failed.set(Some(Failed::Gone));
        error
    }
}

/// Reads what nobody wants, from all connections of a worker that end. They take turns: if each
/// were read from as fast as it sends, those that are refused would take the time of the others.
pub(super) struct Discard(Semaphore);

impl Default for Discard {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Discard {
    async fn all_of(&self, wire: &Wire) {
        while poll_fn(|cx| wire.poll_discard(cx)).await {
            let _turn = self.0.acquire().await;
            sleep(DISCARD_PAUSE).await;
        }
    }
}

/// What a protocol holds of a wire.
pub(super) struct End {
    wire: Rc<Wire>,
    /// What was read to see which protocol it is, for that to read.
    begun: Vec<u8>,
}

impl End {
    pub(super) fn new(wire: &Rc<Wire>) -> Self {
        Self { wire: Rc::clone(wire), begun: Vec::new() }
    }

    /// Reads until it is clear whether the first bytes are `expected`. They can be read again.
    pub(super) async fn begins_with(&mut self, expected: &[u8]) -> io::Result<bool> {
        use tokio::io::AsyncReadExt as _;
        let mut begun = Vec::with_capacity(expected.len());
        while begun != expected && expected.starts_with(&begun) {
            begun.push(self.read_u8().await?);
        }
        self.begun = begun;
        Ok(self.begun == expected)
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begun.is_empty() {
            return self.wire.poll_read_in(cx, into);
        }
        let count = self.begun.len().min(into.remaining());
        into.put_slice(&self.begun[..count]);
        self.begun.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wire.poll_gather(cx, bytes)
    }

    /// It is written when the task has run.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.wire.check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.wire.poll_write_out(cx))?;
        Poll::Ready(self.wire.shut_down())
    }
}
