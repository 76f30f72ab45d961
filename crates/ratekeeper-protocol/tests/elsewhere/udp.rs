//! The UDP door: a batch of datagrams in one trip, or three if it has checks.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter, Moment, Nanos};
use ratekeeper_protocol::udp::{Door, Rules};
use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};
use ratekeeper_testkit::random::Random;

use crate::{Elsewhere, travel};

const LIMITS: &str = "
Agents: {burst: 3, count: 1, period: 1s}
Addresses: {burst: 4, count: 2, period: 1s, id: ipAddress}
";
/// Averages, named limits, both counted too; and `same`, all of whose keys are one.
const RULES: &str = r"
count:
  - {match: '(?i)(picard|vox)', key: '${1:lower}'}
rules:
  - {match: '^ws ua=(.*)$', use: Agents, id: '$1', stats: true}
  - {match: '^ws ip=(.*)$', use: Addresses, id: '$1'}
  - {match: '^ws global$', limit: 9, period: 1, strict: true, stats: true}
  - {match: '^same', limit: 2, period: 1, key: 'same'}
  - {match: '^(\S+) ', limit: 3, period: 1}
";

fn door(elsewhere: Option<&Arc<Elsewhere>>) -> Door {
    let secret = Secret::new(3, 4);
    let limits = Limits::parse(&Source { name: "limits", text: LIMITS }, None).unwrap();
    let rules = Rules::parse(&Source { name: "rules", text: RULES }, &limits).unwrap();
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, secret).unwrap();
    let averages = Keyed::with_secret(MEMORY_MIN, secret).unwrap();
    if let Some(elsewhere) = elsewhere {
        limiter.share(elsewhere.clone(), Moment::EPOCH).unwrap();
        averages.share(elsewhere.clone()).unwrap();
    }
    Door::new(Arc::new(limiter), Arc::new(averages), rules)
}

fn check(random: &mut Random, origin: &str) -> String {
    let ua = random.pick(&["picard", "vox 1", "curl"]);
    // Two spellings of one address.
    let ip = random.pick(&["1.2.3.4", "5.6.7.8", "::ffff:1.2.3.4"]);
    format!(r#"check_limit {{"origin":"{origin}","ua":"{ua}","ip":"{ip}"}}"#)
}

fn datagram(random: &mut Random, origins: &[&str]) -> String {
    let origin = random.pick(origins);
    match random.below(6) {
        0..3 => check(random, origin),
        3 => format!("over_limit {origin} global"),
        4 => format!("over_limit {origin} ip=1.2.3.4"),
        _ => "ping".to_owned(),
    }
}

/// Answers a batch far away, and the same one by one in memory. Returns how many trips it took.
fn judge(near: &Door, far: &Door, batch: &[String], now: Moment, seen: &mut [Counts; 2]) -> usize {
    let requests: Vec<&[u8]> = batch.iter().map(String::as_bytes).collect();
    let (mut one_by_one, mut together) = (Replies::default(), Replies::default());
    for request in &requests {
        near.answer(&[request], now, &mut one_by_one, &mut seen[0]);
    }
    let ((), trips) = travel(far.answer_wherever(&requests, now, &mut together, &mut seen[1]));
    assert!(together.iter().eq(one_by_one.iter()), "{batch:?}: {together:?}, {one_by_one:?}");
    trips
}

/// Plays batches of datagrams from these origins. Returns the most trips that one of them took.
fn play(origins: &[&str], extra: &str) -> usize {
    let elsewhere = Arc::new(Elsewhere::default());
    let (near, far) = (door(None), door(Some(&elsewhere)));
    let mut random = Random::new(11);
    let (mut now, mut most) = (Moment::EPOCH, 0);
    let mut seen = [Counts::default(); 2];
    for _ in 0..1_000 {
        now = now.after(Nanos::new(random.below(2_000_000_000).into()));
        let count = 1 + random.below(64);
        let mut batch: Vec<_> = (0..count).map(|_| datagram(&mut random, origins)).collect();
        if !extra.is_empty() && random.chance(1, 3) {
            batch.insert(random.index(batch.len()), extra.to_owned());
        }
        most = most.max(judge(&near, &far, &batch, now, &mut seen));
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].allowed > 0 && seen[0].denied > 0, "{seen:?}");
    most
}

#[test]
fn a_batch_with_checks_takes_a_trip_for_each_of_their_three_keys() {
    assert_eq!(play(&["ws"], ""), 3);
    assert_eq!(play(&["ws", "other", "site"], ""), 3);
}

#[test]
fn a_batch_of_which_all_ask_for_one_bucket_is_still_answered_in_order() {
    assert!(play(&["same", "ws"], "") > 3);
}

#[test]
fn statistics_see_all_that_came_before_them() {
    assert!(play(&["ws", "other"], "get_stats ws global") <= 6);
}

#[test]
fn a_batch_without_checks_is_one_trip() {
    let elsewhere = Arc::new(Elsewhere::default());
    let (near, far) = (door(None), door(Some(&elsewhere)));
    let keys = ["ws global", "ws ua=picard", "ws ip=1.2.3.4", "other ip=1"];
    let batch: Vec<_> = keys.iter().cycle().take(64).map(|it| format!("over_limit {it}")).collect();
    let mut seen = [Counts::default(); 2];
    assert_eq!(judge(&near, &far, &batch, Moment::EPOCH, &mut seen), 1);
    assert_eq!(elsewhere.visits(), 2, "one for averages, one for named limits");
    assert_eq!(seen[0], seen[1]);
}
