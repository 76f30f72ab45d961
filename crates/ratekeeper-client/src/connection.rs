//! A connection on which each request waits for its answer.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use ratekeeper::Nanos;

use crate::deadline::{Deadline, is_timeout};
use crate::{Failure, Server};

/// How much is read at once; no answer of most servers is longer.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// A connection to a server, and what came in on it that nobody took yet.
pub(crate) struct Connection {
    stream: TcpStream,
    server: Server,
    timeout: Nanos,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to the first address of the server that lets us, waiting `timeout` for each.
    pub(crate) fn open(server: &Server, timeout: Nanos) -> Result<Self, Failure> {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in server.addresses()? {
            match TcpStream::connect_timeout(&address, timeout.into()) {
                Ok(stream) => {
                    let connection =
                        Self { stream, server: server.clone(), timeout, received: Vec::new() };
                    // A request is one small write, and whoever sent it waits.
                    let ready = connection.stream.set_nodelay(true);
                    return ready.map(|()| connection).map_err(|source| talk(server, source));
                }
                Err(error) => failed = error,
            }
        }
        Err(Failure::Connect { server: server.clone(), source: failed })
    }

    /// Sends `request` and waits for the line that answers it, which is returned without its end.
    pub(crate) fn ask_line(&mut self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut line = self.ask_value(request, ANSWER_BYTES_MAX, |received| {
            received.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
        })?;
        line.pop();
        Ok(line)
    }

    /// Sends `request` and waits for the `N` bytes that answer it.
    pub(crate) fn ask_bytes<const N: usize>(&mut self, request: &[u8]) -> Result<[u8; N], Failure> {
        let length = |received: &[u8]| (received.len() >= N).then_some(N);
        let answer = self.ask_value(request, ANSWER_BYTES_MAX, length)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&answer);
        Ok(bytes)
    }

    /// What to call the other side.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Sends `request` and waits until `length` says how long the answer is, of up to `most` bytes.
    pub(crate) fn ask_value(
        &mut self,
        request: &[u8],
        most: usize,
        length: impl Fn(&[u8]) -> Option<usize>,
    ) -> Result<Vec<u8>, Failure> {
        let deadline = Deadline::after(self.timeout);
        self.send(request)?;
        loop {
            if let Some(length) = length(&self.received) {
                let rest = self.received.split_off(length);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            if self.received.len() >= most {
                return Err(self.strange("a server of this kind", &self.received));
            }
            self.receive(&deadline)?;
        }
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        let sent = self
            .stream
            .set_write_timeout(Some(self.timeout.into()))
            .and_then(|()| self.stream.write_all(request));
        sent.map_err(|source| match source {
            late if is_timeout(&late) => self.slow(),
            closed if is_closed(&closed) => self.closed(),
            source => talk(&self.server, source),
        })
    }

    fn receive(&mut self, deadline: &Deadline) -> Result<(), Failure> {
        let Some(left) = deadline.left() else { return Err(self.slow()) };
        let mut bytes = [0; ANSWER_BYTES_MAX];
        let read =
            self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut bytes));
        match read {
            Ok(0) => Err(self.closed()),
            Ok(length) => {
                self.received.extend_from_slice(&bytes[..length]);
                Ok(())
            }
            // The loop asks again, and finds out whether the time is really over.
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {
                Ok(())
            }
            Err(error) if is_closed(&error) => Err(self.closed()),
            Err(source) => Err(talk(&self.server, source)),
        }
    }

    /// An answer that such a server does not give.
    pub(crate) fn strange(&self, door: &'static str, answer: &[u8]) -> Failure {
        let answer = answer.escape_ascii().to_string();
        Failure::Strange { server: self.server.clone(), door, answer }
    }

    fn slow(&self) -> Failure {
        let received = self.received.len();
        Failure::Slow { server: self.server.clone(), timeout: self.timeout, received }
    }

    fn closed(&self) -> Failure {
        Failure::Closed { server: self.server.clone(), received: self.received.len() }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn talk(server: &Server, source: io::Error) -> Failure {
    Failure::Talk { server: server.clone(), source }
}
