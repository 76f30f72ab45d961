//! The loop for doors whose clients send one datagram and wait for one.

use std::cmp::Reverse;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::SockaddrStorage;
use smallvec::SmallVec;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{JoinSet, yield_now};
use tollgate_protocol::{Counts, DatagramDoor, Replies};

use super::Street;
use super::admission::is_allowed;
use super::batch::{self, BATCH, Receiver, Sender};
use super::request_log::RequestLog;
use crate::bell::Bell;
use crate::counters::Counters;

/// More batches than this do not wait in a socket: the least datagram takes some hundred bytes of the
/// 8 MiB that the system holds for it at most.
const UNDERWAY_BATCHES_MAX: usize = 1 << 10;

/// How many batches of a worker wait for buckets that are elsewhere at a time.
const WAITING_BATCHES_MAX: usize = 64;

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
    desk: Desk<D>,
    socket: Rc<UdpSocket>,
    receiver: Receiver,
    /// Batches that wait for buckets that are elsewhere.
    waiting: JoinSet<()>,
}

/// What it takes to answer a batch.
struct Desk<D> {
    datagrams: Datagrams<D>,
    street: Street,
    index: usize,
    sender: Sender,
    /// Who asked what is to be answered, and whether it came as one with others.
    sources: Vec<(Option<SockaddrStorage>, bool)>,
    replies: Replies,
    /// Whom the replies go to, in the order in which they are sent.
    targets: Vec<Option<SockaddrStorage>>,
}

