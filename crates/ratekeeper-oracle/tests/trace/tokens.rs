use ratekeeper_oracle::bucket::Bucket;
use ratekeeper_oracle::terms::Terms;
use ratekeeper_oracle::trace::{Rule, Said, Seen, Why};
use ratekeeper_testkit::random::Random;

use super::{exactly, seen, shuffle};

const TOLD: usize = 5;
const START: u64 = 1_000_000;

fn terms(random: &mut Random) -> Terms {
    let burst = random.between(1, 12);
    Terms { burst, count: random.between(1, 9), period_ns: random.log_between(1, 5_000) }
}

/// A bucket that somebody else has used before.
fn used(terms: Terms, random: &mut Random) -> Bucket {
    let mut bucket = Bucket::new(terms);
    let before = START - random.below(100);
    bucket.spend(random.between(0, terms.burst), before).unwrap();
    bucket
}

fn over(asks: &[Seen], rule: Rule) -> u64 {
    rule.judge(START, asks, TOLD).over_admissions
}

fn wrong(asks: &[Seen], rule: Rule) -> u64 {
    rule.judge(START, asks, TOLD).wrong_denials
}

#[test]
fn what_an_exact_bucket_answered_is_never_held_against_it() {
    let mut random = Random::new(1);
    let mut denials = 0;
    for _ in 0..3_000 {
        let terms = terms(&mut random);
        let cost = random.between(1, terms.burst);
        let mut bucket = used(terms, &mut random);
        let late_max = random.log_between(1, 2_000) - 1;
        let mut now = START + late_max;
        let mut asks = Vec::new();
        for _ in 0..random.between(1, 60) {
            now += random.below(2 * terms.interval_ns_floor() * cost + 2);
            let allowed = bucket.spend(cost, now).unwrap().allowed;
            denials += u64::from(!allowed);
            asks.push(seen(now, allowed, &mut random, late_max));
        }
        shuffle(&mut asks, &mut random);
        let findings = Rule::Tokens { terms, cost }.judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 0), "{terms} {asks:?}");
    }
    assert!(denials > 10_000, "both kinds of answers were judged: {denials}");
}

#[test]
fn a_server_may_look_at_its_clock_before_it_comes_to_the_bucket() {
    let mut random = Random::new(2);
    for _ in 0..3_000 {
        let terms = terms(&mut random);
        let mut bucket = used(terms, &mut random);
        let (skew, mut now, mut asks) = (random.between(1, 300), START + 300, Vec::new());
        for _ in 0..random.between(1, 60) {
            now += random.below(terms.interval_ns_floor() + 2);
            let stamp = now - random.below(skew);
            let allowed = bucket.spend(1, stamp).unwrap().allowed;
            let said = if allowed { Said::Allowed } else { Said::Denied };
            asks.push(Seen { sent: stamp, received: now, said });
        }
        let findings = Rule::Tokens { terms, cost: 1 }.judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 0), "{terms} {asks:?}");
    }
}

#[test]
fn whoever_allows_what_should_be_denied_is_found_where_times_are_known() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let terms = terms(&mut random);
        let (mut bucket, mut now, mut asks, mut lies) = (Bucket::new(terms), START, vec![], 0);
        while lies == 0 {
            now += random.below(terms.interval_ns_floor() + 2);
            let allowed = bucket.spend(1, now).unwrap().allowed;
            asks.push(exactly(now, Said::Allowed));
            lies += u64::from(!allowed);
        }
        assert_eq!(over(&asks, Rule::Tokens { terms, cost: 1 }), 1, "{terms} {asks:?}");
    }
}

#[test]
fn whoever_denies_what_should_be_allowed_is_found_once_the_bucket_is_certainly_refilled() {
    let mut random = Random::new(4);
    for _ in 0..2_000 {
        let terms = terms(&mut random);
        let (mut bucket, mut asks, mut lies) = (Bucket::new(terms), vec![], 0);
        let mut now = START + terms.burst * terms.period_ns / terms.count + 1;
        for _ in 0..30 {
            now += 1 + random.below(2 * terms.interval_ns_floor() + 1);
            let has_room = bucket.check(1, now).unwrap().allowed;
            if has_room && asks.len() > 20 {
                asks.push(exactly(now, Said::Denied));
                lies += 1;
                continue;
            }
            let allowed = bucket.spend(1, now).unwrap().allowed;
            asks.push(exactly(now, if allowed { Said::Allowed } else { Said::Denied }));
        }
        assert_eq!(wrong(&asks, Rule::Tokens { terms, cost: 1 }), lies, "{terms} {asks:?}");
    }
}

