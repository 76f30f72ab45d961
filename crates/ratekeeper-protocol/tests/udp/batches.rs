//! Datagrams that come together are answered as if they came one by one.

use ratekeeper_testkit::random::Random;

use crate::udp_fixture::{MUSICBRAINZ, UdpFixture};

const LIMITS: &str = "
Logins: {burst: 5, count: 1, period: 3s}
PerAddress: {burst: 3, count: 1, period: 1s, id: ipAddress}
";
const NAMED: &str = r"
rules:
  - {match: '^login (\S*)$', use: Logins, stats: true}
  - {match: '^from (\S*)$', use: PerAddress}
  - {match: '^(\S+) shared$', limit: 4, period: 5, key: shared}
  - {match: '^k\d$', limit: 2, period: 2, strict: true, stats: true}
";

const BODIES: [&str; 24] = [
    "over_limit ws ip=1.2.3.4",
    "over_limit ws ip=1.2.3.5",
    "over_limit ws ip=132.185.1.1",
    "over_limit ws global",
    "over_limit ws ua=libvlc",
    "over_limit ws ua=Picard",
    "over_limit ws ua=Java/1",
    "over_limit anything",
    "over_limit login ada",
    "over_limit login bob",
    "over_limit login ",
    "over_limit from ::1",
    "over_limit from me",
    "over_limit a shared",
    "over_limit b shared",
    "over_limit k1",
    "get_stats ws global",
    "get_stats default",
    "get_stats k1",
    "get_stats picard",
    "get_size",
    "ping",
    "nonsense",
    r#"check_limit {"origin":"ws","ua":"picard","ip":"1.2.3.4"}"#,
];

fn datagrams(random: &mut Random) -> Vec<Vec<u8>> {
    let count = random.between(1, 600);
    let datagram = |random: &mut Random| {
        let body = random.pick(&BODIES);
        let id = if random.chance(1, 2) { format!("{} ", random.below(99)) } else { String::new() };
        format!("{id}{body}").into_bytes()
    };
    (0..count).map(|_| datagram(random)).collect()
}

#[test]
fn any_batching_gives_the_same_answers() {
    let mut random = Random::new(7);
    for (rules, limits) in [(MUSICBRAINZ, ""), (NAMED, LIMITS)] {
        let [mut one, mut many] = [(); 2].map(|()| UdpFixture::with_limits(rules, limits));
        for _ in 0..60 {
            let datagrams = datagrams(&mut random);
            let singles: Vec<_> = datagrams.iter().map(|datagram| one.send(datagram)).collect();
            let mut rest: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
            let mut together = Vec::new();
            while !rest.is_empty() {
                let length = random.between(1, rest.len() as u64);
                let behind = rest.split_off(usize::try_from(length).unwrap());
                together.extend(many.send_all(&rest));
                rest = behind;
            }
            for ((single, other), datagram) in singles.iter().zip(&together).zip(&datagrams) {
                let show = String::from_utf8_lossy;
                assert_eq!(show(single), show(other), "to {}", show(datagram));
            }
            assert_eq!(one.counts, many.counts);
            let wait = random.below(4);
            one.wait_secs(wait);
            many.wait_secs(wait);
        }
        assert!(one.counts.denied > 100 && one.counts.allowed > 100, "{:?}", one.counts);
    }
}

#[test]
fn threads_lose_no_use() {
    let fixture =
        UdpFixture::new("rules: [{match: '^k$', limit: 1000000, period: 20, stats: true}]");
    let (threads, batches) = (4, 500);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                use ratekeeper_protocol::{Counts, DatagramDoor as _, Replies};
                let mut counts = Counts::default();
                for _ in 0..batches {
                    let mut replies = Replies::default();
                    let requests: [&[u8]; 2] = [b"over_limit k", b"over_limit k"];
                    fixture.door.answer(&requests, fixture.now, &mut replies, &mut counts);
                }
            });
        }
    });
    let mut fixture = fixture;
    let uses = threads * batches * 2;
    fixture.says("get_stats k", &format!("n_req={uses} n_over=0 last_max_rate=0 key=k"));
    fixture.says("over_limit k", &format!("ok N {uses}.0 1000000.0 20"));
}