impl<D: DatagramDoor> Datagrams<D> {
    /// Answers until the server is to stop, and then all that has arrived. To be run in a
    /// `LocalSet`.
    pub(crate) async fn serve(self, socket: UdpSocket, street: Street, index: usize) {
        // A byte more than there may be, so that a longer datagram is seen to be one.
        let receiver = Receiver::joining(&socket, D::REQUEST_BYTES_MAX + 1);
        let draining = street.clone();
        let mut draining = pin!(draining.draining());
        let socket = Rc::new(socket);
        let desk = Desk::new(self, street, index, Sender::joining(&socket));
        let mut worker =
            Worker { desk, socket: Rc::clone(&socket), receiver, waiting: JoinSet::new() };
        let mut bell = Bell::new();
        let mut has_answered = false;
        loop {
            let batch = if let Some(batch) = worker.look(has_answered).await {
                batch
            } else {
                let ready = poll_fn(|context| match bell.poll(draining.as_mut(), context) {
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
        let lookout = self.desk.street.lookout().filter(|_| has_answered)?;
        let (receiver, socket) = (&mut self.receiver, &self.socket);
        let receive = || match receiver.receive(socket) {
            Err(Errno::EAGAIN) => None,
            batch => Some(batch.map_err(io::Error::from)),
        };
        lookout.look(|| self.desk.street.time.now(), receive).await
    }

    /// Answers what was received, a batch at a time.
    async fn answer(&mut self) {
        let Self { desk, socket, receiver, waiting } = self;
        let mut datagrams = receiver.parts();
        loop {
            let mut requests: SmallVec<[&[u8]; BATCH]> = SmallVec::new();
            let mut ignored = 0;
            desk.sources.clear();
            for (request, source, is_joined) in datagrams.by_ref().take(BATCH) {
                // A byte too many is enough to be seen as too long, and all that is kept of it.
                let request = &request[..request.len().min(D::REQUEST_BYTES_MAX + 1)];
                if desk.datagrams.may_ask(source) {
                    requests.push(request);
                    desk.sources.push((source.copied(), is_joined));
                } else {
                    ignored += 1;
                }
            }
            let taken = requests.len() + ignored;
            if taken == 0 {
                return;
            }
            let ignored = u64::try_from(ignored).unwrap_or(u64::MAX);
            let counts = Counts { ignored, ..Counts::default() };
            if desk.datagrams.door.waits() {
                desk.answer_later(socket, &requests, counts, waiting).await;
            } else {
                desk.answer(socket, &requests, counts).await;
            }
            if taken < BATCH {
                return;
            }
            // The other doors of this worker have their turn, however many datagrams wait.
            yield_now().await;
        }
    }

    fn cannot_receive(&self, error: &io::Error) {
        tracing::debug!(door = self.desk.datagrams.name, %error, "cannot receive");
    }
}

impl<D: DatagramDoor> Desk<D> {
    fn new(datagrams: Datagrams<D>, street: Street, index: usize, sender: Sender) -> Self {
        let (sources, targets) = (Vec::new(), Vec::new());
        Self { datagrams, street, index, sender, sources, replies: Replies::default(), targets }
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
        let Self { datagrams, street, index, .. } = self;
        let mut desk = Self::new(datagrams.clone(), street.clone(), *index, self.sender.another());
        desk.sources.clone_from(&self.sources);
        let socket = Rc::clone(socket);
        if waiting.len() >= WAITING_BATCHES_MAX {
            waiting.join_next().await;
        }
        waiting.spawn_local(async move {
            let requests: Vec<&[u8]> = requests.iter().map(Vec::as_slice).collect();
            desk.answer(&socket, &requests, counts).await;
        });
        while waiting.try_join_next().is_some() {}
    }

    /// Answers the requests of the sources.
    async fn answer(&mut self, socket: &UdpSocket, requests: &[&[u8]], mut counts: Counts) {
        let counters = self.datagrams.counters.worker(self.index);
        self.replies.clear();
        let now = self.street.time.now();
        let door = &self.datagrams.door;
        let answering = door.answer_wherever(requests, now, &mut self.replies, &mut counts);
        if door.waits() {
            // However many trips it takes.
            tollgate_redis::in_time(self.street.patience, answering).await;
        } else {
            answering.await;
        }
        counters.add(&counts);
        if let Some(log) = &mut self.datagrams.log {
            log.write(requests, &self.replies);
        }

        let mut replies = SmallVec::new();
        let (sources, targets) = (&self.sources, &mut self.targets);
        arrange::<D>(requests, sources, &self.replies, targets, &mut replies);
        let lost = send(&mut self.sender, socket, &replies, &self.targets).await;
        if lost > 0 {
            counters.dropped(lost);
        }
        counters.took(self.street.time.now().since(now), counts.requests);
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

/// The replies of a batch, without those that are empty.
type Outgoing<'r> = SmallVec<[&'r [u8]; BATCH]>;

/// Puts the replies in the order in which they are sent, and their targets.
fn arrange<'r, D: DatagramDoor>(
    requests: &[&[u8]],
    sources: &[(Option<SockaddrStorage>, bool)],
    replies: &'r Replies,
    targets: &mut Vec<Option<SockaddrStorage>>,
    outgoing: &mut Outgoing<'r>,
) {
    targets.clear();
    if sources.iter().any(|(_, is_joined)| *is_joined) {
        return regroup::<D>(requests, sources, replies, targets, outgoing);
    }
    for ((source, _), reply) in sources.iter().zip(replies.iter()) {
        if !reply.is_empty() {
            targets.push(*source);
            outgoing.push(reply);
        }
    }
}

/// Those to one client that are equally long go as one, so they come one behind the other where their
/// requests came as one and the client can tell them apart. All others keep their order.
fn regroup<'r, D: DatagramDoor>(
    requests: &[&[u8]],
    sources: &[(Option<SockaddrStorage>, bool)],
    replies: &'r Replies,
    targets: &mut Vec<Option<SockaddrStorage>>,
    outgoing: &mut Outgoing<'r>,
) {
    let mut order: SmallVec<[_; BATCH]> = SmallVec::new();
    let asked = requests.iter().zip(sources).enumerate();
    for ((index, (request, (source, is_joined))), reply) in asked.zip(replies.iter()) {
        if reply.is_empty() {
            continue;
        }
        // The longest first: of those that go as one, only the last may be shorter.
        let group = (*is_joined && D::is_told_apart(request))
            .then(|| (source.as_ref().map(batch::client), Reverse(reply.len())));
        order.push((group, index, reply));
    }
    order.sort_unstable_by_key(|(group, index, _)| (*group, *index));
    targets.extend(order.iter().map(|(_, index, _)| sources[*index].0));
    outgoing.extend(order.iter().map(|(_, _, reply)| *reply));
}

/// Sends every reply that can be sent. Returns how many cannot.
async fn send(
    sender: &mut Sender,
    socket: &UdpSocket,
    mut replies: &[&[u8]],
    mut targets: &[Option<SockaddrStorage>],
) -> usize {
    let mut lost = 0;
    while !replies.is_empty() {
        let done = match sender.send(socket, replies, targets) {
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
        (replies, targets) = (&replies[done..], &targets[done..]);
    }
    lost
}

/// Has the runtime forget what it believes of the socket until the system says it again.
fn clear_readiness(socket: &UdpSocket, interest: Interest) {
    let _ = socket.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}
