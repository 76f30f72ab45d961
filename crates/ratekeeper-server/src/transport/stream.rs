//! The loop for doors whose clients keep a connection.
//!
//! One read, all its requests decided, one write. What was read and what is to be written live in
//! buffers of the worker, which all its connections share; only what a client does not take at
//! once is kept with its connection, and until it is taken nothing more is read. So an idle
//! connection costs next to nothing, and one that does not read costs its bound.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{self, Read};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ratekeeper::Moment;
use ratekeeper_protocol::{Counts, Flow, StreamDoor};
use socket2::SockRef;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::ServerContext;
use super::accept::{Entrance, Guest};
use super::held::{Spares, behind_the_others};
use crate::polling::Lookout;
use crate::settings::StreamSettings;
use crate::wakeup::WakeFlag;

/// How much is read at once, at most.
const READ_BYTES_MAX: usize = 64 << 10;
/// The same where buckets are elsewhere: every connection that waits for them holds what it read.
const WAITING_READ_BYTES_MAX: usize = 4 << 10;
/// How many connections of a worker hold what they read at a time, where buckets are elsewhere.
const WAITING_MAX: usize = 8192;
/// How many bytes of requests a worker has under way at a time, where buckets are elsewhere. An ask
/// can be as short as three bytes, and takes up to a kilobyte until it is answered.
const UNDERWAY_REQUEST_BYTES_MAX: usize = 128 << 10;
/// How long the server waits for the client's end of a connection that it closes. Closing at once
/// would tell the client's system to throw away what it has not read yet.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// More than this is not underway in one connection: what a client's system holds of what it sends,
/// and ours of what was not read yet, with room to spare.
pub(crate) const UNDERWAY_BYTES_MAX: usize = 16 << 20;
/// A connection on which nothing comes for this long has nothing on its way. A client's system may
/// hold the last bytes back until ours has acknowledged those before, which it does within 200 ms.
pub(crate) const QUIET: Duration = Duration::from_millis(250);

/// A door for streams, with what its loop needs.
pub(crate) struct Streams<D> {
    pub(crate) door: Arc<D>,
    pub(crate) entrance: Entrance,
    pub(crate) settings: StreamSettings,
}

// Not derived: the door itself need not be cloned.
impl<D> Clone for Streams<D> {
    fn clone(&self) -> Self {
        Self {
            door: Arc::clone(&self.door),
            entrance: self.entrance.clone(),
            settings: self.settings.clone(),
        }
    }
}

/// What the connections of one worker share.
struct Worker<D> {
    streams: Streams<D>,
    server: ServerContext,
    input: RefCell<Vec<u8>>,
    output: RefCell<Vec<u8>>,
    spares: Spares,
    /// For those whose buckets are elsewhere: how many may read, and how many bytes of what they
    /// read may be under way.
    turns: Semaphore,
    underway: Semaphore,
}

impl<D: StreamDoor> Streams<D> {
    /// Accepts and serves connections until the server is to stop, and then until all that was
    /// received is answered. To be run in a `LocalSet`.
    pub(crate) async fn serve(self, listener: TcpListener, server: ServerContext, index: usize) {
        // What one read can cause must fit the bound of what may wait.
        let read_bytes = (self.settings.output_bytes / D::REPLY_BYTES_PER_BYTE).max(1);
        let most = if self.door.waits() { WAITING_READ_BYTES_MAX } else { READ_BYTES_MAX };
        let entrance = self.entrance.clone();
        let worker = Rc::new(Worker {
            streams: self,
            server: server.clone(),
            input: RefCell::new(vec![0; read_bytes.min(most)]),
            output: RefCell::default(),
            spares: Spares::default(),
            turns: Semaphore::new(WAITING_MAX),
            underway: Semaphore::new(UNDERWAY_REQUEST_BYTES_MAX),
        });
        let converse = |stream, guest| Rc::clone(&worker).converse(stream, guest);
        entrance.serve(listener, &server, index, converse).await;
    }
}

impl<D: StreamDoor> Worker<D> {
    /// One connection, from its first byte to its last.
    async fn converse(self: Rc<Self>, mut stream: TcpStream, guest: Guest) {
        match self.answer(&mut stream, &guest).await {
            // A client that has gone away is no accident.
            Ok(()) | Err(Ended::Gone) => {}
            Err(Ended::Stalled) => {
                guest.counters().dropped(1);
                tracing::info!(
                    door = self.streams.entrance.name,
                    source = %guest.source(),
                    "connection dropped: its client does not read"
                );
            }
        }
    }

