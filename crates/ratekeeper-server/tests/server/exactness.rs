//! However many ask, over whichever doors, exactly as many pass as the limit says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, StandingTime, Stream, Web, insert, request, settings,
    start,
};

const ROUNDS: usize = 1000;
const BUDGET: usize = 100;
/// Requests per round: 2,000 in all.
const CLIENTS_PER_DOOR: [usize; 5] = [2; 5];
const REQUESTS_PER_CLIENT: usize = 200;

/// One client's part of a round: asks for `id` many times, and counts how often it may pass.
trait Client: Send {
    fn round(&mut self, id: usize) -> usize;
}

impl Client for Datagrams {
    fn round(&mut self, id: usize) -> usize {
        // A few at a time: a client that overruns its own socket loses answers.
        let (window, mut passed) = (20, 0);
        for _ in 0..REQUESTS_PER_CLIENT / window {
            for _ in 0..window {
                self.send(format!("over_limit shared {id}").as_bytes());
            }
            for _ in 0..window {
                let answer = String::from_utf8(self.receive()).unwrap();
                assert!(answer.starts_with("ok "), "{answer}");
                passed += usize::from(answer.starts_with("ok N"));
            }
        }
        passed
    }
}

struct Buckets(Stream);

impl Client for Buckets {
    fn round(&mut self, id: usize) -> usize {
        self.0.send(format!("get Shared:{id}\r\n").repeat(REQUESTS_PER_CLIENT).as_bytes());
        let answers = self.0.read(2 * REQUESTS_PER_CLIENT);
        assert!(answers.chunks(2).all(|it| matches!(it, b"0\n" | b"1\n")));
        answers.chunks(2).filter(|it| it == b"1\n").count()
    }
}

struct Quotas(Stream);

impl Client for Quotas {
    fn round(&mut self, id: usize) -> usize {
        let ask = insert(1, 1, 60, &id.to_string(), "Shared");
        self.0.send(&ask.repeat(REQUESTS_PER_CLIENT));
        let answers = self.0.read(INSERT_ANSWER_BYTES * REQUESTS_PER_CLIENT);
        answers.chunks(INSERT_ANSWER_BYTES).filter(|it| it[0] == 1).count()
    }
}

struct Resps(BufReader<TcpStream>);

impl Client for Resps {
    fn round(&mut self, id: usize) -> usize {
        let asks = format!("THROTTLE Shared {id}\r\n").repeat(REQUESTS_PER_CLIENT);
        self.0.get_mut().write_all(asks.as_bytes()).unwrap();
        let lines = self.0.by_ref().lines().map(Result::unwrap).take(6 * REQUESTS_PER_CLIENT);
        let lines: Vec<String> = lines.collect();
        assert!(lines.chunks(6).all(|it| it[0] == "*5" && it[2] == ":100"));
        lines.chunks(6).filter(|it| it[1] == ":0").count()
    }
}

impl Client for Web {
    fn round(&mut self, id: usize) -> usize {
        let body = format!(r#"{{"limit":"Shared","id":"{id}"}}"#);
        let ask = request("POST", "/v1/spend", "", &body);
        self.stream.send(ask.repeat(REQUESTS_PER_CLIENT).as_bytes());
        let answers = (0..REQUESTS_PER_CLIENT).map(|_| self.answer());
        answers.filter(|it| it.text().starts_with(r#"{"allowed":true,"#)).count()
    }
}

#[test]
fn a_budget_of_100_admits_exactly_100_over_all_doors() {
    let folder = Folder::new();
    let mut settings = settings();
    let limits = format!("Shared: {{burst: {BUDGET}, count: {BUDGET}, period: 1h}}");
    settings.limits = Some(folder.write("limits.yaml", &limits));
    let rules = "rules: [{match: '^shared (.+)$', use: Shared}]";
    settings.udp.rules = Some(folder.write("rules.yaml", rules));
    settings.throttr.named_limits = true;
    let server = start(&settings, StandingTime::at_secs(1_700_000_000));

    let mut clients: Vec<Box<dyn Client>> = Vec::new();
    let [udp, bucket, throttr, resp, http] = CLIENTS_PER_DOOR;
    clients.extend((0..udp).map(|_| Box::new(Datagrams::connect(&server)) as _));
    let connect = |door| Stream::connect(&server, door);
    clients.extend((0..bucket).map(|_| Box::new(Buckets(connect("bucket"))) as _));
    clients.extend((0..throttr).map(|_| Box::new(Quotas(connect("throttr"))) as _));
    let resps = (0..resp).map(|_| Box::new(Resps(BufReader::new(connect("resp").0))) as _);
    clients.extend(resps);
    clients.extend((0..http).map(|_| Box::new(Web::connect(&server)) as _));
    assert_eq!(clients.len() * REQUESTS_PER_CLIENT, 2000);

    let start_line = Arc::new(Barrier::new(clients.len()));
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let start_line = Arc::clone(&start_line);
            thread::spawn(move || {
                let play = |id| {
                    start_line.wait();
                    client.round(id)
                };
                (0..ROUNDS).map(play).collect::<Vec<_>>()
            })
        })
        .collect();
    let passed: Vec<Vec<usize>> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    for round in 0..ROUNDS {
        let sum: usize = passed.iter().map(|client| client[round]).sum();
        assert_eq!(sum, BUDGET, "round {round}");
    }
    let stats = server.stats();
    let asked: u64 = stats.doors.values().map(|door| door.counts.requests).sum();
    let allowed: u64 = stats.doors.values().map(|door| door.counts.allowed).sum();
    assert_eq!((asked, allowed), (2000 * ROUNDS as u64, (BUDGET * ROUNDS) as u64));
    assert!(server.drain(settings.drain).unwrap());
}
