//! A client of HTTP/2 that sends whatever frames it likes.

use std::io::{Read, Write};

use ratekeeper_server::Server;

use crate::support::Stream;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The setting of how many bytes of a stream the server may send.
pub(crate) const INITIAL_WINDOW: u16 = 4;

/// A frame as it came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Frames(pub(crate) Stream);

impl Frames {
    /// Connects and says hello, with settings of its own.
    pub(crate) fn connect(server: &Server, settings: &[(u16, u32)]) -> Self {
        let mut this = Self(Stream::connect(server, "http"));
        this.0.send(&hello(settings));
        this
    }

    /// Whether it could be sent; a server that ended the connection takes nothing more.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.0.write_all(bytes).is_ok()
    }

    /// The next frame, or nothing if the connection has ended.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        read_frame(&mut self.0.0)
    }

    /// The next frame of a kind.
    pub(crate) fn next_of(&mut self, kind: u8) -> Option<Frame> {
        std::iter::from_fn(|| self.next()).find(|frame| frame.kind == kind)
    }

    /// Reads to the end; returns the reason of the last GOAWAY, if one came.
    pub(crate) fn reason_of_end(&mut self) -> Option<u32> {
        let ends = std::iter::from_fn(|| self.next()).filter(|frame| frame.kind == GOAWAY);
        ends.last().map(|frame| u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()))
    }
}

/// What a client says first.
pub(crate) fn hello(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat()
}

/// The next frame, or nothing if the connection has ended.
pub(crate) fn read_frame(from: &mut impl Read) -> Option<Frame> {
    let mut head = [0; 9];
    from.read_exact(&mut head).ok()?;
    let [high, middle, low, kind, stream @ ..] = head;
    let [_flags, stream @ ..] = stream;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    from.read_exact(&mut payload).ok()?;
    Some(Frame { kind, stream: u32::from_be_bytes(stream), payload })
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a request, as HPACK without a table.
pub(crate) fn head(method: &str, path: &str) -> Vec<u8> {
    // `:scheme: http`
    let mut bytes = vec![0x86];
    for (name, value) in [(2, method), (4, path), (1, "localhost")] {
        bytes.push(name);
        bytes.push(u8::try_from(value.len()).unwrap());
        bytes.extend(value.as_bytes());
    }
    bytes
}

/// A whole request.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head("GET", path))
}
