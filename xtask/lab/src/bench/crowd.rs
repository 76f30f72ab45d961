//! How long a healthy client waits while thousands of others are connected and idle, or trickle,
//! or reset what they ask, or send bodies that nobody wants; and while memory is full.

mod full;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;

use super::Failure;

/// The most that the wait of one in a hundred may grow.
const RATIO_MAX: f64 = 2.0;
const DOORS: [&str; 4] = ["udp", "bucket", "throttr", "http"];
/// The doors at which the crowd stands.
const CROWDED: [&str; 3] = ["bucket", "throttr", "http"];
/// How long one request may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// A query for a key that nobody has: three bytes of header, and two ids of one byte.
const QUERY: &[u8] = &[2, 1, 1, b'a', b'b'];
const GATE: &[u8] = b"GET /v1/gate/LoginsPerUser/ada HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A head, and a body, that never end.
const SLOW_HEAD: &[u8] = b"GET /v1/limits HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
const SLOW_BODY: &[u8] =
    b"POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n";
/// A body that is longer than anybody takes, and how much of it is sent at once.
const HUGE_BODY: &[u8] =
    b"POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1099511627776\r\n\r\n";
const HUGE_PIECE_BYTES: usize = 64 << 10;
/// How much of it may be taken before the run is given up.
const HUGE_PIECES_MAX: usize = 1024;
/// How many requests of HTTP/2 are sent and taken back on one connection.
const RESETS: u32 = 200;
/// Longer than any answer.
const ANSWER_BYTES_MAX: usize = 4096;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many connections there are besides
    #[arg(long, default_value_t = 5000)]
    connections: usize,
    /// How many of them send a byte per second
    #[arg(long, default_value_t = 1000)]
    trickling: usize,
    /// How many connections per second reset all that they ask, and how many send a huge body
    #[arg(long, default_value_t = 20)]
    floods: u32,
    /// How many requests are timed, per door and round
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// How often it is measured without the crowd and with it
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only what a full memory costs
    #[arg(long)]
    full: bool,
}

/// Prints the waits of healthy clients. Fails if one in a hundred waits twice as long for a crowd, or
/// where a full memory costs more than it may.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !args.full {
        beside_a_crowd(args)?;
    }
    full::run(args.requests, args.rounds)
}

fn beside_a_crowd(args: &Args) -> Result<(), Failure> {
    let server = Server::start(&settings(), Arc::new(Clock::start()))?;
    let mut waits: [Vec<[Wait; 2]>; 4] = Default::default();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let mut alone = Vec::new();
        for door in DOORS {
            alone.push(measure(&server, door, args.requests)?);
        }
        let crowd = Crowd::gather(&server, args)?;
        for ((door, without), waits) in DOORS.iter().zip(alone).zip(&mut waits) {
            waits.push([without, measure(&server, door, args.requests)?]);
        }
        crowd.leave()?;
    }
    println!(
        "microseconds that a request takes, alone and beside {} connections, {} of which",
        args.connections, args.trickling
    );
    println!(
        "send a byte per second, {} a second that reset what they ask, and {} a second that send a",
        args.floods, args.floods
    );
    println!(
        "huge body until they are refused; slow heads and bodies among them; the median of {} rounds",
        args.rounds
    );
    println!("door     p50 alone  beside  p99 alone  beside  ratio of p99");
    let mut worst: f64 = 0.0;
    for (door, waits) in DOORS.iter().zip(&waits) {
        let of = |pick: fn(&[Wait; 2]) -> f64| median(waits.iter().map(pick).collect());
        let ratio = of(|[alone, beside]| beside.p99 / alone.p99);
        println!(
            "{door:<8} {:>9.1} {:>7.1} {:>10.1} {:>7.1} {ratio:>13.2}",
            of(|[alone, _]| alone.p50),
            of(|[_, beside]| beside.p50),
            of(|[alone, _]| alone.p99),
            of(|[_, beside]| beside.p99),
        );
        worst = worst.max(ratio);
    }
    server.drain(Duration::from_secs(20))?;
    if worst > RATIO_MAX {
        return Err(format!("a ratio of {worst:.2} is more than {RATIO_MAX}").into());
    }
    Ok(())
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.udp.listen = free;
    settings.bucket.stream.listen = free;
    settings.throttr.stream.listen = free;
    settings.resp.listen = free;
    settings.http.listen = free;
    settings
}

/// Microseconds.
#[derive(Clone, Copy)]
struct Wait {
    p50: f64,
    p99: f64,
}

