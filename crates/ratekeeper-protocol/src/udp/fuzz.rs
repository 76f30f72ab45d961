//! What must hold for every datagram, for a fuzzer to call.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};

use super::codec::{self, Body};
use super::{Door, Rules};
use crate::{Counts, DatagramDoor as _, Replies};

const LIMITS: Source<'static> =
    Source { name: "limits.yaml", text: "Named: {burst: 3, count: 1, period: 1s}" };
const RULES: Source<'static> = Source {
    name: "rules.yaml",
    text: r"
count:
  - {match: '(?i)(picard|vox)', key: '${1:lower}'}
rewrite:
  - {match: ' ip=10\.(\d+)', to: ' net=$1'}
rules:
  - {match: '^ws (\S*)$', limit: 22, period: 20, strict: true, key: '$1', stats: true}
  - {match: '^n(.*)$', use: Named, stats: true}
",
};

/// Two doors that are told the same: one datagram by datagram, the other in batches.
struct Twins {
    doors: [Door; 2],
    now: Moment,
}

static TWINS: LazyLock<Option<Mutex<Twins>>> = LazyLock::new(|| {
    let doors = [door()?, door()?];
    Some(Mutex::new(Twins { doors, now: Moment::EPOCH }))
});

fn door() -> Option<Door> {
    let limits = Limits::parse(&LIMITS, None).ok()?;
    let rules = Rules::parse(&RULES, &limits).ok()?;
    let secret = Secret::new(3, 4);
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, secret).ok()?;
    let averages = Keyed::with_secret(MEMORY_MIN, secret).ok()?;
    Some(Door::new(Arc::new(limiter), Arc::new(averages), rules))
}

/// Sends `data` to a door, cut into datagrams at each zero byte.
///
/// # Panics
///
/// If a datagram is answered that should not be, if an answer has not the form that clients read,
/// or if it matters which datagrams come together.
pub fn fuzz_one(data: &[u8]) {
    let Some(twins) = TWINS.as_ref() else { panic!("there are no doors") };
    let mut twins = twins.lock();
    twins.now = twins.now.after(Nanos::new(10_000_000));
    let Twins { doors: [one, many], now } = &*twins;
    let datagrams: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    let (mut single, mut together) = (Replies::default(), Replies::default());
    let mut counts = [Counts::default(); 2];
    let [single_counts, together_counts] = &mut counts;
    for datagram in &datagrams {
        one.answer(&[datagram], *now, &mut single, single_counts);
    }
    many.answer(&datagrams, *now, &mut together, together_counts);
    assert_eq!(single_counts, together_counts, "batches count differently");
    assert!(single.iter().eq(together.iter()), "batches are answered differently");
    for (datagram, reply) in datagrams.iter().zip(single.iter()) {
        check(datagram, reply);
    }
}

fn check(datagram: &[u8], reply: &[u8]) {
    let is_short = datagram.len() <= Door::REQUEST_BYTES_MAX;
    let Some(request) = codec::parse(datagram).filter(|_| is_short) else {
        assert!(reply.is_empty(), "what is no request was answered");
        return;
    };
    let Some(answer) = reply.strip_prefix(request.prefix) else {
        let is_check = matches!(request.body, Body::CheckLimit(_));
        assert!(reply.is_empty() && is_check, "the answer does not begin with the id");
        return;
    };
    if let Body::OverLimit(_) = request.body {
        let numbers = answer.strip_prefix(b"ok Y ").or(answer.strip_prefix(b"ok N "));
        let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b' ');
        assert!(numbers.is_some_and(|numbers| numbers.iter().all(is_number)), "not an answer");
        assert!(answer.len() <= 100, "the answer is too long for its buffer");
    }
}
