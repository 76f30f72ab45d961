//! Servers that decide nothing: what a door could do at most.
//!
//! Each is a process of its own and one thread (the polling one over TCP has one for each
//! connection), says where it listens as `ratekeeper serve` does, and goes on until it is killed.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg,
    recvmsg, sendmmsg, sendmsg, setsockopt, sockopt,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::super::Failure;

const HERE: &str = "127.0.0.1:0";
/// How many datagrams are taken and sent at once.
const BATCH: usize = 64;
/// The longest datagram, alone and joined, in bytes.
const DATAGRAM_BYTES: usize = 2_048;
const JOINED_BYTES: usize = 1 << 16;
/// How much is read from a stream at once, in bytes.
const READ_BYTES: usize = 64 << 10;
/// How long those that poll look before they sleep: as long as ours.
const POLL: Duration = Duration::from_micros(50);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(clap::Subcommand)]
enum Kind {
    /// Datagrams, many in one system call
    Udp,
    /// Datagrams that come joined and go so
    Segments,
    /// Bytes over TCP: so many for so many
    Tcp {
        #[arg(long)]
        bytes: usize,
        #[arg(long)]
        answer_bytes: usize,
    },
    /// Datagrams, one at a time, and some looks before it sleeps
    PollingUdp,
    /// The same over TCP
    PollingTcp {
        #[arg(long)]
        bytes: usize,
        #[arg(long)]
        answer_bytes: usize,
    },
    /// One answer to every RESP command
    Resp {
        #[arg(long)]
        answer: String,
        /// Look some more before it sleeps
        #[arg(long)]
        poll: bool,
    },
    /// One answer to every HTTP request
    Http {
        #[arg(long)]
        body: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.kind {
        Kind::Udp => datagrams(),
        Kind::Segments => segments(),
        Kind::Tcp { bytes, answer_bytes } => {
            let (bytes, answer_bytes) = ((*bytes).max(1), *answer_bytes);
            accept(move |stream| stream_echo(stream, bytes, answer_bytes))
        }
        Kind::PollingUdp => polling_datagrams(),
        Kind::PollingTcp { bytes, answer_bytes } => polling_streams((*bytes).max(1), *answer_bytes),
        Kind::Resp { answer, poll } => {
            // Enough for any read: a command has more than one byte.
            let (each, answers) = (answer.len(), Bytes::from(answer.repeat(READ_BYTES)));
            let watch = poll.then(Watch::default).map(Rc::new);
            accept(move |stream| resp_constant(stream, each, answers.clone(), watch.clone()))
        }
        Kind::Http { body } => {
            let body = Bytes::from(body.clone());
            accept(move |stream| http_constant(stream, body.clone()))
        }
    }
}

fn say(address: impl std::fmt::Display) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "listening echo {address}")?;
    Ok(out.flush()?)
}

/// Blocks until something is there, takes all of it, and sends it back.
fn datagrams() -> Result<(), Failure> {
    let socket = UdpSocket::bind(HERE)?;
    say(socket.local_addr()?)?;
    let fd = socket.as_raw_fd();
    let mut bytes = vec![0; BATCH * DATAGRAM_BYTES];
    let mut incoming = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut outgoing = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut lengths = [0; BATCH];
    let mut sources = [None; BATCH];
    loop {
        let mut count = 0;
        let mut rooms = bytes.chunks_exact_mut(DATAGRAM_BYTES);
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(rooms.next().unwrap_or_default())]);
        let wait = MsgFlags::MSG_WAITFORONE;
        for message in recvmmsg(fd, &mut incoming, slices.iter_mut(), wait, None)? {
            (lengths[count], sources[count]) = (message.bytes, message.address);
            count += 1;
        }
        let received = |at: usize| &bytes[at * DATAGRAM_BYTES..][..lengths[at]];
        let slices: [[IoSlice<'_>; 1]; BATCH] =
            std::array::from_fn(|at| [IoSlice::new(received(at))]);
        let mut sent = 0;
        while sent < count {
            let (slices, to) = (&slices[sent..count], &sources[sent..count]);
            sent += sendmmsg(fd, &mut outgoing, slices, to, [], MsgFlags::empty())?.count();
        }
    }
}

/// The same with datagrams that the kernel leaves joined.
fn segments() -> Result<(), Failure> {
    let socket = UdpSocket::bind(HERE)?;
    setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    say(socket.local_addr()?)?;
    let fd = socket.as_raw_fd();
    let mut bytes = vec![0; JOINED_BYTES];
    let mut control = nix::cmsg_space!(i32);
    loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let none = MsgFlags::empty();
        let received = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), none)?;
        let each = received.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(each) => u16::try_from(each).ok(),
            _ => None,
        });
        let (length, from) = (received.bytes, received.address);
        let slices = [IoSlice::new(&bytes[..length])];
        let each = each.filter(|each| usize::from(*each) < length);
        let cut = each.as_ref().map(ControlMessage::UdpGsoSegments);
        sendmsg(fd, &slices, cut.as_slice(), none, from.as_ref())?;
    }
}

/// Serves every connection in a task of its own, on this thread.
fn accept<F>(serve: impl Fn(TcpStream) -> F + 'static) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(HERE).await?;
        say(listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A client that goes away ends its connection, and nothing else.
            spawn_local(serve(stream));
        }
    })
}

