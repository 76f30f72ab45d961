//! Servers that say what a test tells them to, on ports that nobody else uses.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that answers one run of the program.
pub(crate) struct Fake {
    pub(crate) address: String,
    thread: JoinHandle<()>,
}

/// What a server on a connection does next.
pub(crate) enum Step {
    /// Waits for exactly these bytes.
    Expect(&'static [u8]),
    /// Writes these bytes, in one write.
    Send(&'static [u8]),
    /// Sends nothing until the client has gone.
    Wait,
}

impl Fake {
    /// A server that answers one datagram with those that `answers` makes of it.
    pub(crate) fn datagrams(
        at: impl ToSocketAddrs,
        answers: impl FnOnce(&str) -> Vec<String> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let thread = thread::spawn(move || {
            let mut bytes = [0; 2_000];
            let (length, client) = socket.recv_from(&mut bytes).unwrap();
            for answer in answers(std::str::from_utf8(&bytes[..length]).unwrap()) {
                socket.send_to(answer.as_bytes(), client).unwrap();
            }
        });
        Self { address, thread }
    }

    /// A server that takes one connection, does these steps, and closes it.
    pub(crate) fn stream(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            for step in steps {
                step.run(&mut stream);
            }
        });
        Self { address, thread }
    }

    /// Fails if the server did not see what it expected.
    pub(crate) fn finish(self) {
        // A program that never came leaves the server waiting; so somebody comes and goes.
        drop(TcpStream::connect(&self.address));
        self.thread.join().unwrap();
    }
}

impl Step {
    fn run(&self, stream: &mut TcpStream) {
        match self {
            Self::Expect(expected) => {
                let mut bytes = vec![0; expected.len()];
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
            }
            Self::Send(bytes) => stream.write_all(bytes).unwrap(),
            // A client that gives up may leave by a reset.
            Self::Wait => while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {},
        }
    }
}

/// An address at which nobody listens: the port was free a moment ago.
pub(crate) fn nowhere() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
