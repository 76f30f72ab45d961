use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Limiter, Mode, Moment, Request};
use ratekeeper_testkit::allocations::{Counting, assert_counted, during};

use super::{DecisionObserver, Door, List, Rulings, SEEN_LIMITS_MAX, STRIPES_MAX};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LIMITS: &str = "
PerUser: {burst: 2, count: 1, period: 1h}
PerAddress: {burst: 1, count: 1, period: 1h, id: ipAddress}
Trial: {burst: 1, count: 1, period: 1h, shadow: true}
";

fn limiter(text: &str) -> Limiter {
    Limiter::new(Limits::parse(&Source { name: "limits.yaml", text }, None).unwrap()).unwrap()
}

/// An observer, and a limiter that tells it as this door would.
fn watched(text: &str, door: Door) -> (Arc<DecisionObserver>, Limiter) {
    let observer = Arc::new(DecisionObserver::new(2));
    let limiter = limiter(text).witnessed(observer.witness(door));
    (observer, limiter)
}

fn spend(limiter: &Limiter, limit: &str, id: &str) {
    let _ = limiter.spend(limit, id, 1, Moment::EPOCH).unwrap();
}

fn rulings(allowed: u64, denied: u64, shadow: u64) -> Rulings {
    Rulings { allowed, denied, shadow }
}

fn counted(observer: &DecisionObserver, limit: &str, door: Door) -> Rulings {
    let by_limit = observer.by_limit();
    let found = by_limit.limits.iter().find(|(name, _)| **name == *limit).unwrap();
    found.1.0[door as usize]
}

fn ids(observer: &DecisionObserver, limit: &str, list: List) -> Vec<(String, u64)> {
    let listed = observer.listed(limit, list, usize::MAX).unwrap();
    listed.into_iter().map(|it| (it.id, it.count)).collect()
}

#[test]
fn spends_and_checks_count_and_refunds_and_resets_do_not() {
    let (observer, limiter) = watched(LIMITS, Door::Udp);
    for _ in 0..3 {
        spend(&limiter, "PerUser", "ada");
    }
    let _ = limiter.check("PerUser", "ada", 1, Moment::EPOCH).unwrap();
    let _ = limiter.refund("PerUser", "ada", 1, Moment::EPOCH).unwrap();
    let _ = limiter.reset("PerUser", "ada", Moment::EPOCH).unwrap();
    limiter.spend("PerUser", "ada", 9, Moment::EPOCH).unwrap_err();
    limiter.spend("Nobody", "ada", 1, Moment::EPOCH).unwrap_err();
    assert_eq!(counted(&observer, "PerUser", Door::Udp), rulings(2, 2, 0));
    assert_eq!(ids(&observer, "PerUser", List::Busiest), [("ada".into(), 4)]);
    assert_eq!(ids(&observer, "PerUser", List::MostDenied), [("ada".into(), 2)]);
    assert_eq!(observer.listed("Nobody", List::Busiest, 9), None);
}

#[test]
fn each_door_counts_for_itself() {
    let (observer, udp) = watched(LIMITS, Door::Udp);
    let http = udp.witnessed(observer.witness(Door::Http));
    spend(&udp, "PerUser", "ada");
    spend(&http, "PerUser", "ada");
    spend(&http, "PerUser", "ada");
    assert_eq!(counted(&observer, "PerUser", Door::Udp), rulings(1, 0, 0));
    assert_eq!(counted(&observer, "PerUser", Door::Http), rulings(1, 1, 0));
    assert_eq!(observer.by_limit().limits[0].1.all(), rulings(2, 1, 0));
}

#[test]
fn who_a_limit_in_shadow_would_deny_is_listed() {
    let (observer, limiter) = watched(LIMITS, Door::Bucket);
    for _ in 0..3 {
        spend(&limiter, "Trial", "ada");
    }
    spend(&limiter, "Trial", "bob");
    assert_eq!(counted(&observer, "Trial", Door::Bucket), rulings(2, 0, 2));
    assert_eq!(ids(&observer, "Trial", List::MostDenied), [("ada".into(), 2)]);
}

#[test]
fn an_id_is_counted_under_its_one_spelling() {
    let (observer, limiter) = watched(LIMITS, Door::Udp);
    spend(&limiter, "PerAddress", "2001:0DB8::1");
    spend(&limiter, "PerAddress", "2001:db8:0::1");
    assert_eq!(ids(&observer, "PerAddress", List::Busiest), [("2001:db8::1".into(), 2)]);
}

#[test]
fn transactions_and_batches_count_each_ask() {
    let (observer, limiter) = watched(LIMITS, Door::Http);
    let asks = [
        Request::new("PerUser", "ada", 1),
        Request::new("PerAddress", "10.0.0.1", 1),
        Request::new("Trial", "ada", 1).with_mode(Mode::CheckOnly),
    ];
    let _ = limiter.transaction(&asks, Moment::EPOCH).unwrap();
    let mut batch = ratekeeper::limiter::Batch::default();
    let _ = limiter.batch(&mut batch, &asks, Moment::EPOCH);
    assert_eq!(counted(&observer, "PerUser", Door::Http), rulings(2, 0, 0));
    assert_eq!(counted(&observer, "PerAddress", Door::Http), rulings(1, 1, 0));
    assert_eq!(counted(&observer, "Trial", Door::Http).asked(), 2);
}

