//! The auditor passes what the oracle admits, and nothing more.

use ratekeeper_testkit::audit::{Audit, Breach};
use ratekeeper_testkit::oracle::Bucket;
use ratekeeper_testkit::random::Random;
use ratekeeper_testkit::sample;
use ratekeeper_testkit::terms::Terms;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn one_admission_too_many_is_caught() {
    let terms = Terms { burst: 3, count: 3, period_ns: SECOND_NS };
    let mut audit = Audit::new(terms);
    for at in [5, 5, 5, 5 + 333_333_334, 5 + 666_666_667] {
        audit.record(at, 1).unwrap();
    }
    let at = 4 + SECOND_NS;
    assert_eq!(audit.clone().record(at, 1), Err(Breach::TooMuch { at, excess: 1 }));
    assert_eq!(audit.record(at + 1, 1), Ok(()));
}

#[test]
fn a_window_that_begins_late_is_watched_too() {
    let terms = Terms { burst: 2, count: 1, period_ns: 10 };
    let mut audit = Audit::new(terms);
    audit.record(0, 1).unwrap();
    audit.record(1_000, 2).unwrap();
    // The long pause allows plenty from 0 on, but not from 1000 on.
    assert_eq!(audit.record(1_009, 1), Err(Breach::TooMuch { at: 1_009, excess: 1 }));
}

#[test]
fn time_that_goes_back_is_refused() {
    let mut audit = Audit::new(Terms { burst: 2, count: 1, period_ns: 10 });
    audit.record(7, 1).unwrap();
    assert_eq!(audit.record(6, 1), Err(Breach::TimeWentBack { at: 6, last_at: 7 }));
}

#[test]
fn what_the_oracle_admits_passes_at_every_rate() {
    let mut random = Random::new(0xA0D17);
    for _ in 0..500 {
        let terms = sample::terms(&mut random, Terms::are_valid);
        let (mut bucket, mut audit) = (Bucket::new(terms), Audit::new(terms));
        let mut now = 0;
        for _ in 0..200 {
            let cost = random.log_between(1, terms.burst);
            let answer = bucket.spend(cost, now).unwrap();
            if answer.allowed {
                audit.record(now, cost).unwrap();
            }
            let wait = u64::try_from(answer.retry_in).unwrap_or(0);
            now += random.pick(&[0, 1, wait, wait.saturating_sub(1), wait / 2]).min(1 << 54);
        }
    }
}

/// The law itself, window by window, to check the auditor's shortcut against.
fn every_window_is_lawful(terms: Terms, events: &[(u64, u64)]) -> bool {
    (0..events.len()).all(|first| {
        let mut total = 0_u128;
        events[first..].iter().all(|&(at, cost)| {
            total += u128::from(cost);
            let length = u128::from(at - events[first].0);
            let refill = length * u128::from(terms.count) / u128::from(terms.period_ns);
            total <= u128::from(terms.burst) + refill
        })
    })
}

#[test]
fn the_auditor_agrees_with_the_law_window_by_window() {
    let mut random = Random::new(0x1A3);
    let (mut lawful, mut breaches) = (0, 0);
    for _ in 0..2_000 {
        let terms = Terms {
            burst: random.between(1, 6),
            count: random.between(1, 7),
            period_ns: random.between(1, 20),
        };
        let (mut audit, mut events, mut at) = (Audit::new(terms), Vec::new(), 0);
        for _ in 0..30 {
            at += random.below(2 * terms.period_ns);
            events.push((at, random.between(1, 2)));
            let passes = audit.record(at, events[events.len() - 1].1).is_ok();
            assert_eq!(passes, every_window_is_lawful(terms, &events), "{terms}: {events:?}");
            if !passes {
                breaches += 1;
                break;
            }
            lawful += 1;
        }
    }
    assert!(lawful > 1_000 && breaches > 100, "{lawful} {breaches}");
}
