//! What was recorded from the original server.

use ratekeeper::Moment;

use crate::udp_fixture::{MUSICBRAINZ, UdpFixture};

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "recorded times fit")]
fn moment(secs: f64) -> Moment {
    let whole = secs.trunc();
    Moment::from_nanos(whole as u64 * 1_000_000_000 + ((secs - whole) * 1e9) as u64)
}

#[test]
fn recorded_averages_are_answered_byte_for_byte() {
    let strict = "rules: [{match: '^', limit: 22, period: 20, strict: true}]";
    let leaky = "rules: [{match: '^', limit: 125, period: 10}]";
    let recordings = [
        (include_str!("../vectors/burst_strict_22_20.tsv"), strict, 45),
        (include_str!("../vectors/leaky_125_10.tsv"), leaky, 400),
        (include_str!("../vectors/clock_backwards.tsv"), strict, 5),
    ];
    for (text, rules, count) in recordings {
        let mut fixture = UdpFixture::new(rules);
        for row in rows(text) {
            let [time, request, answer] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
            fixture.now = moment(time.parse().unwrap());
            fixture.says(request, answer);
        }
        assert_eq!(fixture.counts.requests, count);
        assert_eq!(rows(text).count() as u64, count);
    }
}

/// The bytes that Python writes as `b'..'`.
fn unescape(text: &str) -> Vec<u8> {
    let inside = text.strip_prefix("b'").unwrap().strip_suffix('\'').unwrap();
    let (mut bytes, mut rest) = (Vec::new(), inside);
    while let Some(c) = rest.chars().next() {
        let (byte, length) = match rest.as_bytes() {
            [b'\\', b'x', ..] => (u8::from_str_radix(&rest[2..4], 16).unwrap(), 4),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', other, ..] => (*other, 2),
            _ => (u8::try_from(c).unwrap(), 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

#[test]
fn recorded_edges_are_answered_byte_for_byte() {
    let mut count = 0;
    for row in rows(include_str!("../vectors/udp_edge.tsv")) {
        let (request, answer) = row.split_once('\t').unwrap();
        let said = UdpFixture::new(MUSICBRAINZ).send(unescape(request));
        let answer = if answer == "(none)" { Vec::new() } else { unescape(answer) };
        assert_eq!(in_order(&said), in_order(&answer), "to {request}");
        count += 1;
    }
    assert_eq!(count, 31);
}

/// The original prints the fields of an object in any order.
fn in_order(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    match text.split_once(", [{").map(|(head, tail)| (head, format!("[{{{tail}"))) {
        Some((head, tail)) => {
            let objects: serde_json::Value = serde_json::from_str(&tail).unwrap();
            format!("{head}, {objects}")
        }
        None => text,
    }
}