async fn stream_echo(stream: TcpStream, bytes: usize, answer_bytes: usize) -> Result<(), Failure> {
    let mut stream = stream;
    let mut room = vec![0; READ_BYTES];
    let answers = vec![b'1'; (READ_BYTES / bytes + 1) * answer_bytes];
    let mut rest = 0;
    loop {
        // Unlike `try_read`, this knows of a read that did not fill the room that no more is there, and
        // waits instead of asking the system in vain.
        let length = stream.read(&mut room).await?;
        if length == 0 {
            return Ok(());
        }
        let (count, left) = whole(rest, length, bytes);
        rest = left;
        stream.write_all(&answers[..count * answer_bytes]).await?;
    }
}

/// Answers every array; no word of whom it is asked by has an asterisk in it.
async fn resp_constant(
    stream: TcpStream,
    each: usize,
    answers: Bytes,
    watch: Option<Rc<Watch>>,
) -> Result<(), Failure> {
    let mut stream = stream;
    let mut room = vec![0; READ_BYTES];
    loop {
        let length = stream.read(&mut room).await?;
        if length == 0 {
            return Ok(());
        }
        if let Some(watch) = &watch {
            watch.go_on();
        }
        #[expect(clippy::naive_bytecount, reason = "one line of a benchmark is not worth a crate")]
        let count = room[..length].iter().filter(|byte| **byte == b'*').count();
        stream.write_all(&answers[..count * each]).await?;
    }
}

/// What keeps a runtime from sleeping for a while after something came.
#[derive(Default)]
struct Watch {
    until: Cell<Option<Instant>>,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "it is time that it waits for")]
    fn go_on(self: &Rc<Self>) {
        let is_over = self.until.replace(Some(Instant::now() + POLL)).is_none();
        if is_over {
            spawn_local(Rc::clone(self).keep());
        }
    }

    /// A task that wants to be polled again has the runtime look at its sockets and come back.
    #[expect(clippy::disallowed_methods, reason = "it is time that it waits for")]
    async fn keep(self: Rc<Self>) {
        while self.until.get().is_some_and(|until| Instant::now() < until) {
            yield_now().await;
        }
        self.until.set(None);
    }
}

fn polling_datagrams() -> Result<(), Failure> {
    let socket = UdpSocket::bind(HERE)?;
    socket.set_nonblocking(true)?;
    say(socket.local_addr()?)?;
    let mut room = [0; DATAGRAM_BYTES];
    loop {
        let wait = |is_blocking: bool| socket.set_nonblocking(!is_blocking);
        let (length, from) = look(wait, || socket.recv_from(&mut room))?;
        // With one request in flight there is room for its answer.
        socket.send_to(&room[..length], from)?;
    }
}

/// Serves every connection in a thread of its own.
fn polling_streams(bytes: usize, answer_bytes: usize) -> Result<(), Failure> {
    let listener = std::net::TcpListener::bind(HERE)?;
    say(listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept()?;
        // A client that goes away ends its connection, and nothing else.
        std::thread::spawn(move || polling_stream(&stream, bytes, answer_bytes));
    }
}

fn polling_stream(
    mut stream: &std::net::TcpStream,
    bytes: usize,
    answer_bytes: usize,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut room = vec![0; READ_BYTES];
    let answers = vec![b'1'; (READ_BYTES / bytes + 1) * answer_bytes];
    let mut rest = 0;
    loop {
        let wait = |is_blocking: bool| stream.set_nonblocking(!is_blocking);
        let length = look(wait, || stream.read(&mut room))?;
        if length == 0 {
            return Ok(());
        }
        let (count, left) = whole(rest, length, bytes);
        rest = left;
        // With one request in flight there is room for its answer.
        stream.write_all(&answers[..count * answer_bytes])?;
    }
}

/// What `take` finds, which does not wait; after some time in vain it is told to.
#[expect(clippy::disallowed_methods, reason = "it is time that it waits for")]
fn look<T>(
    wait: impl Fn(bool) -> std::io::Result<()>,
    mut take: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<T> {
    let begin = Instant::now();
    while begin.elapsed() < POLL {
        match take() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            taken => return taken,
        }
    }
    wait(true)?;
    let taken = take();
    wait(false)?;
    taken
}

/// How many requests of so many bytes are complete, and how much of another is there.
fn whole(rest: usize, length: usize, bytes: usize) -> (usize, usize) {
    ((rest + length) / bytes, (rest + length) % bytes)
}

/// What hyper costs if nothing else does.
async fn http_constant(stream: TcpStream, body: Bytes) -> Result<(), Failure> {
    let answer = |request: Request<Incoming>| {
        let body = body.clone();
        async move {
            // Whoever answers has read the question.
            let _ = request.into_body().collect().await;
            let mut response = Response::new(Full::new(body));
            let json = hyper::header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
            Ok::<_, Infallible>(response)
        }
    };
    let mut http = http1::Builder::new();
    http.pipeline_flush(true);
    Ok(http.serve_connection(TokioIo::new(stream), service_fn(answer)).await?)
}

#[cfg(test)]
mod tests;
