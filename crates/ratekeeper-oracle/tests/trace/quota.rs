use ratekeeper_oracle::trace::{Rule, Said, Seen};
use ratekeeper_testkit::random::Random;

use super::{exactly, seen, shuffle};

const START: u64 = 100_000;
const TOLD: usize = 3;

struct Model {
    quota: u64,
    ttl: u64,
    live: Option<(u64, u64)>,
}

impl Model {
    fn allows(&mut self, usage: u64, now: u64) -> bool {
        let (left, end) = match self.live {
            Some((left, end)) if now < end => (left, end),
            _ => (self.quota, now + self.ttl),
        };
        let allowed = left >= usage;
        if allowed {
            self.live = Some((left - usage, end));
        }
        allowed
    }
}

#[test]
fn what_a_quota_answered_is_never_held_against_it() {
    let mut random = Random::new(7);
    let mut denials = 0;
    for _ in 0..3_000 {
        let (quota, ttl) = (random.between(1, 20), random.log_between(1, 10_000));
        let usage = random.between(1, quota);
        let mut model = Model { quota, ttl, live: None };
        for _ in 0..random.below(30) {
            model.allows(1, START - random.below(ttl.min(START)));
        }
        let late = random.log_between(1, 3_000) - 1;
        let (mut now, mut asks) = (START + late, Vec::new());
        for _ in 0..random.between(1, 80) {
            now += random.below(ttl / 4 + 2);
            let allowed = model.allows(usage, now);
            denials += u64::from(!allowed);
            asks.push(seen(now, allowed, &mut random, late));
        }
        shuffle(&mut asks, &mut random);
        let findings = Rule::Quota { quota, usage, ttl_ns: ttl }.judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 0), "{asks:?}");
    }
    assert!(denials > 10_000, "{denials}");
}

#[test]
fn more_than_two_quotas_at_once_and_denials_of_unused_ones_are_found() {
    let rule = Rule::Quota { quota: 5, usage: 1, ttl_ns: 1_000 };
    let allowed: Vec<Seen> = (0..12).map(|at| exactly(START + at, Said::Allowed)).collect();
    assert_eq!(rule.judge(START, &allowed, TOLD).over_admissions, 2);
    let denied = |at| exactly(START + at, Said::Denied);
    assert_eq!(rule.judge(START, &[denied(999)], TOLD).wrong_denials, 0, "one may have been there");
    assert_eq!(rule.judge(START, &[denied(1_000)], TOLD).wrong_denials, 1);
    let used = [&allowed[..5], &[denied(1_003)]].concat();
    assert_eq!(rule.judge(START, &used, TOLD).wrong_denials, 1, "one of five has ended since");
    let used = [&allowed[..5], &[denied(1_000)]].concat();
    assert_eq!(rule.judge(START, &used, TOLD).wrong_denials, 0);
}

#[test]
fn what_never_fits_and_what_always_does_is_known_at_once() {
    let asks = [exactly(START, Said::Allowed), exactly(START, Said::Denied)];
    let findings = Rule::Quota { quota: 1, usage: 2, ttl_ns: 9 }.judge(START, &asks, TOLD);
    assert_eq!((findings.over_admissions, findings.wrong_denials), (1, 0));
    let findings = Rule::Fixed { allowed: true }.judge(START, &asks, TOLD);
    assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 1));
    let findings = Rule::Fixed { allowed: false }.judge(START, &asks, TOLD);
    assert_eq!((findings.over_admissions, findings.wrong_denials), (1, 0));
}
