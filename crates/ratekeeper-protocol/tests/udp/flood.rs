//! Ten million datagrams, most of them nonsense.

use ratekeeper_protocol::udp::{codec, fuzz_one};
use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};
use ratekeeper_testkit::random::Random;

use crate::udp_fixture::{MUSICBRAINZ, UdpFixture};

const DATAGRAMS: u64 = 10_000_000;
const THREADS: u64 = 2;
const BATCH: usize = 50;

const SEEDS: [&[u8]; 14] = [
    b"1173 over_limit ws global",
    b"472 over_limit ws ip=74.11.99.155",
    b"over_limit ws ip=132.185.1.1",
    b"over_limit ws ua=Java/1.6.0",
    b"over_limit ws ua=MusicBrainz Picard/1.0",
    b"over_limit ws ua=headphones\n",
    b"78229 get_stats some-key",
    b"get_stats default",
    b"get_size",
    b"000 ping",
    b"check_limit {\"origin\":\"ws\",\"ua\":\"foo\",\"ip\":\"9.9.9.9\"}",
    b"check_limit {\"ua\":\"\\u0000\\n\"}",
    b"over_limit ",
    b"no_such_command",
];

/// A datagram of random bytes, or one that was right until something happened to it.
fn write_datagram(random: &mut Random, out: &mut Vec<u8>) {
    out.clear();
    if random.chance(1, 5) {
        let length = random.below(24);
        out.extend((0..length).map(|_| random.bits().to_le_bytes()[0]));
        return;
    }
    out.extend_from_slice(random.pick(&SEEDS));
    for _ in 0..random.below(4) {
        let at = random.index(out.len() + 1);
        let byte = random.bits().to_le_bytes()[0];
        match random.below(5) {
            0 => out.insert(at, byte),
            1 => out.truncate(at.max(1)),
            2 if at < out.len() => out[at] = byte,
            3 if at < out.len() => drop(out.remove(at)),
            _ => out.extend_from_slice(random.pick(&[&b" "[..], b"\n", b"7", b"ping", b"\xff"])),
        }
    }
}

/// Whether an answer has the shape that clients read.
fn is_well_formed(request: &codec::Request<'_>, reply: &[u8]) -> bool {
    let Some(answer) = reply.strip_prefix(request.prefix) else { return false };
    match request.body {
        codec::Body::OverLimit(_) => is_verdict(answer),
        codec::Body::Stats(key) => answer.starts_with(b"n_req=") && answer.ends_with(key),
        codec::Body::Size => answer.starts_with(b"size="),
        codec::Body::Ping => answer == b"pong",
        codec::Body::CheckLimit(_) => answer.is_empty() || answer.starts_with(b"ok "),
    }
}

fn is_verdict(answer: &[u8]) -> bool {
    let Some(rest) = answer.strip_prefix(b"ok Y ").or(answer.strip_prefix(b"ok N ")) else {
        return false;
    };
    let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b' ');
    answer.len() <= 100 && rest.iter().all(is_number)
}

fn flood(seed: u64, datagrams: u64) -> Counts {
    let mut fixture = UdpFixture::new(MUSICBRAINZ);
    let mut random = Random::new(seed);
    let mut room = vec![Vec::new(); BATCH];
    let mut replies = Replies::default();
    for _ in 0..datagrams / BATCH as u64 {
        for out in &mut room {
            write_datagram(&mut random, out);
        }
        let requests: Vec<&[u8]> = room.iter().map(Vec::as_slice).collect();
        replies.clear();
        fixture.door.answer(&requests, fixture.now, &mut replies, &mut fixture.counts);
        for (datagram, reply) in requests.iter().zip(replies.iter()) {
            let is_right = match codec::parse(datagram) {
                None => reply.is_empty(),
                Some(request) if reply.is_empty() => {
                    matches!(request.body, codec::Body::CheckLimit(_))
                }
                Some(request) => is_well_formed(&request, reply),
            };
            let show = String::from_utf8_lossy;
            assert!(is_right, "{} was answered {}", show(datagram), show(reply));
        }
        fixture.now = fixture.now.after(ratekeeper::Nanos::new(1_000_000));
    }
    let held = fixture.averages.held();
    assert!(held.bytes <= held.bytes_max, "{held:?}");
    fixture.counts
}

#[test]
fn ten_million_datagrams_do_no_harm() {
    let all: Vec<Counts> = std::thread::scope(|scope| {
        let work = |seed| move || flood(seed, DATAGRAMS / THREADS);
        let workers: Vec<_> = (0..THREADS).map(|seed| scope.spawn(work(seed))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let sum = |count: fn(&Counts) -> u64| all.iter().map(count).sum::<u64>();
    assert_eq!(sum(|counts| counts.requests + counts.malformed), DATAGRAMS);
    assert!(sum(|counts| counts.requests) > DATAGRAMS / 4);
    assert!(sum(|counts| counts.malformed) > DATAGRAMS / 4);
}

#[test]
fn the_property_for_fuzzers_holds_for_the_seeds() {
    let mut random = Random::new(3);
    let mut datagram = Vec::new();
    for seed in SEEDS {
        fuzz_one(seed);
    }
    for _ in 0..20_000 {
        write_datagram(&mut random, &mut datagram);
        fuzz_one(&datagram);
    }
}
