//! The loop for doors whose clients send one datagram and wait for one.

use std::pin::pin;
use std::sync::Arc;

use ipnet::IpNet;
use nix::errno::Errno;
use nix::sys::socket::SockaddrStorage;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::yield_now;
use tollgate_protocol::{Counts, DatagramDoor, Replies};

use super::Street;
use super::admission::is_allowed;
use super::batch::{self, BATCH, Receiver, Sender};
use super::request_log::RequestLog;
use crate::counters::Counters;

/// More batches than this do not wait in a socket: the least datagram takes some hundred bytes of the
/// 8 MiB that the system holds for it at most.
const UNDERWAY_BATCHES_MAX: usize = 1 << 10;

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
    datagrams: Datagrams<D>,
    street: Street,
    index: usize,
    receiver: Receiver,
    sender: Sender,
    replies: Replies,
}

impl<D: DatagramDoor> Datagrams<D> {
    /// Answers until the server is to stop, and then all that has arrived.
    pub(crate) async fn serve(self, socket: UdpSocket, street: Street, index: usize) {
        // A byte more than there may be, so that a longer datagram is seen to be one.
        let receiver = Receiver::new(D::REQUEST_BYTES_MAX + 1);
        let (sender, replies) = (Sender::new(), Replies::default());
        let draining = street.clone();
        let mut draining = pin!(draining.draining());
        let mut worker = Worker { datagrams: self, street, index, receiver, sender, replies };
        loop {
            tokio::select! {
                biased;
                () = &mut draining => break,
                ready = socket.readable() => {
                    let batch = ready.and_then(|()| {
                        socket.try_io(Interest::READABLE, || Ok(worker.receiver.receive(&socket)?))
                    });
                    match batch {
                        Ok(()) => worker.answer(&socket).await,
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => worker.cannot_receive(&error),
                    }
                    // The other doors of this worker have their turn, however many datagrams wait.
                    yield_now().await;
                }
            }
        }
        // What has arrived is answered. Who sends on and on is not answered for ever.
        for _ in 0..UNDERWAY_BATCHES_MAX {
            if worker.receiver.receive(&socket).is_err() {
                break;
            }
            worker.answer(&socket).await;
            yield_now().await;
        }
    }
}

impl<D: DatagramDoor> Worker<D> {
    /// Answers the batch that was received.
    async fn answer(&mut self, socket: &UdpSocket) {
        let counters = self.datagrams.counters.worker(self.index);
        let mut counts = Counts::default();
        let mut requests: [&[u8]; BATCH] = [&[]; BATCH];
        let mut sources: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
        let mut count = 0;
        for (request, source) in self.receiver.datagrams() {
            if self.datagrams.may_ask(source.as_ref()) {
                (requests[count], sources[count]) = (request, source);
                count += 1;
            } else {
                counts.ignored = counts.ignored.saturating_add(1);
            }
        }
        let requests = &requests[..count];
        self.replies.clear();
        let now = self.street.time.now();
        self.datagrams.door.answer(requests, now, &mut self.replies, &mut counts);
        counters.add(&counts);
        if let Some(log) = &mut self.datagrams.log {
            log.write(requests, &self.replies);
        }

        let mut replies: [&[u8]; BATCH] = [&[]; BATCH];
        let mut count = 0;
        for (index, reply) in self.replies.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            (replies[count], sources[count]) = (reply, sources[index]);
            count += 1;
        }
        let lost = send(&mut self.sender, socket, &replies[..count], &sources[..count]).await;
        if lost > 0 {
            counters.dropped(lost);
        }
        counters.took(self.street.time.now().since(now), counts.requests);
    }

    fn cannot_receive(&self, error: &std::io::Error) {
        tracing::debug!(door = self.datagrams.name, %error, "cannot receive");
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
                // Asking the runtime clears what it believes; the next call finds out.
                let _ = socket.try_io(Interest::WRITABLE, || {
                    Err::<(), _>(std::io::ErrorKind::WouldBlock.into())
                });
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