#[expect(clippy::disallowed_methods, reason = "how long it takes is what is measured")]
fn measure(server: &Server, door: &str, requests: usize) -> Result<Wait, Failure> {
    let mut client = Client::connect(server, door)?;
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        let start = Instant::now();
        client.ask()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    Ok(Wait { p50: at(50), p99: at(99) })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A client that has one request on its way at a time.
enum Client {
    Datagrams(UdpSocket),
    Stream { stream: TcpStream, request: &'static [u8], answer_bytes: usize },
    Web(TcpStream),
}

impl Client {
    fn connect(server: &Server, door: &str) -> Result<Self, Failure> {
        let address = server.address(door).ok_or("the door is closed")?;
        if door == "udp" {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(address)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            return Ok(Self::Datagrams(socket));
        }
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(match door {
            "bucket" => Self::Stream { stream, request: b"get bucketc\n", answer_bytes: 2 },
            "http" => Self::Web(stream),
            _ => Self::Stream { stream, request: QUERY, answer_bytes: 18 },
        })
    }

    fn ask(&mut self) -> Result<(), Failure> {
        let mut answer = [0; ANSWER_BYTES_MAX];
        match self {
            Self::Datagrams(socket) => {
                socket.send(b"over_limit ws global")?;
                socket.recv(&mut answer)?;
            }
            Self::Stream { stream, request, answer_bytes } => {
                stream.write_all(request)?;
                stream.read_exact(&mut answer[..*answer_bytes])?;
            }
            Self::Web(stream) => {
                stream.write_all(GATE)?;
                let mut read = 0;
                while !is_whole(&answer[..read]) {
                    match stream.read(&mut answer[read..])? {
                        0 => return Err("the HTTP door closed".into()),
                        more => read += more,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether an answer of the HTTP door has come to its end.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Connections that do nothing, or next to nothing, and some that do too much.
struct Crowd {
    is_over: Arc<AtomicBool>,
    members: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    fn gather(server: &Server, args: &Args) -> Result<Self, Failure> {
        let mut places = Vec::new();
        for door in CROWDED {
            places.push(server.address(door).ok_or("the door is closed")?);
        }
        let http = server.address("http").ok_or("the door is closed")?;
        let mut idlers = Vec::with_capacity(args.connections);
        for index in 0..args.connections {
            idlers.push(Idler::connect(places[index % places.len()], index)?);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let trickling = args.trickling.min(idlers.len()).max(1);
        let over = Arc::clone(&is_over);
        let mut members = vec![thread::spawn(move || trickle(idlers, trickling, &over))];
        if args.floods > 0 {
            let pause = Duration::from_secs(1) / args.floods;
            for attack in [take_back as Attack, send_huge_body] {
                let over = Arc::clone(&is_over);
                members.push(thread::spawn(move || flood(http, pause, attack, &over)));
            }
        }
        Ok(Self { is_over, members })
    }

    fn leave(self) -> Result<(), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        for member in self.members {
            member.join().map_err(|_| "the crowd panicked")?;
        }
        Ok(())
    }
}

/// One that does next to nothing.
struct Idler {
    stream: TcpStream,
    address: SocketAddr,
    index: usize,
}

impl Idler {
    fn connect(address: SocketAddr, index: usize) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(address)?;
        // At the HTTP door a third begins a head, a third a body, and a third says nothing.
        if CROWDED[index % CROWDED.len()] == "http" {
            stream.write_all([SLOW_HEAD, SLOW_BODY, b""][index / CROWDED.len() % 3])?;
        }
        Ok(Self { stream, address, index })
    }

    /// Sends a part of a line, a frame or a head: never a whole one that is answered.
    fn trickle(&mut self) {
        let part: &[u8] =
            if CROWDED[self.index % CROWDED.len()] == "throttr" { &[1] } else { b"g" };
        // Who was got rid of comes again.
        if self.stream.write_all(part).is_err()
            && let Ok(again) = Self::connect(self.address, self.index)
        {
            *self = again;
        }
    }
}

fn trickle(mut idlers: Vec<Idler>, trickling: usize, is_over: &AtomicBool) {
    let (_never, silence) = channel::<()>();
    let pause = Duration::from_secs(1) / u32::try_from(trickling).unwrap_or(u32::MAX);
    let mut next = 0;
    while !is_over.load(Ordering::Relaxed) {
        idlers[next % trickling].trickle();
        next += 1;
        let _ = silence.recv_timeout(pause);
    }
}

/// Connects and attacks, over and over, each time until the server ends it; none waits for another.
fn flood(address: SocketAddr, pause: Duration, attack: Attack, is_over: &AtomicBool) {
    let (_never, silence) = channel::<()>();
    thread::scope(|scope| {
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(mut stream) = TcpStream::connect(address) {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                scope.spawn(move || attack(&mut stream));
            }
            let _ = silence.recv_timeout(pause);
        }
    });
}

/// What is done on a connection until the server ends it.
type Attack = fn(&mut TcpStream);

/// Asks over HTTP/2 and takes it back.
fn take_back(stream: &mut TcpStream) {
    // The server may end it before all is sent; so it is meant.
    let _ = stream.write_all(&resets());
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Announces a huge body and sends it for as long as it is taken, deaf to what is answered.
fn send_huge_body(stream: &mut TcpStream) {
    let piece = vec![b'a'; HUGE_PIECE_BYTES];
    let mut sent = stream.write_all(HUGE_BODY);
    let mut pieces = 0;
    while sent.is_ok() {
        assert!(pieces < HUGE_PIECES_MAX, "nobody refuses a body that has no end");
        sent = stream.write_all(&piece);
        pieces += 1;
    }
}

fn resets() -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags];
        [&head[..], &stream.to_be_bytes(), payload].concat()
    };
    // `:scheme: http`, `:method: GET`, `:path: /`, and `:authority`.
    let head = b"\x86\x82\x84\x01\x09localhost";
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b""));
    for stream in (1..RESETS * 2).step_by(2) {
        bytes.extend(frame(1, 5, stream, head));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    bytes
}
