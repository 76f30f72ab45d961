//! A server on free ports with files of its own, and clients for its doors.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ratekeeper::{Clock, Moment};
use ratekeeper_server::settings::Settings;
use ratekeeper_server::{Server, Time};

/// How long a client waits for an answer that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long a test waits for what has to become so by itself.
const WAIT_TIME_MAX: Duration = Duration::from_mins(1);

/// Waits until something is so. Fails if it never is, and says what.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::start();
    let started = clock.now();
    while !is_so() {
        assert!(clock.now().since(started) < WAIT_TIME_MAX.into(), "this is never so: {what}");
        std::thread::yield_now();
    }
}

/// A time that stands still until it is moved.
pub(crate) struct StandingTime {
    now: AtomicU64,
    wall: AtomicU64,
}

impl StandingTime {
    pub(crate) fn at_secs(secs: u64) -> Arc<Self> {
        Self::with_wall(secs, secs)
    }

    /// One whose wall clock says something else.
    pub(crate) fn with_wall(secs: u64, wall_secs: u64) -> Arc<Self> {
        let at = |secs: u64| AtomicU64::new(secs * 1_000_000_000);
        Arc::new(Self { now: at(secs), wall: at(wall_secs) })
    }

    /// Sets both clocks.
    pub(crate) fn set(&self, moment: Moment) {
        self.now.store(moment.as_nanos(), Ordering::SeqCst);
        self.wall.store(moment.as_nanos(), Ordering::SeqCst);
    }
}

impl Time for StandingTime {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Moment {
        Moment::from_nanos(self.wall.load(Ordering::SeqCst))
    }
}

/// An empty folder that no other test uses; it goes when this does.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file as an editor does: whole, in place of the old one.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Settings with every door on a free port of loopback.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.http.listen = free;
    settings.udp.listen = free;
    settings.bucket.stream.listen = free;
    settings.throttr.stream.listen = free;
    settings.resp.listen = free;
    settings.memory = 64 << 20;
    settings
}

pub(crate) fn start(settings: &Settings, time: Arc<dyn Time>) -> Server {
    Server::start(settings, time).unwrap()
}

/// A client of a door for streams.
pub(crate) struct Stream(pub(crate) TcpStream);

impl Stream {
    pub(crate) fn connect(server: &Server, door: &str) -> Self {
        let stream = TcpStream::connect(server.address(door).unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// The next `count` bytes.
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Everything until the server closes.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// A client of the HTTP door that sends what it likes, and reads answers one by one.
pub(crate) struct Web {
    pub(crate) stream: Stream,
    read: Vec<u8>,
}

/// An answer of the HTTP door.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    /// The status line and the header, as they came.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Page {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Web {
    pub(crate) fn connect(server: &Server) -> Self {
        Self { stream: Stream::connect(server, "http"), read: Vec::new() }
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Page {
        self.stream.send(request("POST", path, "", body).as_bytes());
        self.answer()
    }

    pub(crate) fn get(&mut self, path: &str) -> Page {
        self.ask("GET", path, "", "")
    }

    /// `header` has whole lines, each with its end.
    pub(crate) fn ask(&mut self, method: &str, path: &str, header: &str, body: &str) -> Page {
        self.stream.send(request(method, path, header, body).as_bytes());
        self.answer()
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Page {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|it| it == b"\r\n\r\n") {
                break end + 4;
            }
            self.more();
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut page = Page { status, head, body: Vec::new() };
        let length = page.field("content-length").map_or(0, |it| it.parse().unwrap());
        while self.read.len() < length {
            self.more();
        }
        page.body = self.read.drain(..length).collect();
        page
    }

    /// What comes next of an answer without an end.
    pub(crate) fn some(&mut self) -> Vec<u8> {
        if self.read.is_empty() {
            self.more();
        }
        std::mem::take(&mut self.read)
    }

    fn more(&mut self) {
        let mut bytes = [0; 16 << 10];
        let count = self.stream.0.read(&mut bytes).unwrap();
        assert!(count > 0, "the server closed: {:?}", String::from_utf8_lossy(&self.read));
        self.read.extend_from_slice(&bytes[..count]);
    }
}

/// A request as it is sent.
pub(crate) fn request(method: &str, path: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{header}\r\n{body}"
    )
}

/// A client of a door for datagrams.
pub(crate) struct Datagrams(UdpSocket);

impl Datagrams {
    pub(crate) fn connect(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.address("udp").unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    pub(crate) fn send(&self, request: &[u8]) {
        self.0.send(request).unwrap();
    }

    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).unwrap();
        bytes[..length].to_vec()
    }

    pub(crate) fn ask(&self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        self.receive()
    }
}

/// The bytes of a Throttr insert.
pub(crate) fn insert(
    quota: u64,
    usage: u64,
    ttl_secs: u64,
    consumer: &str,
    resource: &str,
) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(quota.to_le_bytes());
    bytes.extend(usage.to_le_bytes());
    bytes.push(2);
    bytes.extend(ttl_secs.to_le_bytes());
    bytes.push(u8::try_from(consumer.len()).unwrap());
    bytes.push(u8::try_from(resource.len()).unwrap());
    bytes.extend(consumer.as_bytes());
    bytes.extend(resource.as_bytes());
    bytes
}

/// How long a Throttr answer to an insert is.
pub(crate) const INSERT_ANSWER_BYTES: usize = 18;
