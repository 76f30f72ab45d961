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
    /// Waits for an HTTP request that has each of these in it.
    Request(Vec<String>),
    /// Answers it: the status, the type of the body, the body.
    Answer(u16, &'static str, String),
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
        Self::streams(vec![steps])
    }

    /// A server that does these steps with one connection after the other.
    pub(crate) fn streams(connections: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = thread::spawn(move || {
            for steps in connections {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                for step in steps {
                    step.run(&mut stream);
                }
            }
        });
        Self { address, thread }
    }

    /// A server that answers one HTTP request that has each of `parts` in it.
    pub(crate) fn http(parts: &[&str], status: u16, kind: &'static str, body: &str) -> Self {
        let parts = parts.iter().map(|&part| part.to_owned()).collect();
        Self::stream(vec![Step::Request(parts), Step::Answer(status, kind, body.to_owned())])
    }

    /// Its address, as clients of the HTTP door take it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
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
            Self::Request(parts) => {
                let request = read_request(stream);
                for part in parts {
                    assert!(request.contains(part), "{part:?} is not in {request:?}");
                }
            }
            Self::Answer(status, kind, body) => {
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
                );
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
            Self::Send(bytes) => stream.write_all(bytes).unwrap(),
            // A client that gives up may leave by a reset.
            Self::Wait => while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {},
        }
    }
}

/// The head and the body of a request.
fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return String::from_utf8(bytes).unwrap();
            }
        }
        let mut more = [0; 4096];
        let length = stream.read(&mut more).unwrap();
        assert!(length > 0, "only this came: {text}");
        bytes.extend_from_slice(&more[..length]);
    }
}

/// An address at which nobody listens: the port was free a moment ago.
pub(crate) fn nowhere() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
