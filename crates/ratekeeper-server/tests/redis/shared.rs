//! Any number of servers decide as one.

use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::thread;

use ratekeeper_server::Server;

use crate::servers::Single;
use crate::support::{Datagrams, Folder, INSERT_ANSWER_BYTES, Stream, Web, insert, request};
use crate::{sharing, start_ahead};

const ROUNDS: usize = 200;
pub(crate) const BUDGET: usize = 100;
/// Of each of four servers, one door each: 2,000 in all.
const REQUESTS: usize = 500;
const HOUR: i64 = 3600;

/// A client's part of a round: how many of its asks for an id pass.
type Round = Box<dyn FnMut(usize) -> usize + Send>;

fn datagrams(server: &Server) -> Round {
    let client = Datagrams::connect(server);
    Box::new(move |id| {
        // A few at a time: a client that overruns its own socket loses answers.
        let (window, mut passed) = (20, 0);
        for _ in 0..REQUESTS / window {
            for _ in 0..window {
                client.send(format!("over_limit shared {id}").as_bytes());
            }
            passed += (0..window).filter(|_| client.receive().starts_with(b"ok N")).count();
        }
        passed
    })
}

fn lines(server: &Server) -> Round {
    let mut client = Stream::connect(server, "bucket");
    Box::new(move |id| {
        client.send(format!("get Shared:{id}\r\n").repeat(REQUESTS).as_bytes());
        let answers = client.read(2 * REQUESTS);
        assert!(answers.chunks(2).all(|it| matches!(it, b"0\n" | b"1\n")));
        answers.chunks(2).filter(|it| it == b"1\n").count()
    })
}

fn frames(server: &Server) -> Round {
    let mut client = Stream::connect(server, "throttr");
    Box::new(move |id| {
        client.send(&insert(1, 1, 60, &id.to_string(), "Shared").repeat(REQUESTS));
        let answers = client.read(INSERT_ANSWER_BYTES * REQUESTS);
        answers.chunks(INSERT_ANSWER_BYTES).filter(|it| it[0] == 1).count()
    })
}

