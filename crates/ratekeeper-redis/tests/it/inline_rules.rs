//! Asks that bring their rule along, decided in Redis for all that share it.

use ratekeeper::algorithm::gcra::{self, Outcome};
use ratekeeper::algorithm::inline_rule::{Ask, InlineGcra, InlineRule};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::store::shared::{BucketNames, Sharing};
use ratekeeper::{Clock, Decision, Keyed, Nanos};
use ratekeeper_redis::{Shared, Tls};
use tokio::runtime::Runtime;

use crate::servers::{GENEROUS, Single, until};

const MEMORY: usize = 1 << 20;
const KEY: &str = "ratekeeper:{CL.THROTTLE key:ada}";

fn rule(burst: u64, count: u64, secs: u64) -> gcra::Rule {
    gcra::Rule::new(burst, count, Nanos::from_secs(secs)).unwrap()
}

fn hourly(burst: u64) -> gcra::Rule {
    rule(burst, 1, 3_600)
}

/// One of several processes, as far as anybody can tell.
struct Process {
    buckets: Keyed<InlineGcra>,
    shared: Shared,
    clock: Clock,
    runtime: Runtime,
}

impl Process {
    fn start(server: &Single) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = Shared::new(server.url().parse().unwrap(), Tls::default(), GENEROUS).unwrap();
        let (buckets, clock) = (Keyed::new(MEMORY).unwrap(), Clock::start());
        buckets.share(shared.inline_rules()).unwrap();
        Self { buckets, shared, clock, runtime }
    }

    fn ask(&self, rule: gcra::Rule, cost: u64, action: Action) -> Decision {
        self.decide(&[(b"ada", rule, cost)], action)[0]
    }

    fn decide(&self, asks: &[(&[u8], gcra::Rule, u64)], action: Action) -> Vec<Decision> {
        let mut names = BucketNames::default();
        let question = |(key, rule, cost): &(&[u8], gcra::Rule, u64)| {
            let ask = Ask { rule: InlineRule::new(rule), action, cost: *cost };
            self.buckets.question(&[key], ask)
        };
        let questions: Vec<_> = asks.iter().map(question).collect();
        for (key, ..) in asks {
            names.push_with(|to| {
                to.extend_from_slice(b"CL.THROTTLE key:");
                to.extend_from_slice(key);
                Sharing::default()
            });
        }
        let mut outcomes = vec![Outcome::default(); asks.len()];
        let now = self.clock.now();
        self.runtime.block_on(async {
            self.buckets.decide_wherever(&questions, &names, &mut outcomes, now).await;
            // Also what is known without Redis gives others of this process time to hear from it.
            tokio::task::yield_now().await;
        });
        outcomes.iter().map(Decision::from).collect()
    }

    fn spend(&self, rule: gcra::Rule, cost: u64) -> Decision {
        self.ask(rule, cost, Action::CheckAndSpend)
    }

    fn left(&self, rule: gcra::Rule) -> u64 {
        self.ask(rule, 0, Action::CheckOnly).remaining
    }

    /// Asks for what is not there until that is known without Redis.
    fn remember(&self, rule: gcra::Rule) {
        let before = self.shared.health().remembered;
        until("a denial that is remembered", || {
            assert!(!self.spend(rule, 1).allowed);
            self.shared.health().remembered > before
        });
    }
}

