//! The loop for doors whose clients send one datagram and wait for one.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::SockaddrStorage;
use ratekeeper_protocol::{Counts, DatagramDoor, Replies};
use smallvec::SmallVec;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{JoinSet, yield_now};

use super::ServerContext;
use super::admission::is_allowed;
use super::batch::{self, BATCH, Part, Receiver, Sender};
use super::request_log::RequestLog;
use crate::counters::Counters;
use crate::wakeup::WakeFlag;

/// More batches than this do not wait in a socket: the least datagram takes some hundred bytes of the
/// 8 MiB that the system holds for it at most.
const UNDERWAY_BATCHES_MAX: usize = 1 << 10;

/// How many batches of a worker wait for buckets that are elsewhere at a time.
const WAITING_BATCHES_MAX: usize = 64;

/// How much a worker does for this door before the others have their turn, and what of that a datagram
/// takes that came alone, or as one with others: a batch of the former, some of the latter.
const EFFORT_MAX: usize = EFFORT_ALONE * BATCH;
const EFFORT_ALONE: usize = 4;
const EFFORT_JOINED: usize = 1;

/// A door for datagrams, with what its loop needs.
pub(crate) struct Datagrams<D> {
    pub(crate) name: &'static str,
    pub(crate) door: Arc<D>,
    pub(crate) allow: Vec<IpNet>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) log: Option<RequestLog>,
}

// Not derived: the door itself need not be cloned.
impl<D> Clone for Datagrams<D> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            door: Arc::clone(&self.door),
            allow: self.allow.clone(),
            counters: Arc::clone(&self.counters),
            log: self.log.clone(),
        }
    }
}

/// One worker's loop.
struct Worker<D> {
    buffers: WorkerBuffers<D>,
    socket: Rc<UdpSocket>,
    receiver: Receiver,
    /// Batches that wait for buckets that are elsewhere.
    waiting: JoinSet<()>,
    /// What was done since the other doors had their turn.
    effort: usize,
}

/// What it takes to answer a batch.
struct WorkerBuffers<D> {
    datagrams: Datagrams<D>,
    server_context: ServerContext,
    index: usize,
    sender: Sender,
    askers: Askers,
    replies: Replies,
}

/// Who asked what is to be answered.
#[derive(Clone, Default)]
struct Askers {
    /// Everybody; who sent several in a row, or as one, but once.
    all: Vec<Option<SockaddrStorage>>,
    /// For each of them a number, see [`batch::client`], if they sent several as one.
    joining: Vec<Option<u64>>,
    /// Of each request.
    origins: Vec<Origin>,
}

#[derive(Clone, Copy)]
struct Origin {
    /// The place of whoever asked.
    asker: usize,
    /// Whether it came as one with others.
    is_joined: bool,
}

impl Askers {
    fn clear(&mut self) {
        self.all.clear();
        self.joining.clear();
        self.origins.clear();
    }

    /// The place of whoever sent this, several as one or not.
    fn place(&mut self, source: Option<&SockaddrStorage>, is_joined: bool) -> usize {
        let is_this = |it: &Option<SockaddrStorage>| it.as_ref() == source;
        let client = source.filter(|_| is_joined).map(batch::client);
        if let (Some(last), Some(joining)) = (self.all.last(), self.joining.last_mut())
            && is_this(last)
        {
            *joining = joining.or(client);
            return self.all.len() - 1;
        }
        // Who sends several as one has as many answered as one, also if others sent in between.
        let is_known = |(other, it): (&_, &_)| *other == client && is_this(it);
        if is_joined && let Some(place) = self.joining.iter().zip(&self.all).position(is_known) {
            return place;
        }
        self.joining.push(client);
        self.all.push(source.copied());
        self.all.len() - 1
    }
}