fn requests(server: &Server) -> Round {
    let mut client = Web::connect(server);
    Box::new(move |id| {
        let body = format!(r#"{{"limit":"Shared","id":"{id}"}}"#);
        let ask = request("POST", "/v1/spend", "", &body);
        client.stream.send(ask.repeat(REQUESTS).as_bytes());
        let answers = (0..REQUESTS).map(|_| client.answer());
        answers.filter(|it| it.text().starts_with(r#"{"allowed":true,"#)).count()
    })
}

/// Has every server asked through another door, 500 times each, for a bucket of 100 that is new in
/// every round: exactly 100 pass.
pub(crate) fn judge_rounds(servers: &[Server; 4], rounds: Range<usize>) {
    let doors = [datagrams, lines, frames, requests];
    let clients = doors.iter().zip(servers).map(|(door, server)| door(server));
    let start_line = Arc::new(Barrier::new(servers.len()));
    let threads: Vec<_> = clients
        .map(|mut client| {
            let (start_line, rounds) = (Arc::clone(&start_line), rounds.clone());
            thread::spawn(move || {
                let play = |id| {
                    start_line.wait();
                    client(id)
                };
                rounds.map(play).collect::<Vec<_>>()
            })
        })
        .collect();
    let passed: Vec<Vec<usize>> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    for (index, round) in rounds.enumerate() {
        let by_server: Vec<usize> = passed.iter().map(|client| client[index]).collect();
        assert_eq!(by_server.iter().sum::<usize>(), BUDGET, "round {round}: {by_server:?}");
    }
}

#[test]
fn four_servers_with_clocks_an_hour_apart_admit_exactly_the_burst() {
    let (redis, folder) = (Single::start(), Folder::new());
    let limits = format!("Shared: {{burst: {BUDGET}, count: {BUDGET}, period: 24h}}");
    let settings = sharing(&redis, &folder, &limits);
    let servers = [-HOUR, 0, HOUR, HOUR / 2].map(|ahead| start_ahead(&settings, ahead));
    judge_rounds(&servers, 0..ROUNDS);
    for server in servers {
        let shared = server.stats().shared.unwrap();
        assert!(shared.up && shared.failures.is_empty(), "{shared:?}");
        assert!(server.drain(settings.drain).unwrap());
    }
}

#[test]
fn what_is_spent_at_one_server_is_missing_at_the_other_and_a_reset_is_heard() {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = sharing(&redis, &folder, "Orders: {burst: 3, count: 1, period: 1h}");
    let servers = [0, HOUR].map(|ahead| start_ahead(&settings, ahead));
    let [mut here, mut there] = [&servers[0], &servers[1]].map(Web::connect);
    let ask = r#"{"limit":"Orders","id":"ada"}"#;
    let allowed =
        |client: &mut Web, path: &str| client.post(path, ask).json()["allowed"].as_bool().unwrap();
    assert!(allowed(&mut here, "/v1/spend"));
    assert!(allowed(&mut there, "/v1/spend"));
    assert!(allowed(&mut here, "/v1/spend"));
    // Both know now that it is empty, and need not ask any more.
    for _ in 0..20 {
        assert!(!allowed(&mut here, "/v1/spend"));
        assert!(!allowed(&mut there, "/v1/spend"));
    }
    for server in &servers {
        let shared = server.stats().shared.unwrap();
        assert!(shared.remembered >= 19, "{shared:?}");
    }
    assert!(allowed(&mut here, "/v1/reset"));
    assert!(allowed(&mut here, "/v1/spend"));
    crate::servers::until("the other hears of the reset", || allowed(&mut there, "/v1/spend"));
    let bucket = here.get("/v1/buckets/Orders/ada").json();
    assert_eq!(bucket["remaining"], 1, "{bucket}");
    for server in servers {
        assert!(server.drain(settings.drain).unwrap());
    }
}

#[test]
fn a_flood_on_a_bucket_that_is_empty_hardly_reaches_redis() {
    const FLOOD: usize = 100_000;
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = sharing(&redis, &folder, "Orders: {burst: 3, count: 1, period: 1h}");
    let server = start_ahead(&settings, 0);
    let mut client = Stream::connect(&server, "bucket");
    client.send(b"get Orders:ada\n");
    assert_eq!(client.read(2), b"1\n");
    client.send(&b"get Orders:ada\n".repeat(3));
    client.read(6);
    let before = calls(&redis);
    let mut sender = client.0.try_clone().unwrap();
    let flood = thread::spawn(move || {
        std::io::Write::write_all(&mut sender, &b"get Orders:ada\n".repeat(FLOOD)).unwrap();
    });
    assert!(client.read(2 * FLOOD).chunks(2).all(|it| it == b"0\n"));
    flood.join().unwrap();
    let reached = calls(&redis) - before;
    assert!(reached < 100, "{reached} of {FLOOD} asks reached Redis");
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn a_mistake_is_told_whatever_was_answered_in_its_place_before() {
    const NOT_FOUND: &[u8] = b"BUCKET NOT FOUND\n";
    let (redis, folder) = (Single::start(), Folder::new());
    let limits = "PerAddress: {burst: 3, count: 1, period: 1h, id: ipAddress}";
    let settings = sharing(&redis, &folder, limits);
    let server = start_ahead(&settings, 0);
    let mut client = Stream::connect(&server, "bucket");
    // More than there ever is, which the limiter takes for a mistake too.
    client.send(&b"get PerAddress:10.0.0.1 99\n".repeat(2));
    assert_eq!(client.read(4), b"0\n0\n");
    client.send(b"get PerAddress:nobody\nget PerAddress:nowhere\n");
    assert_eq!(client.read(2 * NOT_FOUND.len()), NOT_FOUND.repeat(2));
    assert!(server.drain(settings.drain).unwrap());
}

/// How many scripts Redis has run.
fn calls(redis: &Single) -> usize {
    let info = redis.text(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_lease_admits_no_more_than_its_bound_and_asks_redis_seldom() {
    const SERVERS: usize = 2;
    let (redis, folder) = (Single::start(), Folder::new());
    // 500 tokens come back in the time of a lease.
    let limits = "Leased: {burst: 20000, count: 10000, period: 1s, lease: 50ms}";
    let settings = sharing(&redis, &folder, limits);
    let servers: Vec<_> = (0..SERVERS).map(|_| start_ahead(&settings, 0)).collect();
    let clock = ratekeeper::Clock::start();
    let began = clock.now();
    let threads: Vec<_> = servers
        .iter()
        .map(|server| {
            let mut client = Stream::connect(server, "bucket");
            thread::spawn(move || {
                let (asks, mut passed) = (100, 0);
                for _ in 0..400 {
                    client.send(&b"get Leased:ada\n".repeat(asks));
                    passed += client.read(2 * asks).chunks(2).filter(|it| it == b"1\n").count();
                }
                passed
            })
        })
        .collect();
    let passed: usize = threads.into_iter().map(|it| it.join().unwrap()).sum();
    let secs = std::time::Duration::from(clock.now().since(began)).as_secs_f64();
    let most = 20_000.0 + 10_000.0 * secs + (SERVERS * 500) as f64;
    assert!(passed as f64 <= most, "{passed} passed, at most {most} may");
    let asks = SERVERS * 400 * 100;
    let least = (asks as f64).min(20_000.0 - (SERVERS * 500) as f64);
    assert!(passed as f64 >= least, "{passed} passed, at least {least} must");
    let leased: u64 = servers.iter().map(|it| it.stats().shared.unwrap().leased).sum();
    assert!(leased > passed as u64 / 2, "{leased} of {passed} were leased");
    for server in servers {
        assert!(server.drain(settings.drain).unwrap());
    }
}