#[test]
fn many_at_once_are_seen_together() {
    let terms = Terms { burst: 20, count: 1, period_ns: 1_000_000_000 };
    let ask = Seen { sent: START, received: START + 1_000_000, said: Said::Allowed };
    let findings = Rule::Tokens { terms, cost: 1 }.judge(START, &[ask; 64], TOLD);
    assert_eq!((findings.over_admissions, findings.over.len()), (44, TOLD));
    let why = Why::Window { from: START, until: START + 1_000_000, allowed: 21, most: 20 };
    assert_eq!(findings.over[0].why, why);
    assert_eq!(why.to_string(), "21 were allowed within 0.001000 s, where 20 fit");
}

#[test]
fn a_million_at_once_are_judged_in_a_moment() {
    let terms = Terms { burst: 1 << 20, count: 1, period_ns: 1_000_000_000 };
    let ask = |index: u64| {
        let sent = START + index % 50;
        Seen { sent, received: START + 1_000 + index / 4, said: Said::Allowed }
    };
    let asks: Vec<Seen> = (0..1 << 20).map(ask).collect();
    let rule = Rule::Tokens { terms, cost: 1 };
    assert_eq!(over(&asks, rule), 0);
    let asks = [asks, vec![ask(0); 3]].concat();
    assert_eq!(over(&asks, rule), 3);
}

#[test]
fn the_fewest_are_left_out() {
    // Two tokens a second apart: the one in the middle takes the room of both others.
    let terms = Terms { burst: 1, count: 1, period_ns: 100 };
    let asks = [0, 50, 100].map(|at| exactly(START + at, Said::Allowed));
    assert_eq!(over(&asks, Rule::Tokens { terms, cost: 1 }), 1);
}

#[test]
fn what_can_be_explained_by_waiting_is_not_found() {
    // The long one need not be first only because it was sent first.
    let terms = Terms { burst: 1, count: 1, period_ns: 5 };
    let long = Seen { sent: START, received: START + 10, said: Said::Allowed };
    let asks = [long, exactly(START + 1, Said::Allowed)];
    assert_eq!(over(&asks, Rule::Tokens { terms, cost: 1 }), 0);
}

#[test]
fn what_was_not_answered_may_have_been_spent() {
    let terms = Terms { burst: 1, count: 1, period_ns: 100 };
    let rule = Rule::Tokens { terms, cost: 1 };
    let lost = Seen { sent: START + 200, received: u64::MAX, said: Said::Nothing };
    let denied = exactly(START + 500, Said::Denied);
    assert_eq!(wrong(&[denied], rule), 1);
    assert_eq!(wrong(&[lost, denied], rule), 0);
    assert_eq!(wrong(&[exactly(START + 99, Said::Denied)], rule), 0, "it may have been empty");
}

#[test]
fn rules_without_sense_are_refused() {
    let terms = Terms { burst: 2, count: 1, period_ns: 1 };
    for (terms, cost) in [
        (terms, 0),
        (terms, 3),
        (Terms { count: 0, ..terms }, 1),
        (Terms { burst: u64::MAX, ..terms }, 1),
        (Terms { period_ns: u64::MAX, ..terms }, 1),
    ] {
        assert!(Rule::Tokens { terms, cost }.refusal().is_some(), "{terms} {cost}");
    }
    assert_eq!(Rule::Tokens { terms, cost: 2 }.refusal(), None);
}

#[test]
fn many_that_overlap_one_late_answer_are_judged_in_no_time() {
    let terms = Terms { burst: 1_000, count: 1_000, period_ns: 1_000_000 };
    let late = Seen { sent: START, received: START + 1_000_000_000, said: Said::Allowed };
    let mut asks = vec![late];
    // One in a microsecond is what passes for good.
    for index in 0..200_000 {
        asks.push(exactly(START + 1 + index * 1_000, Said::Allowed));
    }
    let rule = Rule::Tokens { terms, cost: 1 };
    assert_eq!(over(&asks, rule), 0);
    let middle = START + 100_000_000;
    asks.extend((0..999).map(|index| exactly(middle + index, Said::Allowed)));
    assert_eq!(over(&asks, rule), 0);
    asks.extend((0..3).map(|index| exactly(middle + 500 + index, Said::Allowed)));
    assert_eq!(over(&asks, rule), 3);
}
