//! Processes and a server in virtual time, without either: a bucket that is asked directly.

use std::collections::VecDeque;

use tollgate::{Moment, Nanos};
use tollgate_testkit::random::Random;

use super::{Answer, Ask, Step, Till, Token};

const MS: u64 = 1_000_000;
const SECOND: Nanos = Nanos::from_secs(1);

/// The server's bucket: whole tokens, and when the next comes.
struct Bucket {
    burst: u32,
    tokens: u32,
    every: u64,
    counted: Moment,
    is_there: bool,
}

impl Bucket {
    fn new(burst: u32, every_ms: u64, now: Moment) -> Self {
        Self { burst, tokens: burst, every: every_ms * MS, counted: now, is_there: true }
    }

    fn ask(&mut self, ask: Ask, now: Moment) -> Option<Answer> {
        if !self.is_there {
            return None;
        }
        while self.counted.after(Nanos::new(self.every.into())) <= now {
            self.counted = self.counted.after(Nanos::new(self.every.into()));
            self.tokens = (self.tokens + 1).min(self.burst);
        }
        self.tokens = (self.tokens + ask.refund).min(self.burst);
        let granted = if ask.spend <= self.tokens { ask.spend } else { 0 };
        self.tokens -= granted;
        let next = self.counted.after(Nanos::new(self.every.into()));
        Some(Answer { granted, left: self.tokens, retry_in: next.since(now) })
    }
}

/// A process that always has something to send, and the requests it has in flight.
struct Process {
    till: Till,
    flying: VecDeque<(Moment, Token)>,
    looks_at: Moment,
}

/// What the API counted, by arrival.
struct World {
    random: Random,
    bucket: Bucket,
    processes: Vec<Process>,
    arrived: Vec<Moment>,
    late_max_ms: u64,
}

impl World {
    fn new(bucket: Bucket, late_max_ms: u64, seed: u64) -> Self {
        let process = || Process {
            till: Till::new(SECOND, 12),
            flying: VecDeque::new(),
            looks_at: Moment::EPOCH,
        };
        let processes = (0..4).map(|_| process()).collect();
        let (random, arrived) = (Random::new(seed), Vec::new());
        Self { random, bucket, processes, arrived, late_max_ms }
    }

    /// Lets time go by in milliseconds.
    fn run(&mut self, from_ms: u64, to_ms: u64) {
        for ms in from_ms..to_ms {
            let now = Moment::from_nanos(ms * MS);
            for index in 0..self.processes.len() {
                self.turn(index, now);
            }
        }
    }

    fn turn(&mut self, index: usize, now: Moment) {
        let process = &mut self.processes[index];
        while let Some(&(at, token)) = process.flying.front().filter(|(at, _)| *at <= now) {
            let _: Token = token;
            process.till.settle(at.max(now));
            process.flying.pop_front();
        }
        if now < process.looks_at {
            return;
        }
        // Tasks are not always called at once.
        process.looks_at = now.after(Nanos::new((self.random.below(3) * MS).into()));
        while let Some(token) = process.till.take(now) {
            let arrives = now.after(Nanos::new((self.random.below(self.late_max_ms) * MS).into()));
            self.arrived.push(arrives);
            let answered = process.flying.back().map_or(arrives, |&(at, _)| at.max(arrives));
            process.flying.push_back((answered, token));
        }
        if let Step::Ask(ask) = process.till.step(5, now) {
            match self.bucket.ask(ask, now) {
                Some(answer) => process.till.answered(ask, answer, now, now),
                None => process.till.failed(now),
            }
        }
    }

    /// The most that the API counted in any window.
    fn most_in_a_window(&mut self) -> usize {
        self.arrived.sort();
        let arrived = &self.arrived;
        let within = |&first: &Moment| {
            let end = arrived.partition_point(|at| *at < first.after(SECOND));
            end - arrived.partition_point(|at| *at < first)
        };
        arrived.iter().map(within).max().unwrap_or(0)
    }

    fn between(&self, from_ms: u64, to_ms: u64) -> usize {
        let range = from_ms * MS..to_ms * MS;
        self.arrived.iter().filter(|at| range.contains(&at.as_nanos())).count()
    }
}