#[test]
fn a_bucket_is_shared_by_all_whatever_rules_they_bring() {
    let server = Single::start();
    let [one, other] = [(); 2].map(|()| Process::start(&server));
    assert_eq!(one.spend(hourly(3), 2).remaining, 1);
    assert_eq!(server.text(&["GET", KEY]).split_once(' ').unwrap().1, "7200000000 3600000000/1 3");
    assert_eq!(other.spend(hourly(3), 1).remaining, 0);
    assert!(!one.spend(hourly(3), 1).allowed);
    // Three are owed, by whatever rule.
    let answer = other.spend(hourly(5), 1);
    assert_eq!((answer.allowed, answer.remaining), (true, 1));
    assert!(!one.spend(hourly(2), 1).allowed, "it holds no more than two");
    // It owes four all the same: nobody gets tokens back by asking by a smaller rule.
    assert_eq!(one.left(hourly(5)), 1);
    assert_eq!(other.ask(hourly(5), 1, Action::Refund).remaining, 2);
    assert!(!one.spend(hourly(5), 6).allowed, "more than it ever holds");
    assert!(other.ask(hourly(1), 0, Action::Reset).allowed);
    assert_eq!(server.text(&["DBSIZE"]), "0");
    assert_eq!(one.left(hourly(9)), 9);
    let health = one.shared.health();
    assert_eq!((health.local, health.failures.iter().map(|it| it.1).sum()), (0, 0_u64));
}

#[test]
fn a_denial_is_remembered_under_its_own_rule_only_and_until_another_comes() {
    let server = Single::start();
    let [one, other] = [(); 2].map(|()| Process::start(&server));
    assert!(one.spend(hourly(1), 1).allowed);
    one.remember(hourly(1));
    assert!(one.spend(hourly(2), 1).allowed, "there is room under this one");
    one.remember(hourly(1));
    // By this one a token comes back at once, and it is the last that the bucket was asked by.
    let quick = rule(1, 1_000, 1);
    let _ = other.ask(quick, 1, Action::CheckOnly);
    until("a bucket that is full", || other.left(quick) == 1);
    until("all to hear of it", || one.spend(hourly(1), 1).allowed);
}

#[test]
fn what_is_asked_behind_another_rule_is_not_answered_from_memory() {
    let server = Single::start();
    let process = Process::start(&server);
    assert!(process.spend(hourly(1), 1).allowed);
    process.remember(hourly(1));
    let daily = rule(100, 1, 86_400);
    let asks = [(&b"ada"[..], daily, 0), (b"ada", hourly(1), 1)];
    let decided = process.decide(&asks, Action::CheckAndSpend);
    assert!(decided[0].allowed && !decided[1].allowed);
    // Otherwise the bucket would fill at the daily rate, and the wait that was told would be too short.
    let value = server.text(&["GET", KEY]);
    assert!(value.ends_with("3600000000/1 1"), "{value}");
}

#[test]
fn without_redis_this_process_goes_on_with_what_it_knows() {
    let mut server = Single::start();
    let process = Process::start(&server);
    assert_eq!(process.spend(hourly(5), 2).remaining, 3);
    server.kill();
    assert_eq!(process.spend(hourly(5), 1).remaining, 2);
    assert!(!process.spend(hourly(3), 1).allowed, "three are owed");
    assert!(process.shared.health().local > 0);
}

#[test]
fn a_thousand_rules_in_one_go_are_decided_by_each() {
    let server = Single::start();
    let process = Process::start(&server);
    let keys: Vec<_> = (0..1_000_u64).map(|n| (n, format!("key {n}"))).collect();
    let asks = keys.iter().map(|(n, key)| (key.as_bytes(), hourly(10 + n), 1 + n % 3));
    let left = process.decide(&asks.collect::<Vec<_>>(), Action::CheckAndSpend);
    for ((n, _), decision) in keys.iter().zip(left) {
        assert_eq!((decision.allowed, decision.remaining), (true, 9 + n - n % 3));
    }
    assert_eq!(server.text(&["DBSIZE"]), "1000");
}

#[test]
fn keys_of_any_bytes_are_apart() {
    let server = Single::start();
    let process = Process::start(&server);
    let keys: [&[u8]; 5] = [b"", b"\xff", b"\xfe\xff", b"hex:ff", b"a\nb"];
    let asks = keys.map(|key| (key, hourly(3), 1));
    let decided = process.decide(&asks, Action::CheckAndSpend);
    assert!(decided.iter().all(|it| it.remaining == 2));
    assert_eq!(server.text(&["DBSIZE"]), "5");
}
