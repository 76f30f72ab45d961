//! How fast new ids are taken, and how long others wait, while the memory of a server is full of the
//! denied ids of another limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::Clock;
use ratekeeper_server::Server;

use super::{PATIENCE, RATIO_MAX, Wait, measure, median, settings};
use crate::bench::Failure;

/// The least part of the rate of new ids that is left when the memory is full.
const RATE_MIN: f64 = 0.5;
/// Full after some three million ids, each asked twice.
const MEMORY_BYTES: usize = 128 << 20;
const FLOOD_IDS: usize = 3_600_000;
const LIMITS: &str = "Flooded: {burst: 1, count: 1, period: 1h}\n\
                      New: {burst: 100, count: 100, period: 1s}\n\
                      Kept: {burst: 100, count: 1, period: 1h}\n\
                      LoginsPerUser: {burst: 5, count: 1, period: 1m}\n";
/// Asks that are sent at once, and answered together.
const DEPTH: usize = 100;
/// How long new ids come while others are timed.
const NEW_IDS_TIME: Duration = Duration::from_secs(2);
/// The answer to an ask begins with a list of five.
const ANSWER_START: u8 = b'*';
const ALLOWED: &[u8] = b"*5\r\n:0\r\n";

/// What one kind of new ids came to.
struct Measured {
    per_second: f64,
    allowed: f64,
    others: Wait,
}

/// Prints the rates of new ids and the waits of others. Fails where a full memory costs too much.
pub(super) fn run(requests: usize, rounds: usize) -> Result<(), Failure> {
    let rows = [
        "empty memory",
        "full, another limit",
        "full, another, whose ids stay",
        "full, the limit that fills it",
    ];
    let mut all: [Vec<Measured>; 4] = Default::default();
    for round in 1..=rounds {
        eprintln!("full memory: round {round} of {rounds}");
        for (row, measured) in all.iter_mut().zip(one_round(requests)?) {
            row.push(measured);
        }
    }
    println!(
        "new ids per second over RESP, {DEPTH} at a time, one worker, and the microseconds that a"
    );
    println!("request of another client takes meanwhile over HTTP; the median of {rounds} rounds");
    println!(
        "new ids of                        per second  ratio  allowed  p50  p99  ratio of p99"
    );
    let of = |row: &[Measured], pick: fn(&Measured) -> f64| median(row.iter().map(pick).collect());
    let first = |pick: fn(&Measured) -> f64| of(&all[0], pick);
    for (name, row) in rows.iter().zip(&all) {
        println!(
            "{name:<32} {:>11.0} {:>6.2} {:>7.0}% {:>4.0} {:>4.0} {:>13.2}",
            of(row, |it| it.per_second),
            of(row, |it| it.per_second) / first(|it| it.per_second),
            of(row, |it| it.allowed) * 100.0,
            of(row, |it| it.others.p50),
            of(row, |it| it.others.p99),
            of(row, |it| it.others.p99) / first(|it| it.others.p99),
        );
    }
    let others = &all[1..3];
    let rates = others.iter().map(|row| of(row, |it| it.per_second) / first(|it| it.per_second));
    let rate = rates.fold(f64::INFINITY, f64::min);
    let waits = all[1..].iter().map(|row| of(row, |it| it.others.p99) / first(|it| it.others.p99));
    let worst = waits.fold(0.0, f64::max);
    match () {
        () if others.iter().any(|row| of(row, |it| it.allowed) < 1.0) => {
            Err("new ids of another limit were denied".into())
        }
        () if rate < RATE_MIN => {
            Err(format!("{rate:.2} of the rate is less than {RATE_MIN}").into())
        }
        () if worst > RATIO_MAX => {
            Err(format!("a ratio of {worst:.2} is more than {RATIO_MAX}").into())
        }
        () => Ok(()),
    }
}

fn one_round(requests: usize) -> Result<[Measured; 4], Failure> {
    let file = std::env::temp_dir().join(format!("limits-{}.yaml", std::process::id()));
    std::fs::write(&file, LIMITS)?;
    let mut settings = settings();
    settings.limits = Some(file.clone());
    settings.workers = NonZeroUsize::new(1);
    settings.memory = MEMORY_BYTES;
    let server = Server::start(&settings, Arc::new(Clock::start()))?;
    let empty = while_new_ids_come(&server, "New", "before", requests)?;
    let mut flood = Asker::connect(&server, "Flooded")?;
    for start in (0..FLOOD_IDS).step_by(DEPTH) {
        flood.ask("flood", start)?;
        flood.ask("flood", start)?;
    }
    let other = while_new_ids_come(&server, "New", "after", requests)?;
    let kept = while_new_ids_come(&server, "Kept", "after", requests)?;
    let own = while_new_ids_come(&server, "Flooded", "more", requests)?;
    server.drain(Duration::from_secs(20))?;
    std::fs::remove_file(file)?;
    Ok([empty, other, kept, own])
}

/// Has new ids of a limit come for a while, and times another client meanwhile.
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is measured")]
fn while_new_ids_come(
    server: &Server,
    limit: &'static str,
    prefix: &'static str,
    requests: usize,
) -> Result<Measured, Failure> {
    let (mut client, all_timed) =
        (Asker::connect(server, limit)?, Arc::new(AtomicBool::new(false)));
    let is_over = Arc::clone(&all_timed);
    let asking = thread::spawn(move || -> Result<(f64, f64), String> {
        let (start, mut asked, mut allowed) = (Instant::now(), 0_u32, 0_u32);
        while start.elapsed() < NEW_IDS_TIME || !is_over.load(Ordering::Relaxed) {
            allowed += client.ask(prefix, asked as usize).map_err(|error| error.to_string())?;
            asked += u32::try_from(DEPTH).unwrap_or_default();
        }
        let (asked, secs) = (f64::from(asked), start.elapsed().as_secs_f64());
        Ok((asked / secs, f64::from(allowed) / asked))
    });
    let others = measure(server, "http", requests)?;
    all_timed.store(true, Ordering::Relaxed);
    let (per_second, allowed) = asking.join().map_err(|_| "the asker panicked")??;
    Ok(Measured { per_second, allowed, others })
}

/// A client of the RESP door.
struct Asker {
    stream: TcpStream,
    limit: &'static str,
    asks: Vec<u8>,
    answers: Vec<u8>,
}

impl Asker {
    fn connect(server: &Server, limit: &'static str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server.address("resp").ok_or("the door is closed")?)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, limit, asks: Vec::new(), answers: Vec::new() })
    }

    /// Asks for so many ids from one on, and tells how many passed.
    fn ask(&mut self, prefix: &str, from: usize) -> Result<u32, Failure> {
        let Self { stream, limit, asks, answers } = self;
        asks.clear();
        answers.clear();
        for id in from..from + DEPTH {
            write!(asks, "THROTTLE {limit} {prefix}-{id}\r\n")?;
        }
        stream.write_all(asks)?;
        let mut piece = [0; 16 << 10];
        while !is_complete(answers) {
            match stream.read(&mut piece)? {
                0 => return Err("the RESP door closed".into()),
                read => answers.extend_from_slice(&piece[..read]),
            }
        }
        let allowed = answers.windows(ALLOWED.len()).filter(|window| *window == ALLOWED).count();
        Ok(u32::try_from(allowed)?)
    }
}

/// Whether all answers have come: lists of five integers, a line each.
fn is_complete(answers: &[u8]) -> bool {
    let count = |wanted: u8| answers.split(|byte| *byte == wanted).count() - 1;
    count(ANSWER_START) == DEPTH && count(b'\n') == DEPTH * 6
}
