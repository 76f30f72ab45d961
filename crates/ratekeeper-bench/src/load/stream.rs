//! A connection over TCP.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::rc::Rc;

use ratekeeper::{Moment, Nanos};
use ratekeeper_client::{Failure, Server};
use socket2::SockRef;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;

use super::input::Input;
use super::stage::Asker;
use super::wire::{Strange, Wire};

/// Connects to the first address that lets us, waiting `timeout` for each.
pub(crate) async fn connect(
    server: &Server,
    addresses: &[SocketAddr],
    timeout: Nanos,
) -> Result<TcpStream, Failure> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let connecting = TcpStream::connect(address);
        match tokio::time::timeout(timeout.into(), connecting).await {
            Ok(Ok(stream)) => {
                let ready = stream.set_nodelay(true);
                let talk = |source| Failure::Talk { server: server.clone(), source };
                return ready.map(|()| stream).map_err(talk);
            }
            Ok(Err(error)) => failed = error,
            Err(_late) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(Failure::Connect { server: server.clone(), source: failed })
}

/// Asks over one connection after the other, as each is lost, until the run is over.
pub(crate) struct Caller {
    pub(crate) asker: Asker,
    pub(crate) wire: Rc<dyn Wire>,
    pub(crate) addresses: Rc<[SocketAddr]>,
    pub(crate) out: Vec<u8>,
    /// How much of it is written.
    pub(crate) written: usize,
    pub(crate) input: Input,
}

impl Caller {
    pub(crate) fn new(asker: Asker, wire: &Rc<dyn Wire>, addresses: &Rc<[SocketAddr]>) -> Self {
        let (wire, addresses) = (Rc::clone(wire), Rc::clone(addresses));
        Self { asker, wire, addresses, out: Vec::new(), written: 0, input: Input::default() }
    }

    /// Refuses a server that lets us in and never answers, or no longer lets us in.
    pub(crate) async fn run(mut self, mut stream: TcpStream) -> Result<(), Failure> {
        loop {
            let before = self.asker.answered;
            let Err(failure) = self.talk(&mut stream).await else { return Ok(()) };
            self.asker.give_up_all();
            self.asker.tell();
            if self.asker.answered == before {
                return Err(failure);
            }
            let stage = Rc::clone(&self.asker.stage);
            stage.note(failure);
            if stage.is_over(stage.clock.now()) {
                return Ok(());
            }
            stream = stage.target.connect(&self.addresses).await?;
            stage.reconnects.set(stage.reconnects.get() + 1);
        }
    }

    /// Asks and reads answers until the run is over, or the connection is.
    async fn talk(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let (mut reader, writer) = stream.split();
        self.out.clear();
        self.written = 0;
        self.input.clear();
        loop {
            let now = self.asker.stage.clock.now();
            if self.asker.is_late(now) {
                return Err(self.slow());
            }
            self.ask(now);
            if self.asker.is_done(now) {
                return Ok(());
            }
            self.write(&writer)?;
            self.asker.tell();
            let looks = self.asker.stage.looks();
            let Some(room) = self.input.room() else { return Err(self.strange()) };
            let read = if let Some(read) = look(reader.as_ref(), room, looks) {
                read
            } else {
                tokio::select! {
                    biased;
                    read = reader.read(room) => read,
                    ready = writer.writable(), if self.written < self.out.len() => {
                        ready.map_err(|source| self.talking(source))?;
                        continue;
                    }
                    () = self.asker.line.wake.notified() => continue,
                }
            };
            let length = read.map_err(|source| self.talking(source))?;
            self.take(length)?;
        }
    }

    /// Puts what is to be sent behind what is not written yet.
    fn ask(&mut self, now: Moment) {
        for _ in 0..self.asker.ready(now) {
            let asked = self.asker.ask(now);
            self.wire.ask(asked.key, &mut self.out);
        }
    }

    /// Writes as much as the system takes now. Answers are read meanwhile, or a server that waits
    /// until they are would wait for ever.
    fn write(&mut self, writer: &WriteHalf<'_>) -> Result<(), Failure> {
        while self.written < self.out.len() {
            match writer.try_write(&self.out[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(source) => return Err(self.talking(source)),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Accounts for every answer in what was read.
    fn take(&mut self, length: usize) -> Result<(), Failure> {
        if length == 0 {
            return Err(self.closed());
        }
        let received = self.asker.stage.clock.now();
        self.input.grow(length);
        loop {
            match self.wire.answer(self.input.bytes()) {
                Ok(None) => return Ok(()),
                Ok(Some((answer, length))) => {
                    let Some(asked) = self.asker.flight.take_oldest() else { break };
                    self.asker.account(&asked, received, &answer);
                    self.input.skip(length);
                }
                Err(Strange) => break,
            }
        }
        Err(self.strange())
    }

    fn server(&self) -> Server {
        self.asker.stage.target.server.clone()
    }

    fn talking(&self, source: io::Error) -> Failure {
        match source.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => self.closed(),
            _ => Failure::Talk { server: self.server(), source },
        }
    }

    fn closed(&self) -> Failure {
        Failure::Closed { server: self.server(), received: self.input.bytes().len() }
    }

    fn slow(&self) -> Failure {
        let timeout = self.asker.stage.target.timeout;
        Failure::Slow { server: self.server(), timeout, received: self.input.bytes().len() }
    }

    fn strange(&self) -> Failure {
        let door = self.asker.stage.target.door.kind();
        Failure::Strange { server: self.server(), door, answer: self.input.shown() }
    }
}

/// Reads without the runtime if something comes while looking so often.
fn look(stream: &TcpStream, room: &mut [u8], looks: usize) -> Option<io::Result<usize>> {
    let socket = SockRef::from(stream);
    (0..looks).find_map(|_| match (&*socket).read(room) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        read => Some(read),
    })
}
