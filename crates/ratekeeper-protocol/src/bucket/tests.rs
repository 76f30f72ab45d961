//! What lines mean, and what holds for any stream of them.
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use ratekeeper::limits::Source;
use ratekeeper::{Limiter, Limits, Moment};
use ratekeeper_testkit::random::Random;

use super::codec::{Command, content, parse, plain_get, split};
use super::{Door, STARTER, Session, fuzz_one};
use crate::{Counts, Flow, StreamDoor as _};

fn get(name: &str, cost: u64) -> Command<'_> {
    Command::Get { name: name.as_bytes(), cost }
}

#[test]
fn a_line_is_a_command_or_it_is_not() {
    let cases: [(&[u8], Command<'_>); 32] = [
        (b"get a", get("a", 1)),
        (b"get  \t a", get("a", 1)),
        (b"get\x0ba", get("a", 1)),
        (b"get\x0ca", get("a", 1)),
        (b"get\ra", get("a", 1)),
        (b"get\xa0a", get("a", 1)),
        (b"get \xa0 a\xa03", get("a", 3)),
        (b"get \xd0\xa0", get("\u{420}", 1)),
        (b"get \xd0\xa0 2", get("\u{420}", 2)),
        (b"get\xa0\xd0\xa0", Command::Invalid),
        (b"get\xc2\xa0a", Command::Invalid),
        (b"get\x85a", Command::Invalid),
        (b"get a\x85", Command::Get { name: b"a\x85", cost: 1 }),
        (b"get a\0", get("a\0", 1)),
        (b"get get", get("get", 1)),
        (b"get quit", get("quit", 1)),
        (b"get a 1", get("a", 1)),
        (b"get a  0007", get("a", 7)),
        (b"get a 99999999999999999999999", get("a", u64::MAX)),
        (b"get a 0", Command::Invalid),
        (b"get a 000", Command::Invalid),
        (b"get a +1", Command::Invalid),
        (b"get a -1", Command::Invalid),
        (b"get a 1.0", Command::Invalid),
        (b"get a 1 ", Command::Invalid),
        (b"get a 1 1", Command::Invalid),
        (b"get a ", Command::Invalid),
        (b"get", Command::Invalid),
        (b"get ", Command::Invalid),
        (b"", Command::Invalid),
        (b"quit", Command::Quit),
        (b"quit ", Command::Invalid),
    ];
    for (line, expected) in cases {
        assert_eq!(parse(line), expected, "{}", line.escape_ascii());
    }
}

#[test]
fn a_line_ends_in_lf_and_one_cr_before_it_is_dropped() {
    assert_eq!(split(b"a\r\r\nb\n"), Some((&b"a\r\r"[..], &b"b\n"[..])));
    assert_eq!(split(b"\n"), Some((&b""[..], &b""[..])));
    assert_eq!(split(b"a\r"), None);
    assert_eq!(content(b"a\r\r"), b"a\r");
    assert_eq!(content(b"\r"), b"");
}

#[test]
fn a_plain_line_is_what_parsing_makes_of_it() {
    let cases = [
        ("get a\nb", Some(("a", 6))),
        ("get a\r\nb", Some(("a", 7))),
        ("get \u{420}\n", Some(("\u{420}", 7))),
        ("get a", None),
        ("get a\r", None),
        ("get a\r\r\n", None),
        ("get \n", None),
        ("get  a\n", None),
        ("get a 2\n", None),
        ("get\ta\n", None),
        ("quit\n", None),
    ];
    for (text, expected) in cases {
        assert_eq!(plain_get(text), expected, "{text:?}");
        if let (Some((name, _)), Some((line, _))) = (expected, split(text.as_bytes())) {
            assert_eq!(parse(content(line)), get(name, 1), "{text:?}");
        }
    }
}

#[test]
fn a_bucket_whose_name_has_a_colon_comes_before_an_id_of_a_limit() {
    let replies = |buckets: &str| {
        let limits = Source { name: "limits", text: "L: {burst: 1, count: 1, period: 1h}" };
        let buckets = Source { name: "buckets", text: buckets };
        let limits = Limits::parse(&limits, None).unwrap().with_buckets(&buckets).unwrap();
        let door = Door::new(Arc::new(Limiter::new(limits).unwrap()));
        let lines = b"get L:y\nget L:x\nget L:x\nget L:y\nget L:x\n";
        let (mut out, mut counts) = (Vec::new(), Counts::default());
        let mut session = Session::default();
        let flow = door.receive(&mut session, lines, Moment::EPOCH, &mut out, &mut counts);
        assert_eq!((flow, counts.requests), (Flow::Open, 5));
        String::from_utf8(out).unwrap()
    };
    assert_eq!(replies("M 1 5\n"), "1\n1\n0\n0\n0\n");
    assert_eq!(replies("L:x 1 5\n"), "1\n1\n1\n0\n1\n");
}

#[test]
fn the_starter_buckets_are_right() {
    let limits = Limits::new().with_buckets(&STARTER).unwrap();
    let names: Vec<_> = limits.iter().map(ratekeeper::limits::NamedLimit::name).collect();
    assert_eq!(names, ["bucketa", "bucketb", "bucketc"]);
}

/// Pieces of lines, right and wrong, that make up most of what is tried.
const PIECES: [&[u8]; 30] = [
    b"get a\r\n",
    b"get b\n",
    b"get a:b\n",
    b"get L:x\n",
    b"get L\n",
    b"get I:10.0.0.1\n",
    b"get I:x\n",
    b"get \xd0\xa0\n",
    b"get b 2\n",
    b"get b 200\n",
    b"get b 0\n",
    b"get nope\n",
    b"get nope:x\r\n",
    b"get a:\n",
    b"get ",
    b"get",
    b"\n",
    b"\r\n",
    b"\r",
    b"a",
    b" ",
    b"\xa0",
    b"quit",
    b"quit\n",
    b"GET / HTTP/1.1\n",
    b"\x16\x03",
    b"QUIT\n",
    b"0123456789012345678901234567890123456789",
    b":",
    b"9",
];

fn stream(random: &mut Random, pieces: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..pieces {
        // What closes the connection should not do so at once every time.
        let piece = random.pick(&PIECES);
        let closes = [&b"quit"[..], b"GET", b"\x16"].iter().any(|it| piece.starts_with(it));
        if !closes || random.chance(1, 50) {
            stream.extend_from_slice(piece);
        }
        if random.chance(1, 200) {
            let byte = u8::try_from(random.below(256)).unwrap();
            stream.push(byte);
        }
    }
    stream
}

#[test]
fn cutting_a_stream_anywhere_changes_no_reply() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let pieces = 1 + random.index(300);
        fuzz_one(&stream(&mut random, pieces));
    }
}