impl<D: DatagramDoor> Datagrams<D> {
    /// Answers until the server is to stop, and then all that has arrived. To be run in a
    /// `LocalSet`.
    pub(crate) async fn serve(
        self,
        socket: UdpSocket,
        server_context: ServerContext,
        index: usize,
    ) {
        // A byte more than there may be, so that a longer datagram is seen to be one.
        let receiver = Receiver::joining(&socket, D::REQUEST_BYTES_MAX + 1);
        let draining = server_context.clone();
        let mut draining = pin!(draining.draining());
        let socket = Rc::new(socket);
        let buffers = WorkerBuffers::new(self, server_context, index, Sender::joining(&socket));
        let mut worker = Worker {
            buffers,
            socket: Rc::clone(&socket),
            receiver,
            waiting: JoinSet::new(),
            effort: 0,
        };
        let mut wakeup = WakeFlag::new();
        let mut has_answered = false;
        loop {
            let batch = if let Some(batch) = worker.look(has_answered).await {
                batch
            } else {
                let ready = poll_fn(|context| match wakeup.poll(draining.as_mut(), context) {
                    Some(Poll::Ready(())) => Poll::Ready(None),
                    _ => socket.poll_recv_ready(context).map(Some),
                });
                let Some(ready) = ready.await else { break };
                ready.and_then(|()| Ok(worker.receiver.receive(&socket)?))
            };
            let is_all = match &batch {
                Ok(()) => !worker.receiver.is_full(),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            if is_all {
                // The system says when there is more; asking it would be in vain.
                clear_readiness(&socket, Interest::READABLE);
                worker.effort = 0;
            }
            has_answered = batch.is_ok();
            match batch {
                Ok(()) => worker.answer().await,
                Err(_) if is_all => {}
                Err(error) => {
                    worker.cannot_receive(&error);
                    yield_now().await;
                }
            }
        }
        // What has arrived is answered. Who sends on and on is not answered for ever.
        for _ in 0..UNDERWAY_BATCHES_MAX {
            if worker.receiver.receive(&socket).is_err() {
                break;
            }
            worker.answer().await;
            yield_now().await;
        }
        while worker.waiting.join_next().await.is_some() {}
    }
}

impl<D: DatagramDoor> Worker<D> {
    /// Receives what comes next without the runtime, for as long as the worker stays awake for it.
    async fn look(&mut self, has_answered: bool) -> Option<io::Result<()>> {
        let lookout = self.buffers.server_context.lookout().filter(|_| has_answered)?;
        let (receiver, socket) = (&mut self.receiver, &self.socket);
        let receive = || match receiver.receive(socket) {
            Err(Errno::EAGAIN) => None,
            batch => Some(batch.map_err(io::Error::from)),
        };
        lookout.look(|| self.buffers.server_context.time.now(), receive).await
    }

    /// Answers what was received, a batch at a time.
    async fn answer(&mut self) {
        let Self { buffers, socket, receiver, waiting, effort } = self;
        let mut parts = receiver.parts();
        loop {
            let mut requests: SmallVec<[&[u8]; BATCH]> = SmallVec::new();
            let (mut ignored, mut last) = (0, None);
            buffers.askers.clear();
            for Part { bytes, room, is_joined } in parts.by_ref().take(BATCH) {
                // What came as one came from one.
                let asker = match last {
                    Some((other, asker)) if other == room => asker,
                    _ => {
                        let source = receiver.source(room);
                        let may_ask = buffers.datagrams.may_ask(source);
                        may_ask.then(|| buffers.askers.place(source, is_joined))
                    }
                };
                last = Some((room, asker));
                *effort += if is_joined { EFFORT_JOINED } else { EFFORT_ALONE };
                let Some(asker) = asker else {
                    ignored += 1;
                    continue;
                };
                // A byte too many is enough to be seen as too long, and all that is kept of it.
                requests.push(&bytes[..bytes.len().min(D::REQUEST_BYTES_MAX + 1)]);
                buffers.askers.origins.push(Origin { asker, is_joined });
            }
            let taken = requests.len() + ignored;
            if taken == 0 {
                return;
            }
            let ignored = u64::try_from(ignored).unwrap_or(u64::MAX);
            let counts = Counts { ignored, ..Counts::default() };
            if buffers.datagrams.door.waits() {
                buffers.answer_later(socket, &requests, counts, waiting).await;
            } else {
                buffers.answer(socket, &requests, counts).await;
            }
            // The other doors of this worker have their turn, however many datagrams wait.
            if *effort >= EFFORT_MAX {
                *effort = 0;
                yield_now().await;
            }
            if taken < BATCH {
                return;
            }
        }
    }

    fn cannot_receive(&self, error: &io::Error) {
        tracing::debug!(door = self.buffers.datagrams.name, %error, "cannot receive");
    }
}

impl<D: DatagramDoor> WorkerBuffers<D> {
    fn new(
        datagrams: Datagrams<D>,
        server_context: ServerContext,
        index: usize,
        sender: Sender,
    ) -> Self {
        let (askers, replies) = (Askers::default(), Replies::default());
        Self { datagrams, server_context, index, sender, askers, replies }
    }

    /// Has the batch answered while others are received.
    async fn answer_later(
        &self,
        socket: &Rc<UdpSocket>,
        requests: &[&[u8]],
        counts: Counts,
        waiting: &mut JoinSet<()>,
    ) {
        let requests: Vec<Vec<u8>> = requests.iter().map(|request| request.to_vec()).collect();
        let Self { datagrams, server_context, index, .. } = self;
        let mut buffers =
            Self::new(datagrams.clone(), server_context.clone(), *index, self.sender.another());
        buffers.askers.clone_from(&self.askers);
        let socket = Rc::clone(socket);
        if waiting.len() >= WAITING_BATCHES_MAX {
            waiting.join_next().await;
        }
        waiting.spawn_local(async move {
            let requests: Vec<&[u8]> = requests.iter().map(Vec::as_slice).collect();
            buffers.answer(&socket, &requests, counts).await;
        });
        while waiting.try_join_next().is_some() {}
    }

