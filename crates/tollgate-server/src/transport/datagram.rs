//! The loop for doors whose clients send one datagram and wait for one.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::SockaddrStorage;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::{JoinSet, yield_now};
use tollgate_protocol::{Counts, DatagramDoor, Replies};

use super::Street;
use super::admission::is_allowed;
use super::batch::{self, BATCH, Receiver, Sender};
use super::request_log::RequestLog;
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
    replies: Replies,
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
        loop {
            tokio::select! {
                biased;
                () = &mut draining => break,
                ready = socket.readable() => {
                    let batch = ready.and_then(|()| Ok(worker.receiver.receive(&socket)?));
                    let is_all = match &batch {
                        Ok(()) => !worker.receiver.is_full(),
                        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                    };
                    if is_all {
                        // The system says when there is more; asking it would be in vain.
                        clear_readiness(&socket, Interest::READABLE);
                    }
                    match batch {
                        Ok(()) => worker.answer().await,
                        Err(_) if is_all => {}
                        Err(error) => {
                            worker.cannot_receive(&error);
                            yield_now().await;
                        }
                    }
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
    /// Answers what was received, a batch at a time.
    async fn answer(&mut self) {
        let Self { desk, socket, receiver, waiting } = self;
        let mut datagrams = receiver.datagrams();
        loop {
            let mut requests: [&[u8]; BATCH] = [&[]; BATCH];
            let mut sources: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
            let (mut count, mut ignored) = (0, 0);
            for (request, source) in datagrams.by_ref().take(BATCH) {
                // A byte too many is enough to be seen as too long, and all that is kept of it.
                let request = &request[..request.len().min(D::REQUEST_BYTES_MAX + 1)];
                if desk.datagrams.may_ask(source) {
                    (requests[count], sources[count]) = (request, source.copied());
                    count += 1;
                } else {
                    ignored += 1;
                }
            }
            let taken = count + ignored;
            if taken == 0 {
                return;
            }
            let (requests, sources) = (&requests[..count], &mut sources[..count]);
            let ignored = u64::try_from(ignored).unwrap_or(u64::MAX);
            let counts = Counts { ignored, ..Counts::default() };
            if desk.datagrams.door.waits() {
                desk.answer_later(socket, requests, sources, counts, waiting).await;
            } else {
                desk.answer(socket, requests, sources, counts).await;
            }
            if taken < BATCH {
                return;
            }
            // The other doors of this worker have their turn, however many datagrams wait.
            yield_now().await;
        }
    }

    fn cannot_receive(&self, error: &std::io::Error) {
        tracing::debug!(door = self.desk.datagrams.name, %error, "cannot receive");
    }
}

impl<D: DatagramDoor> Desk<D> {
    fn new(datagrams: Datagrams<D>, street: Street, index: usize, sender: Sender) -> Self {
        Self { datagrams, street, index, sender, replies: Replies::default() }
    }

    /// Has the batch answered while others are received.
    async fn answer_later(
        &self,
        socket: &Rc<UdpSocket>,
        requests: &[&[u8]],
        sources: &[Option<SockaddrStorage>],
        counts: Counts,
        waiting: &mut JoinSet<()>,
    ) {
        let requests: Vec<Vec<u8>> = requests.iter().map(|request| request.to_vec()).collect();
        let mut sources = sources.to_vec();
        let Self { datagrams, street, index, .. } = self;
        let mut desk = Self::new(datagrams.clone(), street.clone(), *index, self.sender.another());
        let socket = Rc::clone(socket);
        if waiting.len() >= WAITING_BATCHES_MAX {
            waiting.join_next().await;
        }
        waiting.spawn_local(async move {
            let requests: Vec<&[u8]> = requests.iter().map(Vec::as_slice).collect();
            desk.answer(&socket, &requests, &mut sources, counts).await;
        });
        while waiting.try_join_next().is_some() {}
    }

    async fn answer(
        &mut self,
        socket: &UdpSocket,
        requests: &[&[u8]],
        sources: &mut [Option<SockaddrStorage>],
        mut counts: Counts,
    ) {
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

        let mut replies: [&[u8]; BATCH] = [&[]; BATCH];
        let mut count = 0;
        for (index, reply) in self.replies.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            replies[count] = reply;
            if count < index {
                sources[count] = sources[index];
            }
            count += 1;
        }
        let lost = send(&mut self.sender, socket, &replies[..count], &sources[..count]).await;
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
    let _ = socket.try_io(interest, || Err::<(), _>(std::io::ErrorKind::WouldBlock.into()));
}
