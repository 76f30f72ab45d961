//! Rules that came with asks make room for others when nobody needs them.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::algorithm::gcra::Rule;
use ratekeeper::limiter::{CARRIED_RULES_MAX, ERA, TooManyRules};
use ratekeeper::{Batch, Limiter, Mistake, Moment, Nanos, Request};

use super::{START, fill, hourly, nothing, one, restore, save};

/// The moment that is so many eras after the start.
fn eras(count: u64) -> Moment {
    START.after(Nanos::new(ERA.get() * u128::from(count)))
}

/// Brings rules that nobody needs until one is refused, in every one of these eras. Tells how many
/// found room in each.
fn flood(limiter: &Limiter, over: std::ops::Range<u64>) -> Vec<usize> {
    let strangers = |era: u64| (0..).map(move |n| hourly(1_000_000 + era % 4_000 * 200_000 + n));
    let carried = |era: u64| strangers(era).map(move |rule| limiter.carry(rule, eras(era)));
    over.map(|era| carried(era).take_while(Result::is_ok).count()).collect()
}

#[test]
fn rules_that_nobody_needs_make_room_for_others() {
    let limiter = nothing();
    fill(&limiter);
    let bring = |era| limiter.carry(hourly(1 << 20), eras(era));
    assert_eq!(bring(0), Err(TooManyRules));
    assert_eq!(bring(1), Err(TooManyRules), "an ask by one of them may be under way");
    assert!(bring(2).is_ok());
    assert_eq!(flood(&limiter, 3..4), [CARRIED_RULES_MAX - 1]);
}

#[test]
fn rules_that_buckets_are_under_stay_with_what_was_spent() {
    const BUCKETS: u64 = 2_000;
    let limiter = nothing();
    let spend = |n: u64, cost, now| {
        let carried = limiter.carry(hourly(10 + n), now).unwrap();
        let key = n.to_string();
        let asks = [Request::carried(carried, &key, cost)];
        limiter.transaction(&asks, now).unwrap().decision.remaining
    };
    for n in 0..BUCKETS {
        assert_eq!(spend(n, 5, START), 5 + n);
    }
    // Rules go when nobody brought them for two eras, so by then all did that can.
    let found_room = |first| flood(&limiter, first..first + 9)[6..].iter().sum::<usize>();
    assert_eq!(found_room(0), CARRIED_RULES_MAX - 2_000);
    for n in 0..BUCKETS {
        assert_eq!(spend(n, 3, eras(8)), 2 + n);
    }
    assert_eq!(limiter.held().keys, 2_000);
    assert_eq!(found_room(30_100), CARRIED_RULES_MAX, "all buckets are full by then");
}

/// Where a number was that of a rule with fine ticks, and is then one with coarse ticks, a bucket that is
/// full would owe.
#[test]
fn a_full_bucket_stays_full_whatever_rule_gets_the_number_of_its_rule() {
    let limiter = nothing();
    for n in 0..500 {
        let fine = Rule::new(1_000 + n, 1_000_003, Nanos::from_secs(1)).unwrap();
        let carried = limiter.carry(fine, START).unwrap();
        let _ = one(&limiter, carried, &n.to_string(), 1_000);
    }
    flood(&limiter, 1..9);
    for n in 0..500 {
        let again = (0..3).find_map(|later| limiter.carry(hourly(10 + n), eras(9 + later)).ok());
        let key = n.to_string();
        let asks = [Request::carried(again.unwrap(), &key, 1)];
        let left = limiter.transaction(&asks, eras(12)).unwrap().decision.remaining;
        assert_eq!(left, 9 + n);
    }
}

#[test]
fn a_rule_that_is_brought_in_every_era_stays_without_a_bucket() {
    let limiter = nothing();
    for era in 0..9 {
        let mine = limiter.carry(hourly(3), eras(era)).unwrap();
        flood(&limiter, era..era + 1);
        let asks = [Request::carried(mine, "ada", 0)];
        let decision = limiter.transaction(&asks, eras(era)).unwrap().decision;
        assert_eq!(decision.remaining, 3, "in era {era}");
    }
}