/// Ten million lines: most are right, and some bytes of them are not.
#[test]
fn ten_million_mutated_lines_do_no_harm() {
    let mut random = Random::new(2);
    let lines: Vec<_> = PIECES.iter().filter(|piece| piece.ends_with(b"\n")).collect();
    let mut tried = 0;
    let mut stream = Vec::new();
    while tried < 10_000_000 {
        stream.clear();
        for _ in 0..10_000 {
            let line = lines[random.index(lines.len())];
            if !line.starts_with(b"quit") && !line.starts_with(b"GET") {
                stream.extend_from_slice(line);
            }
        }
        for _ in 0..random.below(100) {
            let at = random.index(stream.len());
            stream[at] = u8::try_from(random.below(256)).unwrap();
        }
        tried += stream.split(|byte| *byte == b'\n').skip(1).count();
        fuzz_one(&stream);
    }
}

#[test]
fn ten_million_random_bytes_do_no_harm() {
    let mut random = Random::new(3);
    for _ in 0..10_000_000 / 4_000 {
        let common = random.chance(1, 2);
        let byte = |random: &mut Random| match random.below(256) {
            // A stream of random bytes has few lines of a length that is allowed.
            bits if common && bits < 40 => b'\n',
            bits => u8::try_from(bits).unwrap(),
        };
        let stream: Vec<u8> = (0..4_000).map(|_| byte(&mut random)).collect();
        fuzz_one(&stream);
    }
}
