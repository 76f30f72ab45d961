//! Whoever wants to see the page.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::stage::PATIENCE;

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Looks at the page from this machine's usual address.
pub(crate) fn look(at: SocketAddr) -> Answer {
    look_from(1, at)
}

/// Looks at the page from 127.0.0.`host`.
pub(crate) fn look_from(host: u8, at: SocketAddr) -> Answer {
    send(host, at, "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
}

/// Sends a request that asks for the end of the connection, and reads the answer.
pub(crate) fn send(host: u8, at: SocketAddr, request: &str) -> Answer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = IpAddr::from(Ipv4Addr::new(127, 0, 0, host));
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&at.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