#[test]
fn where_times_may_step_back_no_rule_of_a_bucket_is_forgotten() {
    let limiter = nothing();
    limiter.expect_steps_back();
    let secondly = Rule::new(5, 1, Nanos::from_secs(1)).unwrap();
    let _ = one(&limiter, limiter.carry(secondly, START).unwrap(), "ada", 5);
    flood(&limiter, 0..9);
    let again = limiter.carry(secondly, eras(9)).unwrap();
    assert!(!one(&limiter, again, "ada", 1).allowed, "it was empty then");
}

#[test]
fn who_asks_by_a_rule_of_long_ago_is_told_so() {
    let limiter = nothing();
    let old = limiter.carry(hourly(3), START).unwrap();
    assert!(limiter.still_carries(old));
    flood(&limiter, 0..1);
    assert!(!limiter.still_carries(old));
    assert!(one(&limiter, old, "ada", 1).allowed, "it may be asked by in the next era too");
    flood(&limiter, 1..2);
    let asks = [Request::carried(old, "ada", 1)];
    assert_eq!(limiter.transaction(&asks, eras(1)).unwrap_err(), Mistake::RuleForgotten);
    let mut batch = Batch::default();
    let told = limiter.batch(&mut batch, &asks, eras(1));
    assert_eq!(told.iter().next(), Some(Err(&Mistake::RuleForgotten)));
}

#[test]
fn threads_that_bring_rules_without_end_are_decided_by_those_they_brought() {
    const THREADS: u64 = 4;
    // No ask takes longer than an era: whoever puts the clock forward waits for all.
    let (limiter, clock) = (nothing(), RwLock::new(0));
    let bring = |thread: u64| {
        let mut spent = [0; 64];
        for n in 0..60_000_u64 {
            let (burst, key) = (1_000 + n * THREADS + thread, usize::try_from(n % 64).unwrap());
            let era = clock.read().unwrap();
            let Ok(carried) = limiter.carry(hourly(burst), eras(*era)) else {
                drop(era);
                *clock.write().unwrap() += 1;
                continue;
            };
            let name = format!("{thread} {key}");
            let asks = [Request::carried(carried, &name, 1)];
            let decision = limiter.transaction(&asks, eras(*era)).unwrap().decision;
            spent[key] += 1;
            assert_eq!((decision.allowed, decision.remaining), (true, burst - spent[key]));
        }
        spent.iter().sum::<u64>()
    };
    let decided: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || bring(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(decided > 3 * CARRIED_RULES_MAX as u64, "{decided}");
    assert!(*clock.read().unwrap() < 200, "a token would have come back");
}

/// Rules that several threads bring have one number, also while eras end, or saved state would be refused.
#[test]
fn what_is_saved_while_rules_are_forgotten_can_be_restored() {
    const THREADS: u64 = 4;
    const RULES: u64 = 50;
    let (limiter, clock) = (nothing(), RwLock::new(0));
    let spent: Vec<AtomicU64> = (0..RULES).map(|_| AtomicU64::new(0)).collect();
    let bring = |thread: u64| {
        for n in 0..40_000_u64 {
            let era = clock.read().unwrap();
            let now = eras(*era);
            let common = n % RULES;
            let carried = limiter.carry(hourly(1_000_000 + common), now).unwrap();
            let key = common.to_string();
            let asks = [Request::carried(carried, &key, 1)];
            assert!(limiter.transaction(&asks, now).unwrap().decision.allowed);
            spent[usize::try_from(common).unwrap()].fetch_add(1, Ordering::Relaxed);
            if limiter.carry(hourly(2_000_000 + THREADS * n + thread), now).is_err() {
                drop(era);
                *clock.write().unwrap() += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || bring(n))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            let era = clock.read().unwrap();
            restore(&save(&limiter, eras(*era)), eras(*era));
        }
    });
    let now = eras(*clock.read().unwrap());
    assert!(now > eras(3), "rules were forgotten");
    let restored = restore(&save(&limiter, now), now);
    for (n, spent) in (0_u64..).zip(&spent) {
        let carried = restored.carry(hourly(1_000_000 + n), now).unwrap();
        let (key, spent) = (n.to_string(), spent.load(Ordering::Relaxed));
        let asks = [Request::carried(carried, &key, 0)];
        let left = restored.transaction(&asks, now).unwrap().decision.remaining;
        let came_back = now.since(START).get() / Nanos::from_secs(3600).get();
        assert_eq!(u128::from(left), u128::from(1_000_000 + n - spent) + came_back);
    }
}