#[test]
fn spent_tokens_bear_as_much_delay_as_the_arithmetic_says() {
    // Two at once, and one every 21 ms: 1 s and 20 ms have room for 48 of these.
    let mut world = World::new(Bucket::new(2, 21, Moment::EPOCH), 20, 1);
    world.run(0, 60_000);
    let (most, sent) = (world.most_in_a_window(), world.arrived.len());
    assert!(most <= 50, "{most} in a window");
    assert!(sent >= 47 * 60, "{sent} in a minute");
}

#[test]
fn when_the_server_goes_each_has_its_share_and_when_it_is_back_all_is_shared_again() {
    for seed in 0..20 {
        let bucket = |at_ms: u64| Bucket::new(2, 21, Moment::from_nanos(at_ms * MS));
        let mut world = World::new(bucket(0), 15, seed);
        world.run(0, 10_000);
        world.bucket.is_there = false;
        let back = 20_000 + seed * 13;
        world.run(10_000, back);
        // It has forgotten everything.
        world.bucket = bucket(back);
        world.run(back, 30_000);
        let most = world.most_in_a_window();
        assert!(most <= 50, "seed {seed}: {most} in a window");
        let alone = world.between(12_000, 20_000);
        assert!((8 * 44..=8 * 48).contains(&alone), "seed {seed}: {alone} alone");
        let together = world.between(23_000, 30_000);
        assert!(together >= 7 * 46, "seed {seed}: {together} together again");
        assert!(world.processes.iter().all(|process| process.till.is_there()));
    }
}

#[test]
fn who_has_no_share_of_its_own_waits_for_the_server() {
    let mut till = Till::new(SECOND, 0);
    let at = |ms: u64| Moment::from_nanos(ms * MS);
    till.failed(at(0));
    for ms in 0..5_000 {
        assert_eq!(till.take(at(ms)), None);
        if let Step::Ask(ask) = till.step(1, at(ms)) {
            assert_eq!(ask, Ask { spend: 0, refund: 0 });
            till.failed(at(ms));
        }
    }
    assert!(till.opens_at(at(5_000)) >= at(5_000));
}

#[test]
fn a_token_that_took_too_long_to_come_is_not_used() {
    let mut till = Till::new(SECOND, 12);
    let at = |ms: u64| Moment::from_nanos(ms * MS);
    let ask = Ask { spend: 1, refund: 0 };
    let granted = Answer { granted: 1, left: 1, retry_in: Nanos::ZERO };
    assert_eq!(till.step(1, at(0)), Step::Ask(ask));
    till.answered(ask, granted, at(0), at(1));
    assert!(till.take(at(1)).is_some());
    assert_eq!(till.step(1, at(1)), Step::Ask(ask));
    till.answered(ask, granted, at(1), at(30));
    assert!(till.take(at(30)).is_none());
    let another = Ask { spend: 1, refund: 1 };
    assert_eq!(till.step(1, at(30)), Step::Ask(another), "it asks for another");
}

#[test]
fn what_nobody_took_and_what_was_never_sent_goes_back_at_once() {
    let mut till = Till::new(SECOND, 12);
    let now = Moment::from_nanos(MS);
    let Step::Ask(ask) = till.step(1, now) else { panic!("somebody waits") };
    till.answered(ask, Answer { granted: 1, left: 40, retry_in: Nanos::ZERO }, now, now);
    let token = till.take(now).unwrap();
    till.give_back(token);
    assert_eq!(till.step(0, now), Step::Ask(Ask { spend: 0, refund: 1 }));
    let Step::Ask(ask) = till.step(8, now) else { panic!("somebody waits") };
    assert_eq!(ask, Ask { spend: 8, refund: 1 }, "as many as there are known to be");
    till.answered(ask, Answer { granted: 8, left: 30, retry_in: Nanos::ZERO }, now, now);
    assert!(till.take(now).is_some());
    assert_eq!(till.step(0, now), Step::Ask(Ask { spend: 0, refund: 7 }));
}