#[test]
fn a_name_in_the_same_memory_is_another_name() {
    let (observer, limiter) = watched(
        "A: {burst: 9, count: 1, period: 1h}\nB: {burst: 9, count: 1, period: 1h}",
        Door::Udp,
    );
    let mut buffer = String::from("A");
    spend(&limiter, &buffer, "x");
    buffer.clear();
    buffer.push('B');
    spend(&limiter, &buffer, "x");
    assert_eq!(counted(&observer, "A", Door::Udp).asked(), 1);
    assert_eq!(counted(&observer, "B", Door::Udp).asked(), 1);
}

#[test]
fn what_many_threads_count_adds_up() {
    const ASKS: u64 = 2_000;
    let observer = Arc::new(DecisionObserver::new(usize::MAX));
    let limiter = limiter(LIMITS).witnessed(observer.witness(Door::Udp));
    let threads = STRIPES_MAX as u64 + 3;
    thread::scope(|scope| {
        for number in 0..threads {
            let limiter = &limiter;
            scope.spawn(move || {
                for ask in 0..ASKS {
                    spend(limiter, "PerUser", if ask % 2 == 0 { "ada" } else { "bob" });
                    spend(limiter, "Trial", &format!("{number}-{ask}"));
                }
            });
        }
    });
    assert_eq!(counted(&observer, "PerUser", Door::Udp), rulings(4, threads * ASKS - 4, 0));
    let half = threads * ASKS / 2;
    assert_eq!(
        ids(&observer, "PerUser", List::Busiest),
        [("ada".into(), half), ("bob".into(), half)]
    );
    let overall = observer.listed_overall(&observer.by_limit(), List::Busiest, 3);
    let overall: Vec<_> = overall.iter().map(|(limit, it)| (&**limit, it.count)).collect();
    assert_eq!(overall[..2], [("PerUser", half), ("PerUser", half)]);
    assert_eq!(overall[2].0, "Trial");
}

#[test]
fn no_decision_allocates_once_warm() {
    assert_counted();
    let (observer, limiter) = watched(LIMITS, Door::Http);
    let ids: Vec<_> = (0..10_000).map(|number| format!("user-{number}")).collect();
    let asks = [Request::new("PerUser", "ada", 1), Request::new("PerAddress", "10.0.0.1", 1)];
    let mut batch = ratekeeper::limiter::Batch::default();
    let mut round = || {
        for id in &ids {
            spend(&limiter, "PerUser", id);
            spend(&limiter, "Trial", id);
        }
        let _ = limiter.transaction(&asks, Moment::EPOCH).unwrap();
        let _ = limiter.batch(&mut batch, &asks, Moment::EPOCH);
    };
    round();
    // Nobody is denied the first time; after the third round everything was there before.
    round();
    round();
    assert_eq!(during(&mut round), 0);
    assert_eq!(counted(&observer, "Trial", Door::Http), rulings(10_000, 0, 30_000));
}

#[test]
fn names_keep_their_order_and_their_counts() {
    let (observer, limiter) = watched(LIMITS, Door::Udp);
    observer.expect(["Trial", "PerUser"].into_iter());
    spend(&limiter, "PerUser", "ada");
    observer.expect(["New", "PerUser"].into_iter());
    let by_limit = observer.by_limit();
    let names = by_limit.limits.iter().map(|(name, counts)| (&**name, counts.all().asked()));
    assert_eq!(names.collect::<Vec<_>>(), [("Trial", 0), ("PerUser", 1), ("New", 0)]);
}

#[test]
fn ids_are_known_of_the_first_limits_only_and_all_are_counted() {
    let mut text = String::new();
    for number in 0..SEEN_LIMITS_MAX + 10 {
        writeln!(text, "limit-{number}: {{burst: 1, count: 1, period: 1h}}").unwrap();
    }
    let (observer, limiter) = watched(&text, Door::Udp);
    for number in 0..SEEN_LIMITS_MAX + 10 {
        spend(&limiter, &format!("limit-{number}"), "ada");
    }
    assert_eq!(ids(&observer, "limit-255", List::Busiest), [("ada".into(), 1)]);
    assert_eq!(ids(&observer, "limit-256", List::Busiest), []);
    assert!(observer.by_limit().limits.iter().all(|(_, counts)| counts.all().asked() == 1));
}

#[test]
fn names_beyond_the_bound_are_counted_together() {
    let (observer, limiter) = watched(LIMITS, Door::Udp);
    let many: Vec<String> = (0..ratekeeper::limits::NAMES_MAX).map(|it| it.to_string()).collect();
    observer.expect(many.iter().map(String::as_str));
    spend(&limiter, "PerUser", "ada");
    spend(&limiter, "Trial", "ada");
    let by_limit = observer.by_limit();
    assert_eq!(by_limit.others.all(), rulings(2, 0, 0));
    assert_eq!(by_limit.limits.len(), many.len());
    assert_eq!(observer.listed("PerUser", List::Busiest, 9), None);
}
