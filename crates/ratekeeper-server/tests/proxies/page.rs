//! The page that a proxy protects: it answers everybody, and remembers what it was asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::stage::PATIENCE;

/// A running page. It runs as long as the test.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Page {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                // Before it is answered: whoever has the answer looks here.
                seen.lock().unwrap().push(request.clone());
                // Who has gone meanwhile is not answered.
                let _ = answer(&mut stream, &request);
            }
        });
        Self { address, asked }
    }

    /// Every request so far, as it came.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a request with its body.
fn read(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut request = Vec::new();
    while !is_whole(&request) {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(request).ok()
}

/// Answers a request; `/forbidden` with 403.
fn answer(stream: &mut TcpStream, request: &str) -> io::Result<()> {
    let is_forbidden = request.split(' ').nth(1) == Some("/forbidden");
    let (status, body) = if is_forbidden { ("403 Forbidden", "no") } else { ("200 OK", "page") };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
    write!(stream, "{head}\r\n{body}")
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}
