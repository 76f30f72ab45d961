//! Answering datagrams allocates nothing once everything is warm.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Keyed, Limiter, Moment};
use ratekeeper_protocol::udp::{Door, Rules};
use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};
use ratekeeper_testkit::allocations::{Counting, assert_counted, during};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_count_sees_an_allocation() {
    assert_counted();
}

const RULES: &str = r"
count:
  - { match: '(?i)\b(picard)\b', key: '${1:lower}' }
rewrite:
  - { match: ' ip=10\.1\.1\.\d+$', to: ' internal' }
rules:
  - { match: '^(\S*) internal$', limit: 2000, period: 20, stats: true, key: 'internal $1' }
  - { match: '^ws ip=\d+\.\d+\.\d+\.\d+$', limit: 22, period: 20, strict: true }
  - { match: '^ws global$', limit: 2500, period: 10, stats: true }
  - { match: '^login (\S+)$', use: Logins, stats: true }
";

#[test]
fn no_answer_allocates_once_warm() {
    let source = Source { name: "l", text: "Logins: {burst: 3, count: 3, period: 1h}" };
    let limits = Limits::parse(&source, None).unwrap();
    let rules = Rules::parse(&Source { name: "r", text: RULES }, &limits).unwrap();
    let limiter = Arc::new(Limiter::new(limits).unwrap());
    let door = Door::new(limiter, Arc::new(Keyed::new(1 << 24).unwrap()), rules);

    let keys = (0..5_000).flat_map(|n| {
        [
            format!("{n} over_limit ws ip=1.2.{}.{}", n / 256, n % 256),
            format!("over_limit ws ip=10.1.1.{}", n % 256),
            "over_limit ws global".to_owned(),
            format!("over_limit ws ua=Picard {n}"),
            format!("over_limit login user-{n}"),
            format!("{n} get_stats ws ip={n}"),
            "ping".to_owned(),
            "get_size".to_owned(),
            "nonsense".to_owned(),
        ]
    });
    let datagrams: Vec<String> = keys.collect();
    let requests: Vec<&[u8]> = datagrams.iter().map(String::as_bytes).collect();
    let (mut replies, mut counts) = (Replies::default(), Counts::default());
    let mut round = |size: usize| {
        for batch in requests.chunks(size) {
            replies.clear();
            door.answer(batch, Moment::from_nanos(1), &mut replies, &mut counts);
        }
    };
    for size in [1, 64] {
        round(size);
    }
    for size in [1, 64, 7] {
        assert_eq!(during(|| round(size)), 0, "in batches of {size}");
    }
    assert!(counts.denied > 0 && counts.allowed > 0, "{counts:?}");
}
