//! How much memory connections take that wait for a store which hangs. A program of its own, so that
//! nobody else's memory is measured.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../ratekeeper-redis/tests/it/servers/mod.rs"]
#[allow(dead_code, unused_imports, reason = "another program uses the rest")]
mod servers;
#[path = "../server/support.rs"]
#[allow(dead_code, reason = "another program uses the rest")]
mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratekeeper::Clock;
use ratekeeper_server::Server;

use servers::{Single, until, within};
use support::{Folder, Stream, Web, request, settings, start};

/// Of each door.
const CLIENTS: usize = 1000;
/// What a thousand of each of three doors may take together.
const BYTES_MAX: usize = 384 << 20;
/// How many transactions a request over HTTP has at most.
const BATCH_TRANSACTIONS: usize = 1024;
/// How much each of them sends, if it is let.
const PIPELINE_BYTES: usize = 256 << 10;
/// How long a decision waits for the store: longer than the test, so that all wait at once.
const TIMEOUT: Duration = Duration::from_mins(2);
/// For how long memory must not grow any more to be taken for all that there will be.
const STEADY: Duration = Duration::from_secs(1);

/// What this process holds in memory.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes << 10
}

/// The most that this process holds until it does not grow any more.
fn steady_bytes() -> usize {
    let mut most = resident_bytes();
    while within(STEADY, || resident_bytes() > most + (1 << 20)) {
        most = resident_bytes();
    }
    most
}

#[test]
fn connections_that_wait_for_a_store_take_bounded_memory() {
    let (redis, folder) = (Single::start(), Folder::new());
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", "L: {burst: 9, count: 9, period: 1h}"));
    settings.throttr.named_limits = true;
    settings.store.address = Some(redis.url().parse().unwrap());
    settings.store.timeout = TIMEOUT;
    settings.workers = std::num::NonZeroUsize::new(2);
    let server = start(&settings, Arc::new(Clock::start()));
    let mut web = Web::connect(&server);
    until("Redis answers", || {
        web.post("/v1/spend", r#"{"limit":"L","id":"ada"}"#);
        server.stats().shared.is_some_and(|it| it.up && it.decided > 0)
    });

    redis.signal(Signal::SIGSTOP);
    // The shortest asks there are, so that as many as can be come at once.
    let transaction = r#"{"op":"spend","limit":"L","id":"x"}"#;
    let transactions = vec![transaction; BATCH_TRANSACTIONS].join(",");
    let body = format!(r#"{{"transactions":[{transactions}]}}"#);
    let doors = [
        ("bucket", b"get L\n".to_vec()),
        ("throttr", b"\x02\x01\x01xL\x02\x00\x00".to_vec()),
        ("resp", b"THROTTLE L x\n".to_vec()),
        ("http", request("POST", "/v1/batch", "", &body).into_bytes()),
    ];
    let before = resident_bytes();
    let mut crowds = Vec::new();
    for (door, ask) in doors {
        let pipeline = ask.repeat(PIPELINE_BYTES / ask.len());
        let so_far = resident_bytes();
        crowds.push(crowd(&server, door, &pipeline));
        let grown = steady_bytes().saturating_sub(so_far);
        let each = (grown / CLIENTS) >> 10;
        eprintln!("{door}: {CLIENTS} connections took {} KiB, {each} KiB each", grown >> 10);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < BYTES_MAX, "they took {} KiB together", grown >> 10);
    // What was asked before is answered when it goes on, and those who come behind it too.
    drop(crowds);
    redis.signal(Signal::SIGCONT);
    let mut late = Stream::connect(&server, "bucket");
    late.send(b"get L\n");
    assert!(matches!(&*late.read(2), b"0\n" | b"1\n"));
    drop(server);
}

/// Clients that send as much as both systems take, and read nothing.
fn crowd(server: &Server, door: &str, pipeline: &[u8]) -> Vec<Stream> {
    let connect = |_| {
        let mut client = Stream::connect(server, door);
        client.0.set_nonblocking(true).unwrap();
        let _ = client.0.write(pipeline);
        client
    };
    (0..CLIENTS).map(connect).collect()
}
