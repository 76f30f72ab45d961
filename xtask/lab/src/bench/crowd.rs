//! How long a healthy client waits while thousands of others are connected and idle, or trickle.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::Clock;
use tollgate_server::Server;
use tollgate_server::settings::Settings;

use super::Failure;

/// The most that the wait of one in a hundred may grow.
const RATIO_MAX: f64 = 2.0;
const DOORS: [&str; 3] = ["udp", "bucket", "throttr"];
/// How long one request may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// A query for a key that nobody has: three bytes of header, and two ids of one byte.
const QUERY: &[u8] = &[2, 1, 1, b'a', b'b'];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many connections there are besides
    #[arg(long, default_value_t = 5000)]
    connections: usize,
    /// How many of them send a byte per second
    #[arg(long, default_value_t = 1000)]
    trickling: usize,
    /// How many requests are timed, per door and round
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// How often it is measured without the crowd and with it
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Prints the waits of healthy clients. Fails if a crowd makes one in a hundred wait twice as long.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let server = Server::start(&settings(), Arc::new(Clock::start()))?;
    let mut waits: [Vec<[Wait; 2]>; 3] = Default::default();
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
    println!("send a byte per second; the median of {} rounds", args.rounds);
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
            _ => Self::Stream { stream, request: QUERY, answer_bytes: 18 },
        })
    }

    fn ask(&mut self) -> Result<(), Failure> {
        let mut answer = [0; 100];
        match self {
            Self::Datagrams(socket) => {
                socket.send(b"over_limit ws global")?;
                socket.recv(&mut answer)?;
            }
            Self::Stream { stream, request, answer_bytes } => {
                stream.write_all(request)?;
                stream.read_exact(&mut answer[..*answer_bytes])?;
            }
        }
        Ok(())
    }
}

/// Connections that do nothing, or next to nothing.
struct Crowd {
    is_over: Arc<AtomicBool>,
    trickle: thread::JoinHandle<Vec<TcpStream>>,
}

impl Crowd {
    fn gather(server: &Server, args: &Args) -> Result<Self, Failure> {
        let mut streams = Vec::with_capacity(args.connections);
        for index in 0..args.connections {
            let door = if index % 2 == 0 { "bucket" } else { "throttr" };
            let address = server.address(door).ok_or("the door is closed")?;
            streams.push(TcpStream::connect(address)?);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, trickling) = (Arc::clone(&is_over), args.trickling.min(streams.len()).max(1));
        let trickle = thread::spawn(move || {
            let (_never, silence) = channel::<()>();
            let pause = Duration::from_secs(1) / u32::try_from(trickling).unwrap_or(u32::MAX);
            let mut next = 0;
            while !over.load(Ordering::Relaxed) {
                // A part of a line, or of a frame: never a whole one that is answered.
                let mut stream = &streams[next % trickling];
                let _ = stream.write_all(if next % 2 == 0 { b"g" } else { &[1] });
                next += 1;
                let _ = silence.recv_timeout(pause);
            }
            streams
        });
        Ok(Self { is_over, trickle })
    }

    fn leave(self) -> Result<(), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        self.trickle.join().map(drop).map_err(|_| "the crowd panicked".into())
    }
}
