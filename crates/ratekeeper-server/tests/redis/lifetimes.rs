//! A million decisions, through every door and by every algorithm, leave no key without a lifetime.

use std::fmt::Write as _;
use std::thread;

use ratekeeper_server::Server;

use crate::servers::Single;
use crate::support::{Datagrams, Folder, INSERT_ANSWER_BYTES, Stream, Web, insert};
use crate::{sharing, start_ahead};

const DECISIONS: u64 = 1_000_000;
/// How many of them come through which door.
const LINES: usize = 400_000;
const FRAMES: usize = 250_000;
const DATAGRAMS: usize = 150_000;
const TRANSACTIONS: usize = 100_000;

const LIMITS: &str = "
Shared: {burst: 50, count: 50, period: 1h}
Plain: {burst: 9, count: 9, period: 1h}
Quick: {burst: 9, count: 9, period: 1h}
Leased: {burst: 100000, count: 1000, period: 1s, lease: 50ms}
";
const RULES: &str = "
rules:
- {match: '^shared (.+)$', use: Shared}
- {match: '^strict', limit: 5, period: 3600, strict: true}
- {match: '^ip', limit: 5, period: 3600}
";
/// How many asks are sent before their answers are read.
const WINDOW: usize = 500;
/// The same of datagrams: a client that overruns its own socket loses answers.
const DATAGRAM_WINDOW: usize = 50;
/// How many transactions one request has.
const BATCH: usize = 1_000;

fn lines(mut client: Stream) {
    for window in 0..LINES / WINDOW {
        let mut text = String::new();
        for place in 0..WINDOW {
            let ask = window * WINDOW + place;
            // Half of them for buckets that are asked all the time.
            let (limit, id) =
                if place % 2 == 0 { ("Plain", ask / 4) } else { ("Leased", ask % 16) };
            writeln!(text, "get {limit}:{id}").unwrap();
        }
        client.send(text.as_bytes());
        let answers = client.read(2 * WINDOW);
        assert!(answers.chunks(2).all(|it| matches!(it, b"0\n" | b"1\n")));
    }
}

fn frames(mut client: Stream) {
    // Each is an insert, a query, a change, an insert of a named limit, and a purge of one in two.
    const ASKS: usize = 5;
    for window in 0..FRAMES / ASKS / 100 {
        let (mut bytes, mut answer_bytes) = (Vec::new(), 0);
        for place in 0..100 {
            let id = (window * 100 + place).to_string();
            let length = u8::try_from(id.len()).unwrap();
            let ids = [&[length, 1][..], id.as_bytes(), b"/"].concat();
            let longer = [&[3, 1, 1][..], &60_u64.to_le_bytes()].concat();
            let last = if place % 2 == 0 { [4].as_slice() } else { [2].as_slice() };
            bytes.extend(insert(9, 1, 3_600, &id, "/"));
            bytes.extend([&[2][..], &ids].concat());
            bytes.extend([&longer[..], &ids].concat());
            bytes.extend(insert(1, 1, 1, &id, "Quick"));
            bytes.extend([last, &ids].concat());
            answer_bytes += 3 * INSERT_ANSWER_BYTES + 1;
            answer_bytes += if place % 2 == 0 { 1 } else { INSERT_ANSWER_BYTES };
        }
        client.send(&bytes);
        client.read(answer_bytes);
    }
}

fn datagrams(client: &Datagrams) {
    for window in 0..DATAGRAMS / DATAGRAM_WINDOW {
        for place in 0..DATAGRAM_WINDOW {
            let ask = window * DATAGRAM_WINDOW + place;
            let kind = ["ip=", "strict ", "shared "][place % 3];
            client.send(format!("over_limit {kind}{}", ask / 6).as_bytes());
        }
        for _ in 0..DATAGRAM_WINDOW {
            assert!(client.receive().starts_with(b"ok "));
        }
    }
}

fn transactions(mut client: Web) {
    for batch in 0..TRANSACTIONS / BATCH {
        let transaction = |place: usize| {
            let id = (batch * BATCH + place) / 4;
            let op = ["spend", "spend", "refund", "spend"][place % 4];
            let asks =
                format!(r#"{{"limit":"Plain","id":"{id}"}},{{"limit":"Shared","id":"{id}"}}"#);
            format!(r#"{{"op":"{op}","asks":[{asks}]}}"#)
        };
        let all: Vec<_> = (0..BATCH).map(transaction).collect();
        let body = format!(r#"{{"transactions":[{}]}}"#, all.join(","));
        let answer = client.post("/v1/batch", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Asks through all doors at once.
fn ask(server: &Server) {
    let (bucket, throttr) = (Stream::connect(server, "bucket"), Stream::connect(server, "throttr"));
    let (udp, web) = (Datagrams::connect(server), Web::connect(server));
    thread::scope(|scope| {
        scope.spawn(move || lines(bucket));
        scope.spawn(move || frames(throttr));
        scope.spawn(move || datagrams(&udp));
        scope.spawn(move || transactions(web));
    });
}

/// Looks at every key: how many there are, or one that lives for ever.
const LOOK: &str = "
local cursor, keys = '0', 0
repeat
  local page = redis.call('SCAN', cursor, 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    keys = keys + 1
    if redis.call('PTTL', key) < 0 or key:sub(1, 11) ~= 'ratekeeper:' then return key end
  end
until cursor == '0'
return keys
";

#[test]
fn after_a_million_decisions_every_key_has_a_lifetime() {
    let (redis, folder) = (Single::start(), Folder::new());
    let mut settings = sharing(&redis, &folder, LIMITS);
    settings.udp.rules = Some(folder.write("rules.yaml", RULES));
    let server = start_ahead(&settings, 0);
    let clock = ratekeeper::Clock::start();
    let began = clock.now();
    ask(&server);
    let shared = server.stats().shared.unwrap();
    assert!(shared.failures.is_empty() && shared.up, "{shared:?}");
    let decisions = shared.decided + shared.remembered + shared.leased;
    assert!(decisions >= DECISIONS, "{decisions} decisions: {shared:?}");
    let keys: Result<usize, _> = redis.text(&["EVAL", LOOK, "0"]).parse();
    let keys = keys.unwrap_or_else(|_| panic!("{}", redis.text(&["EVAL", LOOK, "0"])));
    eprintln!(
        "{decisions} decisions in {}, {} of them by Redis in {} trips; {keys} keys",
        clock.now().since(began),
        shared.decided,
        shared.trips,
    );
    assert!(keys > 100_000, "{keys} keys are left to look at");
    assert!(server.drain(settings.drain).unwrap());
}
