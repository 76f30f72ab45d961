//! Recorded traffic through real sockets. Time stands still but for what the record says.

use std::io::Read;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{Moment, Nanos};
use serde_json::Value;

use crate::support::{Datagrams, Folder, StandingTime, Stream, settings, start};

const NOW: u64 = 1_700_000_000;

fn vector(name: &str) -> String {
    let path =
        format!("{}/../ratekeeper-protocol/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// `1700000000.0999999` in whole nanoseconds.
fn moment(text: &str) -> Moment {
    let (secs, part) = text.split_once('.').unwrap_or((text, ""));
    let nanos: u64 = format!("{part:0<10}")[..10].parse().unwrap();
    let secs: u64 = secs.parse().unwrap();
    Moment::from_nanos(secs * 1_000_000_000 + nanos.div_ceil(10))
}

#[test]
fn rates_are_those_of_the_original() {
    for (name, rule) in [
        ("burst_strict_22_20.tsv", "limit: 22, period: 20, strict: true"),
        ("leaky_125_10.tsv", "limit: 125, period: 10"),
        ("clock_backwards.tsv", "limit: 22, period: 20, strict: true"),
    ] {
        let folder = Folder::new();
        let mut settings = settings();
        let rules = format!("rules: [{{match: '', {rule}}}]");
        settings.udp.rules = Some(folder.write("rules.yaml", &rules));
        let time = StandingTime::at_secs(NOW);
        let server = start(&settings, Arc::clone(&time) as _);
        let client = Datagrams::connect(&server);
        for row in rows(&vector(name)) {
            let [at, request, answer] = row[..] else { panic!("{name}: {row:?}") };
            time.set(moment(at));
            let got = client.ask(request.as_bytes());
            assert_eq!(String::from_utf8(got).unwrap(), answer, "{name}: {at} {request}");
        }
        server.drain(settings.drain).unwrap();
    }
}

#[test]
fn datagrams_are_answered_or_ignored_as_by_the_original() {
    let mut settings = settings();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/musicbrainz.yaml");
    settings.udp.rules = Some(example.into());
    let text = vector("udp_edge.tsv");
    let mut count = 0;
    for row in rows(&text) {
        let [request, answer] = row[..] else { panic!("{row:?}") };
        let server = start(&settings, StandingTime::at_secs(NOW));
        let client = Datagrams::connect(&server);
        client.send(&unquote(request));
        // Datagrams of one client are answered in order, so this comes first if the other does not.
        client.send(b"0123456789 ping");
        let expected = match answer {
            "(none)" => b"0123456789 pong".to_vec(),
            _ => unquote(answer),
        };
        assert_eq!(fields_in_order(&client.receive()), fields_in_order(&expected), "{request}");
        drop(server);
        count += 1;
    }
    assert_eq!(count, 31);
}

/// The original told the fields of its JSON objects in any order.
fn fields_in_order(answer: &[u8]) -> (String, Option<Value>) {
    let text = String::from_utf8_lossy(answer).into_owned();
    match text.split_once(", [") {
        Some((answer, lists)) => {
            (answer.to_owned(), Some(serde_json::from_str(&format!("[[{lists}]")).unwrap()))
        }
        None => (text, None),
    }
}

/// The bytes that Python writes as `b'..'`.
fn unquote(text: &str) -> Vec<u8> {
    let inner = text.strip_prefix('b').unwrap();
    unescape(&inner[1..inner.len() - 1])
}

#[test]
fn lines_are_answered_as_by_the_original() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.bucket.buckets = Some(folder.write("buckets.conf", "bucket_a 1\nbucket_b 100\n"));
    let text = vector("token_bucket.tsv");
    let mut count = 0;
    for row in rows(&text) {
        let [request, answer, then] = row[..] else { panic!("{row:?}") };
        let server = start(&settings, StandingTime::at_secs(NOW));
        let mut client = Stream::connect(&server, "bucket");
        client.send(&unescape(request.trim_end_matches("<EOF>")));
        if request.ends_with("<EOF>") {
            client.0.shutdown(Shutdown::Write).unwrap();
        }
        let answer = if answer == "(nothing)" { Vec::new() } else { unescape(answer) };
        assert_eq!(client.read(answer.len()), answer, "{request}");
        if then == "closed" {
            assert_eq!(client.read_to_end(), b"", "{request}");
        } else {
            client.send(b"quit\n");
            assert_eq!(client.read_to_end(), b"BYE\n", "{request}");
        }
        drop(client);
        server.drain(settings.drain).unwrap();
        count += 1;
    }
    assert_eq!(count, 21);
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            _ => match rest.next().unwrap() {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                quoted @ (b'\'' | b'"' | b'\\') => quoted,
                other => panic!("\\{}", char::from(other)),
            },
        });
    }
    bytes
}

#[test]
fn quotas_are_answered_as_by_the_original() {
    let vectors: Value = serde_json::from_str(&vector("throttr.json")).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    let normative: Vec<_> = cases.iter().filter(|case| case["klass"] == "normative").collect();
    assert_eq!(normative.len(), 13);
    for case in normative {
        let time = StandingTime::at_secs(NOW);
        let server = start(&settings(), Arc::clone(&time) as _);
        let mut client = Stream::connect(&server, "throttr");
        let mut now = Moment::from_nanos(NOW * 1_000_000_000);
        for step in case["steps"].as_array().unwrap() {
            // Some time passes between two steps, as it did when they were recorded.
            let sleep = step["sleep_ms"].as_u64().unwrap_or(0) * 1_000_000 + 1_000;
            now = now.after(Nanos::new(sleep.into()));
            time.set(now);
            let Some(send) = step["send"].as_str() else { continue };
            client.send(&unhex(send));
            let expected = unhex(step["recv"].as_str().unwrap());
            let got = client.read(expected.len());
            check(case, step, &got, &expected);
        }
        client.0.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(client.0.read(&mut [0]).is_err(), "{}: a byte too many", case["name"]);
        drop(client);
        server.drain(Duration::from_secs(5)).unwrap();
    }
}

/// The whole answer, but for the time that is left: that one is within its bounds.
fn check(case: &Value, step: &Value, got: &[u8], expected: &[u8]) {
    let name = &case["name"];
    let ttl = |answer: &[u8]| answer.get(10..).map(|it| i64::from_le_bytes(it.try_into().unwrap()));
    let (Some(left), Some(recorded)) = (ttl(got), ttl(expected)) else {
        assert_eq!(got, expected, "{name}");
        return;
    };
    assert_eq!(got[..10], expected[..10], "{name}");
    let bound = |index| step["ttl_bounds"][index].as_i64();
    // Without bounds it was so short that what was recorded was some time later than here.
    let (least, most) = (bound(0).unwrap_or(recorded), bound(1).unwrap_or(2 * recorded));
    assert!((least..=most).contains(&left), "{name}: {left} is not in {least}..={most}");
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |index| u8::from_str_radix(&text[index..index + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}
