//! What requests look like, and what holds for any stream of them.
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use ratekeeper::algorithm::quota::{Amend, Ask, Unit};
use ratekeeper_testkit::random::Random;

use super::codec::{FRAME_BYTES_MAX, Request, parse};
use super::fuzz_one;

const INSERT: &[u8] =
    b"\x01\x0a\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\x60\xea\0\0\0\0\0\0\x02\x01c1r";

#[test]
fn a_request_is_read_field_by_field() {
    let ask = Ask::Insert { quota: 10, usage: 2, ttl: 60_000, unit: Unit::Milliseconds };
    let insert = Request { ask, key: b"\x02\x01c1r" };
    assert_eq!(parse(INSERT), Some((insert, &b""[..])));
    assert_eq!(insert.ids(), [&b"c1"[..], b"r"]);
    let ids = |ask| Some((Request { ask, key: b"\0\x02ab" }, &b"x"[..]));
    assert_eq!(ids(Ask::Query).unwrap().0.ids(), [&b""[..], b"ab"]);
    assert_eq!(parse(b"\x02\0\x02abx"), ids(Ask::Query));
    assert_eq!(parse(b"\x04\0\x02abx"), ids(Ask::Purge));
    for (codes, ask) in [
        (b"\0\0", Ask::AmendQuota(Amend::Patch, 258)),
        (b"\0\x01", Ask::AmendQuota(Amend::Increase, 258)),
        (b"\0\x02", Ask::AmendQuota(Amend::Decrease, 258)),
        (b"\x01\0", Ask::AmendLifetime(Amend::Patch, 258)),
        (b"\x01\x01", Ask::AmendLifetime(Amend::Increase, 258)),
        (b"\x01\x02", Ask::AmendLifetime(Amend::Decrease, 258)),
        (b"\x02\0", Ask::Touch),
        (b"\0\x03", Ask::Touch),
        (b"\xff\xff", Ask::Touch),
    ] {
        let frame = [b"\x03", &codes[..], b"\x02\x01\0\0\0\0\0\0\0\x02abx"].concat();
        assert_eq!(parse(&frame), ids(ask));
    }
}

#[test]
fn no_part_of_a_request_is_a_request() {
    for length in 0..INSERT.len() {
        assert_eq!(parse(&INSERT[..length]), None);
    }
    let longest = [&INSERT[..26], &[255; 2 + 510]].concat();
    assert_eq!(longest.len(), FRAME_BYTES_MAX);
    assert!(parse(&longest).is_some());
    assert!(parse(&longest[1..]).is_none());
}

/// Appends a request for one of a few keys.
fn push_request(random: &mut Random, stream: &mut Vec<u8>) {
    let ids = random.pick(&[
        &b"\x01\x01cr"[..],
        b"\0\0",
        b"\x02\x01abc",
        b"\x01\x02abc",
        b"\x01\x01xL",
        b"\0\x01L",
        b"\x07\x011.2.3.4I",
        b"\x01\x01xI",
        b"\x01\x01\xffL",
    ]);
    let number = |random: &mut Random| match random.below(8) {
        0 => u64::MAX,
        1 => random.bits(),
        _ => random.below(5),
    };
    match random.below(8) {
        0..4 => {
            stream.push(1);
            stream.extend(number(random).to_le_bytes());
            stream.extend(number(random).to_le_bytes());
            stream.push(random.pick(&[0, 1, 2, 3, 255]));
            stream.extend(number(random).to_le_bytes());
        }
        4..6 => stream.push(2),
        6 => {
            stream.push(3);
            stream.extend([random.pick(&[0, 1, 2]), random.pick(&[0, 1, 2, 3])]);
            stream.extend(number(random).to_le_bytes());
        }
        _ => stream.push(4),
    }
    if random.chance(1, 1000) {
        stream.extend([255; 2 + 510]);
    } else {
        stream.extend(ids);
    }
}

#[test]
fn cutting_a_stream_of_requests_anywhere_changes_no_reply() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let mut stream = vec![random.pick(&[0, 1, 2, 3])];
        for _ in 0..=random.below(200) {
            push_request(&mut random, &mut stream);
        }
        // Whole requests, and perhaps a part of one.
        stream.truncate(stream.len().saturating_sub(random.index(2)));
        fuzz_one(&stream);
    }
}

/// Ten million requests: most are right, and in some streams a few bytes are not.
#[test]
fn ten_million_mutated_requests_do_no_harm() {
    let mut random = Random::new(2);
    let mut stream = Vec::new();
    for _ in 0..1_000 {
        stream.clear();
        stream.push(random.pick(&[0, 1, 2, 3]));
        for _ in 0..10_000 {
            push_request(&mut random, &mut stream);
        }
        for _ in 0..random.below(3) {
            let at = 1 + random.index(stream.len() - 1);
            stream[at] = u8::try_from(random.below(256)).unwrap();
        }
        fuzz_one(&stream);
    }
}

#[test]
fn ten_million_random_bytes_do_no_harm() {
    let mut random = Random::new(3);
    for _ in 0..10_000_000 / 4_000 {
        // Few bytes begin a request, so a stream of random ones would hardly have any.
        let bound = random.pick(&[5, 6, 256]);
        let stream: Vec<u8> =
            (0..4_000).map(|_| u8::try_from(random.below(bound)).unwrap()).collect();
        fuzz_one(&stream);
    }
}