    /// Answers the requests of the askers.
    async fn answer(&mut self, socket: &UdpSocket, requests: &[&[u8]], mut counts: Counts) {
        let counters = self.datagrams.counters.worker(self.index);
        self.replies.clear();
        let now = self.server_context.time.now();
        let door = &self.datagrams.door;
        let answering = door.answer_wherever(requests, now, &mut self.replies, &mut counts);
        if door.waits() {
            // However many trips it takes.
            ratekeeper_redis::in_time(self.server_context.patience, answering).await;
        } else {
            answering.await;
        }
        counters.add(&counts);
        if let Some(log) = &mut self.datagrams.log {
            log.write(requests, &self.replies, self.server_context.time.wall());
        }

        let mut outgoing = Outgoing::default();
        outgoing.arrange::<D>(requests, &self.askers.origins, &self.replies);
        let lost = send(&mut self.sender, socket, &outgoing, &self.askers.all).await;
        if lost > 0 {
            counters.dropped(lost);
        }
        counters.took(self.server_context.time.now().since(now), counts.requests);
    }
}

impl<D> Datagrams<D> {
    fn may_ask(&self, source: Option<&SockaddrStorage>) -> bool {
        if self.allow.is_empty() {
            return true;
        }
        let address = source.and_then(batch::address);
        address.is_some_and(|address| is_allowed(&self.allow, address.ip().to_canonical()))
    }
}

/// The replies of a batch, without those that are empty, in the order in which they are sent.
#[derive(Default)]
struct Outgoing<'r> {
    replies: SmallVec<[&'r [u8]; BATCH]>,
    /// The place of whoever each is for.
    to: SmallVec<[usize; BATCH]>,
}

impl<'r> Outgoing<'r> {
    /// Those to one client that are equally long go as one, so they come one behind the other where
    /// their requests came as one and the client can tell them apart. All others keep their order.
    fn arrange<D: DatagramDoor>(
        &mut self,
        requests: &[&[u8]],
        origins: &[Origin],
        replies: &'r Replies,
    ) {
        let mut ranks: SmallVec<[Rank; BATCH]> = SmallVec::new();
        let asked = requests.iter().zip(origins);
        for ((request, origin), reply) in asked.zip(replies.iter()) {
            if reply.is_empty() {
                continue;
            }
            let is_grouped = origin.is_joined && D::is_told_apart(request);
            ranks.push(Rank::new(self.replies.len(), is_grouped.then_some(origin), reply));
            self.replies.push(reply);
            self.to.push(origin.asker);
        }
        if !ranks.is_sorted() {
            ranks.sort_unstable();
            let places = ranks.iter().map(|rank| rank.place());
            self.replies = places.clone().map(|place| self.replies[place]).collect();
            self.to = places.map(|place| self.to[place]).collect();
        }
    }
}

/// Where in the order of sending a reply comes, in one number: from the highest bits on, who asked if
/// it may go with others, how much shorter it is than the longest there can be, because of those that go
/// as one only the last may be shorter, and its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u64);

/// Places fit, and so do those of who asked.
const _: () = assert!(BATCH < 1 << Rank::PLACE_BITS);

impl Rank {
    const PLACE_BITS: u32 = 16;
    const LENGTH_BITS: u32 = 32;

    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits")]
    fn place(self) -> usize {
        self.0 as usize & ((1 << Self::PLACE_BITS) - 1)
    }

    fn new(place: usize, group: Option<&Origin>, reply: &[u8]) -> Self {
        let group = group.map_or(0, |origin| {
            let shorter = u32::MAX - u32::try_from(reply.len()).unwrap_or(u32::MAX);
            (origin.asker as u64 + 1) << Self::LENGTH_BITS | u64::from(shorter)
        });
        Self(group << Self::PLACE_BITS | place as u64)
    }
}

/// Sends every reply that can be sent. Returns how many cannot.
async fn send(
    sender: &mut Sender,
    socket: &UdpSocket,
    outgoing: &Outgoing<'_>,
    askers: &[Option<SockaddrStorage>],
) -> usize {
    let (mut replies, mut to) = (&*outgoing.replies, &*outgoing.to);
    let mut lost = 0;
    while !replies.is_empty() {
        let done = match sender.send(socket, replies, to, askers) {
            Ok(sent) => sent,
            Err(Errno::EAGAIN) => {
                if socket.writable().await.is_err() {
                    return lost + replies.len();
                }
                // The next call finds out.
                clear_readiness(socket, Interest::WRITABLE);
                0
            }
            // The first of them cannot be sent, whatever the reason: it may be that nobody is
            // there any more. The others can.
            Err(_) => {
                lost += 1;
                1
            }
        };
        (replies, to) = (&replies[done..], &to[done..]);
    }
    lost
}

/// Has the runtime forget what it believes of the socket until the system says it again.
fn clear_readiness(socket: &UdpSocket, interest: Interest) {
    let _ = socket.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}

#[cfg(test)]
mod tests;