    async fn answer(&self, stream: &mut TcpStream, guest: &Guest) -> Result<(), Ended> {
        stream.set_nodelay(true).map_err(|_| Ended::Gone)?;
        let mut session = D::Session::default();
        let heard_at = Cell::new(self.server.time.now());
        let mut end = pin!(self.end(&heard_at));
        let mut wakeup = WakeFlag::new();
        let mut has_answered = false;
        loop {
            let mut is_silent = false;
            let heard = match self.lookout(has_answered) {
                Some(lookout) => self.look(stream, lookout).await,
                None => None,
            };
            let heard = match heard {
                Some(read) => Ok(Hear::Read(read?)),
                None => {
                    poll_fn(|context| match wakeup.poll(end.as_mut(), context) {
                        Some(Poll::Ready(end)) => Poll::Ready(Ok(Err(end))),
                        _ => self.poll_hear(stream, context).map_ok(Ok),
                    })
                    .await?
                }
            };
            let hear = match heard {
                Ok(hear) => hear,
                Err(End::Draining) => {
                    self.answer_the_rest(stream, guest, &mut session).await?;
                    break;
                }
                // Something may have come while others were waited for, or this client was.
                Err(End::Silence) => {
                    is_silent = true;
                    end.set(self.end(&heard_at));
                    wakeup = WakeFlag::new();
                    Hear::Ask
                }
            };
            has_answered = false;
            match self.step(stream, guest, &mut session, hear).await? {
                Step::Went { now, bytes } => {
                    heard_at.set(now);
                    has_answered = true;
                    // Whoever sends without a pause leaves the others their turn.
                    if self.is_full(bytes) {
                        yield_now().await;
                    }
                }
                Step::Nothing if is_silent => break,
                Step::Nothing => {}
                Step::Close => break,
            }
        }
        self.close(stream).await;
        Ok(())
    }

    /// Waits until the server is to stop, or nothing was heard for too long.
    async fn end(&self, heard_at: &Cell<Moment>) -> End {
        let silence = async {
            let Some(idle) = self.streams.settings.idle else { return pending().await };
            // The timer runs on while requests come; when it ends, the last of them counts.
            loop {
                let silent: Duration = self.server.time.now().since(heard_at.get()).into();
                match idle.checked_sub(silent) {
                    None | Some(Duration::ZERO) => return,
                    Some(left) => sleep(left).await,
                }
            }
        };
        tokio::select! {
            biased;
            () = self.server.draining() => End::Draining,
            () = silence => End::Silence,
        }
    }

