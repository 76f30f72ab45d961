//! Plain requests go a shorter way than others. Nobody can tell by the answers.

use std::net::Shutdown;
use std::sync::Arc;

use ratekeeper_server::Server;
use ratekeeper_server::settings::{Settings, XRateLimit};
use ratekeeper_testkit::random::Random;

use crate::support::{Folder, StandingTime, Stream, request, settings, start, wait_until};

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
    settings.http.x_ratelimit = XRateLimit::Unix;
    compare(&settings, |random| {
        // Some go the long way on either server, and those behind them are to be in order.
        let fields = if random.chance(1, 8) { LONG_WAY } else { "Accept: */*\r\n" };
        (random.pick(&ROUTES), fields.into(), random.pick(&BODIES).into())
    });
}

const LIMITS: &str = "
Plain: {burst: 9, count: 7, period: 3s}
Other: {burst: 4, count: 1, period: 1ms}
Shade: {burst: 1, count: 1, period: 365d, shadow: true}
NewOrdersPerAccount: {burst: 5, count: 1, period: 1us}
Address: {burst: 3, count: 3, period: 10s, id: ipAddress}
";
const OVERRIDES: &str = "
Plain:grace: {burst: 2, count: 1, period: 1h}
FailedAuthorizationsPerAccount:7: {burst: 4, count: 9, period: 7s}
Address:2001:db8::1: {burst: 1, count: 1, period: 1s}
";
const NAMES: [&str; 8] = [
    "Plain",
    "Plain",
    "Other",
    "Shade",
    "NewOrdersPerAccount",
    "FailedAuthorizationsPerAccount",
    "Address",
    "Nobody",
];
const IDS: [&str; 9] =
    ["ada", "grace", "7", "007", "2001:0DB8::0:1", "10.0.0.1", "gr\u{e4}ce", r"a\u0062\n", ""];
const COSTS: [&str; 10] = ["", "", "0", "1", "3", "100", "01", "1e0", "-1", "99999999999999999999"];

/// One ask, in one of the ways that programs write it.
fn single(random: &mut Random) -> String {
    let blank = random.pick(&["", "", " ", "  "]);
    let (name, id, cost) = (random.pick(&NAMES), random.pick(&IDS), random.pick(&COSTS));
    let cost =
        if cost.is_empty() { String::new() } else { format!(",{blank}\"cost\":{blank}{cost}") };
    format!("{{\"limit\":{blank}\"{name}\",{blank}\"id\":{blank}\"{id}\"{cost}}}")
}

/// Heads: more than are kept in mind, of which some are too long for that, or have a secret.
fn head(random: &mut Random) -> String {
    match random.index(8) {
        0 => LONG_WAY.into(),
        1 => "Authorization: Bearer nobodys\r\n".into(),
        2 => format!("X-Trace: {}\r\n", "x".repeat(random.index(1_000))),
        3 => format!("X-Trace: {}\r\n", random.index(12)),
        _ => "Accept: */*\r\n".into(),
    }
}

#[test]
fn both_ways_answer_single_asks_the_same_whatever_came_before() {
    let folder = Folder::new();
    for dialect in [XRateLimit::Off, XRateLimit::Iso8601] {
        let mut settings = settings();
        settings.limits = Some(folder.write("limits.yaml", LIMITS));
        settings.overrides = Some(folder.write("overrides.yaml", OVERRIDES));
        settings.http.x_ratelimit = dialect;
        compare(&settings, |random| {
            let several = r#"{"asks":[{"limit":"Plain","id":"ada"},{"limit":"Other","id":"ada"}]}"#;
            let body = if random.chance(1, 9) { several.into() } else { single(random) };
            (random.pick(&ROUTES), head(random), body)
        });
    }
}

/// Asks two servers the same, of which one is asked the long way only.
fn compare(settings: &Settings, make: impl Fn(&mut Random) -> (&'static str, String, String)) {
    let servers = [(); 2].map(|()| StandingTime::at_secs(1_700_000_000)).map(|time| {
        let server = start(settings, Arc::clone(&time) as _);
        (server, time)
    });
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    for round in 0..ROUNDS {
        let (mut short, mut long) = (String::new(), String::new());
        for _ in 0..REQUESTS {
            let (route, fields, body) = make(&mut random);
            short += &request("POST", route, &fields, &body);
            long += &request("POST", route, LONG_WAY, &body);
        }
        let short = answers(&servers[0].0, &cut(short.as_bytes(), &mut random));
        let long = answers(&servers[1].0, &[long.as_bytes()]);
        assert_eq!(short.matches("HTTP/1.1 ").count(), REQUESTS, "{short}");
        assert_eq!(short, long, "in round {round}");
        for (_, time) in &servers {
            time.set(ratekeeper::Moment::from_nanos(
                1_700_000_000_000_000_000 + round as u64 * 777,
            ));
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
