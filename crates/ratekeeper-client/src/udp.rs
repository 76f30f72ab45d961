//! One datagram, and the one that answers it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ratekeeper::{Clock, Nanos};

use crate::deadline::{Deadline, is_timeout};
use crate::{Failure, Server};

/// Servers ignore longer datagrams.
const REQUEST_BYTES_MAX: usize = 1_200;
/// No datagram is longer.
const ANSWER_BYTES_MAX: usize = 1 << 16;

/// What to ask, and whom.
#[derive(Debug)]
pub struct UdpRequest {
    /// Who is asked.
    pub server: Server,
    /// How long to wait for the answer.
    pub timeout: Nanos,
    /// What is sent. An id is put in front of it if it has none.
    pub request: Vec<u8>,
}

impl UdpRequest {
    /// The answer, without its id.
    pub fn ask(&self) -> Result<Vec<u8>, Failure> {
        let (id, body) = self.id_and_body();
        let request = [id.as_bytes(), body].join(&b' ');
        let length = request.len();
        if length > REQUEST_BYTES_MAX {
            return Err(Failure::RequestTooLong { length, max: REQUEST_BYTES_MAX });
        }
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in self.server.addresses()? {
            match self.exchange(address, &request, &id) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let (server, timeout) = (self.server.clone(), self.timeout);
                    return Err(Failure::Silent { server, timeout });
                }
                // A host of two addresses may have a server on one of them.
                Err(error) => refused = error,
            }
        }
        Err(Failure::Connect { server: self.server.clone(), source: refused })
    }

    /// The id of the request, and the rest of it. An id is added where there is none, and two
    /// runs have different ones, so that an answer that comes late is taken for no other.
    fn id_and_body(&self) -> (String, &[u8]) {
        let request = &*self.request;
        let digits = request.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (id, rest) = request.split_at(digits);
        match (std::str::from_utf8(id), rest.strip_prefix(b" ")) {
            (Ok(id), Some(body)) if digits > 0 => (id.to_owned(), body),
            _ => (Clock::start().now().as_nanos().to_string(), request),
        }
    }

    /// Sends `request` and waits for the answer that has its id.
    fn exchange(&self, to: SocketAddr, request: &[u8], id: &str) -> io::Result<Option<Vec<u8>>> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // Only what comes from there is an answer; and if nobody listens there, we may be told.
        socket.connect(to)?;
        let deadline = Deadline::after(self.timeout);
        socket.send(request)?;
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        while let Some(left) = deadline.left() {
            socket.set_read_timeout(Some(left))?;
            let length = match socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(error) if is_timeout(&error) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let answer = bytes[..length].strip_prefix(id.as_bytes());
            if let Some(answer) = answer.and_then(|rest| rest.strip_prefix(b" ")) {
                return Ok(Some(answer.to_vec()));
            }
        }
        Ok(None)
    }
}

/// What an answer says about a use of a key.
pub struct UdpVerdict {
    /// Whether the key is over its limit.
    pub is_over: bool,
    /// The same, and the numbers, for people.
    pub sentence: String,
}

impl UdpVerdict {
    /// What `ok Y 28.1 22.0 20` says. Answers to other questions say nothing of the kind.
    pub fn read(answer: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(answer);
        // The answer to `check_limit` goes on behind a comma.
        let mut words = text.split(", ").next()?.split(' ');
        let (ok, over) = (words.next()?, words.next()?);
        let [rate, limit, period] = [words.next()?, words.next()?, words.next()?];
        let is_over = over == "Y";
        let is_verdict = ok == "ok" && (is_over || over == "N") && words.next().is_none();
        let verdict = if is_over { "over the limit" } else { "allowed" };
        let sentence = format!("{verdict}: the rate is {rate}, the limit {limit} in {period} s");
        is_verdict.then_some(Self { is_over, sentence })
    }
}
