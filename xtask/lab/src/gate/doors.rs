//! Requests through the doors, from the bytes of a read to those of a write.

use std::sync::Arc;

use ratekeeper::Keyed;
use ratekeeper::limiter::MEMORY_DEFAULT;
use ratekeeper::limits::Limits;
use ratekeeper_protocol::{
    Counts, DatagramDoor as _, Flow, Replies, StreamDoor, bucket, resp, throttr, udp,
};

use super::engine::limiter;
use super::{KEYS, SECRET, Subject, WIDE, expect_all, ids, moment};
use crate::bench::Failure;
use crate::bench::udp::RULES;

/// How many requests a read brings where a client does not wait for each answer.
const PIPELINED: usize = 100;
const DATAGRAMS: usize = 64;

pub(super) const SUBJECTS: [Subject; 12] = [
    Subject { name: "UDP: a datagram, of 64", work: |times| datagrams(times, DATAGRAMS) },
    Subject { name: "UDP: a datagram alone", work: |times| datagrams(times, 1) },
    Subject { name: "bucket: get NAME, of 100", work: |times| names(times, PIPELINED) },
    Subject { name: "bucket: get NAME alone", work: |times| names(times, 1) },
    Subject { name: "bucket: get NAME:ID, of 100", work: |times| named_ids(times, PIPELINED) },
    Subject { name: "bucket: get NAME:ID alone", work: |times| named_ids(times, 1) },
    Subject { name: "Throttr: an insert, of 100", work: |times| inserts(times, PIPELINED) },
    Subject { name: "Throttr: an insert alone", work: |times| inserts(times, 1) },
    Subject { name: "RESP: CL.THROTTLE, of 100", work: |times| inline_rules(times, PIPELINED) },
    Subject { name: "RESP: CL.THROTTLE alone", work: |times| inline_rules(times, 1) },
    Subject { name: "RESP: THROTTLE, of 100", work: |times| throttles(times, PIPELINED) },
    Subject { name: "RESP: THROTTLE alone", work: |times| throttles(times, 1) },
];

fn datagrams(times: usize, at_once: usize) -> Result<(), Failure> {
    let limits = Limits::new();
    let rules = udp::Rules::parse(&RULES, &limits)?;
    let averages = Arc::new(Keyed::with_secret(MEMORY_DEFAULT, SECRET)?);
    let door = udp::Door::new(Arc::new(limiter()?), averages, rules);
    let datagram =
        |key: usize| format!("{key} over_limit ws ip=172.16.{}.{}", key / 250, key % 250);
    let datagrams: Vec<_> = (0..KEYS).map(datagram).collect();
    let (mut replies, mut counts) = (Replies::default(), Counts::default());
    let mut requests: Vec<&[u8]> = Vec::new();
    for round in 0..times / at_once {
        let first = round * at_once;
        requests.clear();
        requests.extend((first..first + at_once).map(|it| datagrams[it % KEYS].as_bytes()));
        replies.clear();
        door.answer(&requests, moment(first), &mut replies, &mut counts);
    }
    expect_all(counts.allowed, times)
}

fn names(times: usize, at_once: usize) -> Result<(), Failure> {
    let door = bucket::Door::new(Arc::new(limiter()?));
    stream(&door, times, at_once, |_, out| out.extend_from_slice(b"get PerClient\n"))
}

fn named_ids(times: usize, at_once: usize) -> Result<(), Failure> {
    let door = bucket::Door::new(Arc::new(limiter()?));
    stream(&door, times, at_once, |id, out| {
        out.extend_from_slice(format!("get PerClient:{id}\n").as_bytes());
    })
}

fn inserts(times: usize, at_once: usize) -> Result<(), Failure> {
    const SECONDS: u8 = 2;
    const RESOURCE: &str = "/api";
    let quotas = Arc::new(Keyed::with_secret(MEMORY_DEFAULT, SECRET)?);
    let door = throttr::Door::new(quotas, Arc::new(limiter()?), throttr::Options::default());
    stream(&door, times, at_once, |id, out| {
        out.push(1);
        out.extend_from_slice(&WIDE.to_le_bytes());
        out.extend_from_slice(&1_u64.to_le_bytes());
        out.push(SECONDS);
        out.extend_from_slice(&3_600_u64.to_le_bytes());
        out.extend([id, RESOURCE].map(|text| u8::try_from(text.len()).unwrap_or_default()));
        out.extend([id, RESOURCE].concat().as_bytes());
    })
}

fn inline_rules(times: usize, at_once: usize) -> Result<(), Failure> {
    let door = resp::Door::new(
        Arc::new(limiter()?),
        Arc::new(Keyed::with_secret(MEMORY_DEFAULT, SECRET)?),
    );
    let burst = WIDE.to_string();
    stream(&door, times, at_once, |id, out| {
        write_words(&["CL.THROTTLE", id, &burst, "1", "3600"], out);
    })
}

fn throttles(times: usize, at_once: usize) -> Result<(), Failure> {
    let door = resp::Door::new(
        Arc::new(limiter()?),
        Arc::new(Keyed::with_secret(MEMORY_DEFAULT, SECRET)?),
    );
    stream(&door, times, at_once, |id, out| write_words(&["THROTTLE", "PerClient", id], out))
}

fn write_words(words: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// Sends requests for every id in turn through one connection, so many with each read.
fn stream<D: StreamDoor>(
    door: &D,
    times: usize,
    at_once: usize,
    write: impl Fn(&str, &mut Vec<u8>),
) -> Result<(), Failure> {
    let read = |ids: &[String]| {
        let mut bytes = Vec::new();
        for id in ids {
            write(id, &mut bytes);
        }
        bytes
    };
    let reads: Vec<_> = ids().chunks_exact(at_once).map(read).collect();
    let (mut session, mut counts, mut out) = (D::Session::default(), Counts::default(), Vec::new());
    for (number, read) in reads.iter().cycle().take(times / at_once).enumerate() {
        out.clear();
        let flow =
            door.receive(&mut session, read, moment(number * at_once), &mut out, &mut counts);
        if flow != Flow::Open {
            return Err("the connection was closed".into());
        }
    }
    expect_all(counts.allowed, times)
}