    /// Waits for something to read, and reads it.
    fn poll_hear(
        &self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<Result<Hear, Ended>> {
        // Where buckets are elsewhere, what was read could not stay in the buffer of all.
        if self.streams.door.waits() {
            let ready = stream.poll_read_ready(context);
            return ready.map_ok(|()| Hear::Told).map_err(|_| Ended::Gone);
        }
        let mut input = self.input.borrow_mut();
        let mut input = ReadBuf::new(&mut input);
        // Knows of a read that did not fill the buffer that asking for more would be in vain.
        let read = Pin::new(stream).poll_read(context, &mut input);
        read.map_ok(|()| Hear::Read(input.filled().len())).map_err(|_| Ended::Gone)
    }

    /// How this connection may look by itself for what comes next.
    fn lookout(&self, has_answered: bool) -> Option<&Lookout> {
        // Where buckets are elsewhere, what was read could not stay in the buffer of all.
        self.server.lookout().filter(|_| has_answered && !self.streams.door.waits())
    }

    /// Reads what comes next without the runtime, for as long as the worker stays awake for it. Says
    /// how many bytes that are.
    async fn look(&self, stream: &TcpStream, lookout: &Lookout) -> Option<Result<usize, Ended>> {
        let read = || self.read(stream, Hear::Ask, <[u8]>::len).transpose();
        lookout.look(|| self.server.time.now(), read).await
    }

    /// The server is to stop: what has arrived is answered, the rest is not waited for.
    async fn answer_the_rest(
        &self,
        stream: &TcpStream,
        guest: &Guest,
        session: &mut D::Session,
    ) -> Result<(), Ended> {
        let heard_until = self.server.time.now().after(LINGER.into());
        let mut heard_bytes = 0;
        loop {
            match self.step(stream, guest, session, Hear::Ask).await? {
                Step::Went { now, bytes } => {
                    heard_bytes += bytes;
                    // Who sends on and on is not listened to for ever, but what both systems may
                    // have held when the end began is heard, however slowly its answers are read.
                    if now >= heard_until && heard_bytes >= UNDERWAY_BYTES_MAX {
                        return Ok(());
                    }
                    yield_now().await;
                }
                Step::Close => return Ok(()),
                // What the client's system still holds comes as soon as ours has room.
                Step::Nothing if timeout(QUIET, stream.readable()).await.is_err() => return Ok(()),
                Step::Nothing => clear_readiness(stream),
            }
        }
    }

    /// One read, its requests, and usually one write.
    async fn step(
        &self,
        stream: &TcpStream,
        guest: &Guest,
        session: &mut D::Session,
        hear: Hear,
    ) -> Result<Step, Ended> {
        let (mut hear, mut read) = (hear, 0);
        loop {
            let turn = self.turn(stream, guest, session, hear).await?;
            let Some(Went { flow, now, bytes }) = turn else { return Ok(Step::Nothing) };
            read += bytes;
            match flow {
                Flow::Open => return Ok(Step::Went { now, bytes: read }),
                Flow::Close => return Ok(Step::Close),
                // Whoever causes much to be written leaves the others their turn.
                Flow::Again => yield_now().await,
            }
            hear = Hear::Nothing;
        }
    }

    /// One read, or what is left of one, and one write.
    async fn turn(
        &self,
        stream: &TcpStream,
        guest: &Guest,
        session: &mut D::Session,
        hear: Hear,
    ) -> Result<Option<Went>, Ended> {
        if self.streams.door.waits() {
            let turn = self.turn_elsewhere(stream, guest, session, hear).await?;
            let Some((went, rest)) = turn else { return Ok(None) };
            self.write_rest(stream, rest).await?;
            return Ok(Some(went));
        }
        let now = self.server.time.now();
        let mut counts = Counts::default();
        let went = self.read(stream, hear, |input| {
            let output = &mut *self.output.borrow_mut();
            output.clear();
            let door = &self.streams.door;
            if hear.is_end(input) {
                door.finish(session, now, output, &mut counts);
                return Went { flow: Flow::Close, now, bytes: 0 };
            }
            let flow = door.receive(session, input, now, output, &mut counts);
            Went { flow, now, bytes: input.len() }
        })?;
        let Some(went) = went else { return Ok(None) };
        // Whoever has its answer and looks at the counters finds it there.
        guest.counters().add(&counts);
        let held = self.spares.hold(&self.output.borrow());
        let rest = match held {
            Some(held) => {
                behind_the_others().await;
                let rest = write_now(stream, &held)?;
                self.spares.put_back(held);
                rest
            }
            None => write_now(stream, &self.output.borrow())?,
        };
        // What the client does not take at once is not our time.
        guest.counters().took(self.server.time.now().since(now), counts.requests);
        self.write_rest(stream, rest).await?;
        Ok(Some(went))
    }

    /// A turn where buckets are elsewhere, up to what the client does not take at once, which is
    /// returned. Others of this worker have their turn meanwhile, so it has buffers of its own.
    async fn turn_elsewhere(
        &self,
        stream: &TcpStream,
        guest: &Guest,
        session: &mut D::Session,
        hear: Hear,
    ) -> Result<Option<(Went, Rest)>, Ended> {
        let begun = self.server.time.now();
        let door = &self.streams.door;
        let mut counts = Counts::default();
        let _turn = self.turns.acquire().await;
        let read = self.read(stream, hear, <[u8]>::to_vec)?;
        let Some(input) = read else { return Ok(None) };
        let bytes = u32::try_from(input.len()).unwrap_or(u32::MAX);
        // Who finds no room in time is answered without those who have the buckets.
        let patience = self.server.patience;
        let _room = timeout(patience, self.underway.acquire_many(bytes)).await;
        let waited = Duration::from(self.server.time.now().since(begun));
        let patience = patience.saturating_sub(waited);
        let now = begun.after(waited.into());
        let mut output = Vec::new();
        // Boxed, so that a connection that waits for its client has no room for it.
        let answering = Box::pin(async {
            if hear.is_end(&input) {
                door.finish_wherever(session, now, &mut output, &mut counts).await;
                return Flow::Close;
            }
            door.receive_wherever(session, &input, now, &mut output, &mut counts).await
        });
        let flow = ratekeeper_redis::in_time(patience, answering).await;
        guest.counters().add(&counts);
        let rest = write_now(stream, &output)?;
        guest.counters().took(self.server.time.now().since(begun), counts.requests);
        Ok(Some((Went { flow, now: begun, bytes: input.len() }, rest)))
    }

    /// One read; nothing if there is nothing to read. No bytes are the client's end.
    fn read<T>(
        &self,
        stream: &TcpStream,
        hear: Hear,
        then: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Ended> {
        let input = &mut *self.input.borrow_mut();
        let read = match hear {
            Hear::Told => stream.try_read(input),
            Hear::Ask => (&*SockRef::from(stream)).read(input),
            Hear::Read(bytes) => Ok(bytes),
            Hear::Nothing => Ok(0),
        };
        match read {
            Ok(read) => {
                if matches!(hear, Hear::Told) && read < input.len() {
                    // The system says when there is more; asking it would be in vain.
                    clear_readiness(stream);
                }
                Ok(Some(then(&input[..read])))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(Ended::Gone),
        }
    }

    /// Whether there may be more than so many bytes, which were read.
    fn is_full(&self, bytes: usize) -> bool {
        bytes >= self.input.borrow().len()
    }

    /// The client is slow: its replies wait, and its requests are not read, for a while.
    async fn write_rest(&self, stream: &TcpStream, rest: Rest) -> Result<(), Ended> {
        let mut rest = rest.as_deref().unwrap_or_default();
        while !rest.is_empty() {
            let writable = timeout(self.streams.settings.stall, stream.writable()).await;
            writable.map_err(|_| Ended::Stalled)?.map_err(|_| Ended::Gone)?;
            match stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Ended::Gone),
            }
        }
        Ok(())
    }

    /// Says that nothing more will come, and waits for the client to say the same, for a while.
    async fn close(&self, stream: &TcpStream) {
        if SockRef::from(stream).shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let their_end = async {
            loop {
                let readable = stream.readable().await;
                let read = readable.and_then(|()| stream.try_read(&mut self.input.borrow_mut()));
                match read {
                    Ok(0) => return,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    _ => {}
                }
            }
        };
        let _ = timeout(LINGER, their_end).await;
    }
}

/// How the loop knows that there is something to read.
#[derive(Clone, Copy)]
enum Hear {
    /// The runtime says so.
    Told,
    /// The system is asked: the runtime may not have heard of it yet.
    Ask,
    /// It is read: so many bytes are in the buffer.
    Read(usize),
    /// There is nothing: the door has not answered yet what was read before.
    Nothing,
}

impl Hear {
    /// Whether what was read says that the client will send no more.
    fn is_end(self, input: &[u8]) -> bool {
        input.is_empty() && !matches!(self, Self::Nothing)
    }
}

/// Why nothing more is waited for.
enum End {
    /// The server is to stop.
    Draining,
    /// The client has said nothing for too long.
    Silence,
}

/// What was read and answered at once.
struct Went {
    flow: Flow,
    now: Moment,
    bytes: usize,
}

/// What the client did not take at once, if anything.
type Rest = Option<Vec<u8>>;

enum Step {
    Went { now: Moment, bytes: usize },
    Nothing,
    Close,
}

/// Why a connection ended before its time.
enum Ended {
    /// The client is gone.
    Gone,
    /// It does not read.
    Stalled,
}

/// Has the runtime forget that there was something to read: it was read without it.
fn clear_readiness(stream: &TcpStream) {
    let _ = stream
        .try_io(Interest::READABLE, || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock)));
}

/// Writes what the client takes at once; returns the rest.
fn write_now(stream: &TcpStream, output: &[u8]) -> Result<Rest, Ended> {
    if output.is_empty() {
        return Ok(None);
    }
    match stream.try_write(output) {
        Ok(written) if written == output.len() => Ok(None),
        Ok(written) => Ok(Some(output[written..].to_vec())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(output.to_vec())),
        Err(_) => Err(Ended::Gone),
    }
}
