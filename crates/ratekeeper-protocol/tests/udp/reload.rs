//! New rules for a door that is in use.

use std::sync::atomic::{AtomicBool, Ordering};

use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};

use crate::udp_fixture::{UdpFixture, limits, rules};

#[test]
fn averages_and_statistics_stay() {
    let text = "rules: [{match: '^k$', limit: 3, period: 20, stats: true}]";
    let mut fixture = UdpFixture::new(text);
    fixture.says("over_limit k", "ok N 0.0 3.0 20");
    fixture.says("over_limit k", "ok N 1.0 3.0 20");
    let next = rules(&text.replace("limit: 3", "limit: 2"), &limits(""));
    assert_eq!(fixture.door.reload(next, || 7), 7);
    fixture.says("over_limit k", "ok Y 2.0 2.0 20");
    fixture.says("get_stats k", "n_req=3 n_over=1 last_max_rate=0 key=k");
}

#[test]
fn no_datagram_sees_rules_and_limits_of_two_files() {
    let files = [1_u32, 2].map(|n| {
        let limit = format!("L{n}: {{burst: 4000000000, count: 1, period: {n}00s}}");
        (limit, format!("rules: [{{match: '^k{n}$', use: L{n}}}]\ndefault: {{over_limit: true}}"))
    });
    let fixture = UdpFixture::with_limits(&files[0].1, &files[0].0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut counts, mut batches) = (Counts::default(), 0_u64);
            while !is_done.load(Ordering::Relaxed) || batches < 100 {
                let mut replies = Replies::default();
                let requests: [&[u8]; 2] = [b"over_limit k1", b"over_limit k2"];
                fixture.door.answer(&requests, fixture.now, &mut replies, &mut counts);
                batches += 1;
            }
            (counts, batches)
        });
        for round in 0..300 {
            let (limits_text, rules_text) = &files[(round + 1) % 2];
            let limits = limits(limits_text);
            let rules = rules(rules_text, &limits);
            fixture.door.reload(rules, || fixture.limiter.reload(limits, fixture.now)).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        let (counts, batches) = asking.join().unwrap();
        // One of the two keys has a rule in each file, and with it its limit.
        assert_eq!((counts.allowed, counts.denied), (batches, batches));
    });
}
