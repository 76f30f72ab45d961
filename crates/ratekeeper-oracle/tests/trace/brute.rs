//! Small traces, against every choice of times there is.

use ratekeeper_oracle::bucket::Bucket;
use ratekeeper_oracle::terms::Terms;
use ratekeeper_oracle::trace::{Rule, Said, Seen};
use ratekeeper_testkit::random::Random;

const ASKS: usize = 4;
const TIMES: u64 = 7;

/// Whether a bucket that began like this can have answered so.
///
/// With whole times and a whole interval, whole times are enough to look at.
fn is_possible(asks: &[Seen], begin: &Bucket, after: u64) -> bool {
    if asks.is_empty() {
        return true;
    }
    (0..asks.len()).any(|next| {
        let mut rest = asks.to_vec();
        let ask = rest.remove(next);
        (ask.sent.max(after)..=ask.received).any(|at| {
            let mut bucket = begin.clone();
            let allowed = bucket.spend(1, at).unwrap().allowed;
            allowed == (ask.said == Said::Allowed) && is_possible(&rest, &bucket, at)
        })
    })
}

#[test]
fn whoever_is_found_guilty_has_no_excuse() {
    let mut random = Random::new(5);
    let (mut over, mut wrong, mut excused) = (0, 0, 0);
    for _ in 0..4_000 {
        let terms =
            Terms { burst: random.between(1, 3), count: 1, period_ns: random.between(1, 4) };
        let asks: Vec<Seen> = (0..ASKS)
            .map(|_| {
                let sent = 20 + random.below(TIMES);
                let received = 20 + TIMES.min(sent - 20 + random.below(4));
                let said = if random.chance(3, 4) { Said::Allowed } else { Said::Denied };
                Seen { sent, received, said }
            })
            .collect();
        let rule = Rule::Tokens { terms, cost: 1 };
        let allowed: Vec<Seen> =
            asks.iter().filter(|ask| ask.said == Said::Allowed).copied().collect();
        let can_allow = is_possible(&allowed, &Bucket::new(terms), 0);
        let findings = rule.judge(0, &asks, 1);
        if findings.over_admissions > 0 {
            assert!(!can_allow, "{terms} {asks:?}");
            over += 1;
        } else {
            excused += u64::from(!can_allow);
        }
        if findings.wrong_denials > 0 {
            // Whatever was left at the start, no choice of times denies it.
            let starts = (0..=20 + terms.burst * terms.period_ns + 4)
                .map(|tat| Bucket::with_tat(terms, tat));
            let mut starts = starts.filter(|bucket| {
                bucket.check(1, 0).unwrap().reset_in <= u128::from(terms.burst * terms.period_ns)
            });
            assert!(!starts.any(|bucket| is_possible(&asks, &bucket, 0)), "{terms} {asks:?}");
            wrong += 1;
        }
    }
    assert!(over > 300 && wrong > 100, "{over} {wrong}");
    // What no time explains and the windows do not show: intervals that are in each other's way.
    assert!(excused * 10 < over, "{excused} of {over}");
}
