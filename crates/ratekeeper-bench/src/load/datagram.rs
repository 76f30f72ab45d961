//! A socket for datagrams.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use ratekeeper::Moment;
use ratekeeper_client::{Failure, Server};
use ratekeeper_server::batch::{BATCH, CONNECTED, Receiver, Sender, join};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::stage::Asker;
use super::wire::udp::UdpWire;

/// How long an answer can be, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 11;

/// A socket that only hears this address; and if nobody listens there, it may be told. With several
/// `segments`, it takes answers that come as one.
pub(crate) async fn open(
    server: &Server,
    to: SocketAddr,
    segments: usize,
) -> Result<UdpSocket, Failure> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let failed = |source| Failure::Connect { server: server.clone(), source };
    let socket = UdpSocket::bind(any).await.map_err(failed)?;
    socket.connect(to).await.map_err(failed)?;
    if segments > 1 {
        // If the system cannot, each answer comes for itself.
        let _ = join(&socket);
    }
    Ok(socket)
}

/// What all sockets send and receive with: many datagrams in one system call.
pub(crate) struct Batches {
    receiver: Receiver,
    sender: Sender,
}

impl Batches {
    /// Up to `segments` datagrams are sent as one.
    pub(crate) fn new(segments: usize) -> Self {
        let receiver = match segments {
            1 => Receiver::new(ANSWER_BYTES_MAX),
            _ => Receiver::joined(),
        };
        Self { receiver, sender: Sender::new(segments) }
    }
}

/// Asks over one socket until the run is over.
pub(crate) struct Poster {
    asker: Asker,
    wire: Rc<UdpWire>,
    batches: Rc<RefCell<Batches>>,
    out: Vec<u8>,
    /// Where each datagram in `out` ends.
    ends: Vec<usize>,
    /// How many of them are sent.
    sent: usize,
}

impl Poster {
    pub(crate) fn new(asker: Asker, wire: &Rc<UdpWire>, batches: &Rc<RefCell<Batches>>) -> Self {
        let (wire, batches) = (Rc::clone(wire), Rc::clone(batches));
        Self { asker, wire, batches, out: Vec::new(), ends: Vec::new(), sent: 0 }
    }

    /// Datagrams that are not answered in time are lost, and not waited for. Refuses a server that
    /// is not there.
    pub(crate) async fn run(mut self, socket: UdpSocket) -> Result<(), Failure> {
        let talked = self.talk(&socket).await;
        // What was sent may have been spent, even if nobody waits for the answer.
        self.asker.give_up_all();
        self.asker.tell();
        talked
    }

    async fn talk(&mut self, socket: &UdpSocket) -> Result<(), Failure> {
        loop {
            let now = self.asker.stage.clock.now();
            self.asker.give_up(now);
            self.ask(now);
            if self.asker.is_done(now) {
                return Ok(());
            }
            self.send(socket)?;
            self.asker.tell();
            if self.look(socket)? {
                continue;
            }
            let ready = tokio::select! {
                biased;
                ready = socket.readable() => ready,
                ready = socket.writable(), if self.sent < self.ends.len() => {
                    ready.map_err(|source| self.talking(source))?;
                    continue;
                }
                () = self.asker.line.wake.notified() => continue,
            };
            ready.map_err(|source| self.talking(source))?;
            self.receive(socket)?;
        }
    }

    fn ask(&mut self, now: Moment) {
        for _ in 0..self.asker.ready(now) {
            let number = self.asker.flight.next();
            let asked = self.asker.ask(now);
            self.wire.ask(number, asked.key, &mut self.out);
            self.ends.push(self.out.len());
        }
    }

    /// Sends as much as the system takes now.
    fn send(&mut self, socket: &UdpSocket) -> Result<(), Failure> {
        while self.sent < self.ends.len() {
            let mut batch: [&[u8]; BATCH] = [&[]; BATCH];
            let mut count = 0;
            for (index, room) in (self.sent..self.ends.len()).zip(&mut batch) {
                let begin = if index == 0 { 0 } else { self.ends[index - 1] };
                *room = &self.out[begin..self.ends[index]];
                count += 1;
            }
            let mut batches = self.batches.borrow_mut();
            let sent = socket.try_io(Interest::WRITABLE, || {
                let (batch, to) = (&batch[..count], &[0; BATCH][..count]);
                batches.sender.send(socket, batch, to, &CONNECTED).map_err(io::Error::from)
            });
            drop(batches);
            match sent {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(source) => return self.bear(source),
            }
        }
        self.out.clear();
        self.ends.clear();
        self.sent = 0;
        Ok(())
    }

    /// Looks for answers without the runtime, if this socket is to. Says whether it heard anything.
    fn look(&mut self, socket: &UdpSocket) -> Result<bool, Failure> {
        let batches = Rc::clone(&self.batches);
        let receiver = &mut batches.borrow_mut().receiver;
        let heard = (0..self.asker.stage.looks()).find_map(|_| {
            let heard = receiver.receive(socket).map_err(io::Error::from);
            (!is_nothing(&heard)).then_some(heard)
        });
        heard.map_or(Ok(false), |heard| self.take(heard, receiver).map(|()| true))
    }

    /// Accounts for every answer that has arrived.
    fn receive(&mut self, socket: &UdpSocket) -> Result<(), Failure> {
        let batches = Rc::clone(&self.batches);
        let receiver = &mut batches.borrow_mut().receiver;
        let receive = || receiver.receive(socket).map_err(io::Error::from);
        let heard = socket.try_io(Interest::READABLE, receive);
        if is_nothing(&heard) { Ok(()) } else { self.take(heard, receiver) }
    }

    fn take(&mut self, heard: io::Result<()>, receiver: &Receiver) -> Result<(), Failure> {
        if let Err(source) = heard {
            return self.bear(source);
        }
        let now = self.asker.stage.clock.now();
        for (datagram, _from) in receiver.datagrams() {
            let Some((number, answer)) = self.wire.answer(datagram) else { continue };
            // It may have come after all, when nobody waited for it any more.
            if let Some(asked) = self.asker.flight.take(number) {
                self.asker.account(&asked, now, &answer);
            }
        }
        Ok(())
    }

    /// A server that has answered may be away for a moment; what it misses is lost.
    fn bear(&self, source: io::Error) -> Result<(), Failure> {
        let failure = self.talking(source);
        if self.asker.answered == 0 {
            return Err(failure);
        }
        self.asker.stage.note(failure);
        Ok(())
    }

    fn talking(&self, source: io::Error) -> Failure {
        Failure::Talk { server: self.asker.stage.target.server.clone(), source }
    }
}

/// Whether there was nothing to receive.
fn is_nothing(heard: &io::Result<()>) -> bool {
    heard.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
