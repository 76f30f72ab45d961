//! Plain requests go a shorter way than others. Nobody can tell by the answers.

use std::net::Shutdown;
use std::sync::Arc;

use tollgate_server::Server;
use tollgate_testkit::random::Random;

use crate::support::{StandingTime, Stream, request, settings, start, wait_until};

/// What changes nothing but the way.
const LONG_WAY: &str = "Sec-Fetch-Site: none\r\n";
const ROUNDS: usize = 60;
const REQUESTS: usize = 40;

const BODIES: [&str; 14] = [
    r#"{"limit":"LoginsPerUser","id":"ada"}"#,
    r#"{"limit":"LoginsPerUser","id":"ada","cost":2}"#,
    r#"{"limit":"LoginsPerUser","id":"ada","cost":0}"#,
    r#"{ "id" : "gr\u00e4ce \"x\"" , "limit" : "LoginsPerUser" , "cost" : 1.0 }"#,
    r#"{"limit":"RequestsPerIPAddress","id":"10.1.2.3","cost":7}"#,
    r#"{"asks":[{"limit":"LoginsPerUser","id":"ada"},{"limit":"RequestsPerIPAddress","id":"::1"}]}"#,
    r#"{"asks":[{"limit":"LoginsPerUser","id":"b","mode":"check-only"}]}"#,
    r#"{"asks":[]}"#,
    r#"{"limit":"LoginsPerUser","id":"ada","cost":4294967297}"#,
    r#"{"limit":"Nobody","id":"ada"}"#,
    r#"{"limit":"RequestsPerIPAddress","id":"no address"}"#,
    r#"{"limit":5,"id":"ada"}"#,
    r#"{"limit":"LoginsPerUser","id":"ada","more":true}"#,
    r#"{"limit":"LoginsPerUser""#,
];
const ROUTES: [&str; 7] = [
    "/v1/spend",
    "/v1/spend",
    "/v1/spend",
    "/v1/check",
    "/v1/refund",
    "/v1/reset",
    "/v1/spend?x=1",
];

/// All that is answered, but for the dates, of which one is that of the wall.
fn answers(server: &Server, pieces: &[&[u8]]) -> String {
    let mut client = Stream::connect(server, "http");
    client.0.set_nodelay(true).unwrap();
    for piece in pieces {
        client.send(piece);
    }
    client.0.shutdown(Shutdown::Write).unwrap();
    let text = String::from_utf8(client.read_to_end()).unwrap();
    let lines = text.split("\r\n").map(|line| match line.strip_prefix("date: ") {
        Some(date) => {
            assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
            "date"
        }
        None => line,
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

fn cut<'a>(mut bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let length = match random.index(3) {
            0 => 1 + random.index(20),
            1 => 1 + random.index(400),
            _ => bytes.len(),
        };
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn both_ways_answer_the_same_however_requests_are_cut() {
    let mut settings = settings();
    settings.http.x_ratelimit = tollgate_server::settings::XRateLimit::Unix;
    let servers = [(); 2].map(|()| StandingTime::at_secs(1_700_000_000)).map(|time| {
        let server = start(&settings, Arc::clone(&time) as _);
        (server, time)
    });
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    for round in 0..ROUNDS {
        let (mut short, mut long) = (String::new(), String::new());
        for _ in 0..REQUESTS {
            let (route, body) = (random.pick(&ROUTES), random.pick(&BODIES));
            // Some go the long way on either server, and those behind them are to be in order.
            let fields = if random.chance(1, 8) { LONG_WAY } else { "Accept: */*\r\n" };
            short += &request("POST", route, fields, body);
            long += &request("POST", route, LONG_WAY, body);
        }
        let short = answers(&servers[0].0, &cut(short.as_bytes(), &mut random));
        let long = answers(&servers[1].0, &[long.as_bytes()]);
        assert_eq!(short.matches("HTTP/1.1 ").count(), REQUESTS, "{short}");
        assert_eq!(short, long, "in round {round}");
        for (_, time) in &servers {
            time.set(tollgate::Moment::from_nanos(1_700_000_000_000_000_000 + round as u64 * 777));
        }
    }
    let [short, long] = servers.map(|(server, _)| {
        let counts = || server.stats().doors["http"].counts;
        wait_until("nobody is connected", || counts().connections == 0);
        counts()
    });
    assert_eq!(short, long);
    assert!(short.allowed > 100 && short.denied > 100 && short.malformed > 100, "{short:?}");
}
