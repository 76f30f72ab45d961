//! Asks that bring their rule along, decided in Redis for all that share it.

use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra;
use ratekeeper::limiter::{CARRIED_RULES_MAX, ERA};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Batch, Clock, Decision, Limiter, Nanos, Request};
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
    limiter: Limiter,
    shared: Shared,
    clock: Clock,
    runtime: Runtime,
}

impl Process {
    fn start(server: &Single) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = Shared::new(server.url().parse().unwrap(), Tls::default(), GENEROUS).unwrap();
        let limiter = Limiter::with_memory(Limits::new(), MEMORY).unwrap();
        let clock = Clock::start();
        limiter.share(shared.buckets(), clock.now()).unwrap();
        Self { limiter, shared, clock, runtime }
    }

    fn ask(&self, rule: gcra::Rule, cost: u64, action: Action) -> Decision {
        let carried = self.limiter.carry(rule, self.clock.now()).unwrap();
        self.decide(Request::carried(carried, "ada", cost), action)
    }

    fn decide(&self, ask: Request<'_>, action: Action) -> Decision {
        let (mut batch, now) = (Batch::default(), self.clock.now());
        let asks = [ask];
        let asked = self.limiter.wherever().batch_with(&mut batch, &asks, |_| action, now);
        self.runtime.block_on(async {
            let decision = asked.await.decisions().next().flatten();
            // Also what is known without Redis gives others of this process time to hear from it.
            tokio::task::yield_now().await;
            decision.unwrap()
        })
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
fn transactions_and_reloads_go_with_rules_that_come_with_asks() {
    let server = Single::start();
    let process = Process::start(&server);
    assert_eq!(process.spend(hourly(3), 1).remaining, 2);
    let source = Source { name: "limits.yaml", text: "A: {burst: 1, count: 1, period: 1h}" };
    let now = process.clock.now();
    process.limiter.reload(Limits::parse(&source, None).unwrap(), now).unwrap();
    let carried = process.limiter.carry(hourly(3), now).unwrap();
    let asks = [Request::new("A", "ada", 1), Request::carried(carried, "ada", 1)];
    let transact = || {
        let asked = process.limiter.wherever().transaction(&asks, process.clock.now());
        process.runtime.block_on(asked).unwrap().decision.allowed
    };
    assert!(transact());
    assert!(!transact(), "the limit denies it");
    assert_eq!(process.left(hourly(3)), 1);
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
fn a_rule_that_gets_the_number_of_a_forgotten_one_is_not_taken_for_it() {
    let server = Single::start();
    let process = Process::start(&server);
    let start = process.clock.now();
    let eras = |count: u64| start.after(Nanos::new(ERA.get() * u128::from(count)));
    let left = |burst: u64, cost: u64, era: u64| {
        let carried = process.limiter.carry(hourly(burst), eras(era)).unwrap();
        let key = format!("key {burst}");
        process.decide(Request::carried(carried, &key, cost), Action::CheckAndSpend).remaining
    };
    // The first to come have the first numbers, and no bucket needs them for long. In ticks of other
    // rules, what is remembered of this denial would last for years.
    let fine = rule(1, 7, 60);
    assert!(process.spend(fine, 1).allowed);
    process.remember(fine);
    for burst in 1_000..1_200 {
        assert_eq!(left(burst, 0, 0), burst);
    }
    let mut strangers = 1_000_000..;
    let found_room = (0..8).map(|era| {
        let carried =
            strangers.by_ref().map(|burst| process.limiter.carry(hourly(burst), eras(era)));
        carried.take_while(Result::is_ok).count()
    });
    assert!(found_room.sum::<usize>() > 2 * CARRIED_RULES_MAX);
    let again = process.limiter.carry(hourly(500), eras(8)).unwrap();
    assert_eq!(
        process.decide(Request::carried(again, "ada", 1), Action::CheckAndSpend).remaining,
        498
    );
    for burst in 10..200 {
        assert_eq!(left(burst, 1, 8), burst - 1);
    }
    assert_eq!(server.text(&["DBSIZE"]), "191", "they were asked in Redis");
}
