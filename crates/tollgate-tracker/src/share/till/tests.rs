//! Processes and a server in virtual time, without either: a bucket that is asked directly.

use std::collections::{HashMap, VecDeque};

use tollgate::{Moment, Nanos};
use tollgate_testkit::random::Random;

use super::{Answer, Ask, Kind, Refunds, Step, Terms, Till, Token};

const MS: u64 = 1_000_000;
const SECOND: Nanos = Nanos::from_secs(1);

const NOTHING: Answer =
    Answer { granted: 0, left: 0, lacks: 0, retry_in: Nanos::ZERO, second: None };
/// What an API that allows fifty a second lets tokens come no faster than.
const SPACING: Nanos = Nanos::new(20_000_000);
/// How long it takes at most until a server counts as away.
const SILENT_MS_MAX: u64 = 500;

/// Of which term, and whose in which life if it is a ledger.
type Key = (u64, Option<(usize, u64)>);

/// The server: a bucket for each term, or one for all.
struct Server {
    kind: Kind,
    burst: u32,
    /// How often a token comes by itself, if that is so.
    every: Option<u64>,
    buckets: HashMap<Key, (u32, Moment)>,
    is_there: bool,
    /// What it was asked while it was not there, and does later.
    late: Vec<(usize, Ask)>,
}

impl Server {
    fn holding() -> Self {
        let (kind, every) = (Kind::Held, None);
        Self { kind, burst: 50, every, buckets: HashMap::new(), is_there: true, late: Vec::new() }
    }

    fn spending() -> Self {
        let (kind, every) = (Kind::Spent, Some(21 * MS));
        Self { kind, burst: 2, every, buckets: HashMap::new(), is_there: true, late: Vec::new() }
    }

    fn bucket(&mut self, key: Key, now: Moment) -> &mut u32 {
        let key = if self.kind == Kind::Held { key } else { (0, None) };
        let (tokens, counted) = self.buckets.entry(key).or_insert((self.burst, now));
        while let Some(every) = self.every
            && counted.after(Nanos::new(every.into())) <= now
        {
            *counted = counted.after(Nanos::new(every.into()));
            *tokens = (*tokens + 1).min(self.burst);
        }
        tokens
    }

    fn ask(&mut self, process: usize, ask: &Ask, now: Moment) -> Option<Answer> {
        if !self.is_there {
            self.late.push((process, ask.clone()));
            return None;
        }
        Some(self.answer(process, ask, now))
    }

    fn answer(&mut self, process: usize, ask: &Ask, now: Moment) -> Answer {
        let mut refunds: Vec<(u64, u64, u32)> =
            ask.refunds.iter().map(|&(term, count)| (term, ask.life, count)).collect();
        if let Some(life) = ask.over {
            let burst = self.burst;
            let lacks =
                |term| (term, life, burst - *self.bucket((term, Some((process, life))), now));
            refunds.extend(ask.terms.iter().map(lacks));
        }
        for (term, life, count) in refunds {
            for key in [(term, None), (term, Some((process, life)))] {
                let burst = self.burst;
                let tokens = self.bucket(key, now);
                *tokens = (*tokens + count).min(burst);
            }
        }
        // Of all, or of none.
        let ledger = Some((process, ask.life));
        let keys: Vec<Key> = match self.kind {
            Kind::Held => ask.terms.iter().flat_map(|it| [(it, None), (it, ledger)]).collect(),
            Kind::Spent => vec![(0, None)],
        };
        let left = keys.iter().map(|&key| *self.bucket(key, now)).min().unwrap();
        let granted = if ask.spend <= left { ask.spend } else { 0 };
        for key in keys {
            *self.bucket(key, now) -= granted;
        }
        let second = Some(Moment::from_nanos(now.as_nanos() / 1_000_000_000 * 1_000_000_000));
        let (left, retry_in) = (left - granted, Nanos::new((4 * MS).into()));
        Answer { granted, left, lacks: self.burst - left, retry_in, second }
    }

    /// It is there again, remembers everything, and does what it was asked.
    fn go_on(&mut self, now: Moment) {
        self.is_there = true;
        for (process, ask) in std::mem::take(&mut self.late) {
            self.answer(process, &ask, now);
        }
    }
}

/// A process that always has something to send, and the requests it has in flight.
struct Process {
    till: Till,
    /// How far its clock is ahead.
    ahead: Nanos,
    flying: VecDeque<(Moment, Token)>,
    looks_at: Moment,
    /// When an answer comes, or none, to what was asked when.
    pending: Option<(Moment, Moment, Ask, Option<Answer>)>,
}

/// What the API counted, by arrival.
struct World {
    random: Random,
    server: Server,
    processes: Vec<Process>,
    arrived: Vec<Moment>,
    late_max_ms: u64,
    /// One in so many answers is read late, by up to so many milliseconds.
    late_answers: Option<(u64, u64)>,
    /// Whether processes have nothing to send now and then.
    is_idle_at_times: bool,
}

impl World {
    fn new(server: Server, late_max_ms: u64, seed: u64) -> Self {
        let process = || Process {
            till: Till::new(server.kind, SECOND, 12, SPACING),
            ahead: Nanos::ZERO,
            flying: VecDeque::new(),
            looks_at: Moment::EPOCH,
            pending: None,
        };
        let processes = (0..4).map(|_| process()).collect();
        let (random, arrived) = (Random::new(seed), Vec::new());
        let (late_answers, is_idle_at_times) = (None, false);
        Self { random, server, processes, arrived, late_max_ms, late_answers, is_idle_at_times }
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
        let here = now.after(process.ahead);
        while let Some(&(_, token)) = process.flying.front().filter(|(at, _)| *at <= now) {
            process.till.settle(token, Nanos::ZERO, here);
            process.flying.pop_front();
        }
        if now < process.looks_at {
            return;
        }
        // Tasks are not always called at once.
        process.looks_at = now.after(Nanos::new((self.random.below(3) * MS).into()));
        while let Some(token) = process.till.take(here) {
            let arrives = now.after(Nanos::new((self.random.below(self.late_max_ms) * MS).into()));
            self.arrived.push(arrives);
            let answered = process.flying.back().map_or(arrives, |&(at, _)| at.max(arrives));
            process.flying.push_back((answered, token));
        }
        if let Some((_, asked, ask, answer)) = process.pending.take_if(|(at, ..)| *at <= now) {
            match answer {
                Some(answer) => process.till.answered(&ask, answer, asked, here),
                None => process.till.failed(here),
            }
            process.looks_at = now;
            return;
        }
        let stretch = now.as_nanos() / (70 * MS) + index as u64;
        let waiting = if self.is_idle_at_times && stretch % 7 < 3 { 0 } else { 5 };
        if process.pending.is_none()
            && let Step::Ask(ask) = process.till.step(waiting, here)
        {
            if let Some(answer) = self.server.ask(index, &ask, now) {
                self.answer(index, ask, answer, now);
            } else {
                // It refuses at once, or is silent.
                let fails_ms = self.random.below(SILENT_MS_MAX + 1);
                let fails_at = now.after(Nanos::new((fails_ms * MS).into()));
                process.pending = Some((fails_at, here, ask, None));
            }
        }
    }

    fn answer(&mut self, index: usize, ask: Ask, answer: Answer, now: Moment) {
        let process = &mut self.processes[index];
        let here = now.after(process.ahead);
        match self.late_answers {
            Some((one_in, late_max_ms)) if self.random.below(one_in) == 0 => {
                let late = Nanos::new((self.random.below(late_max_ms) * MS).into());
                process.pending = Some((now.after(late), here, ask, Some(answer)));
            }
            _ => process.till.answered(&ask, answer, here, here),
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
fn held_tokens_never_exceed_the_limit_where_requests_arrive_within_two_seconds() {
    for (late_max_ms, at_least) in [(2, 4_850), (50, 4_700), (400, 3_900), (2_000, 2_000)] {
        let mut world = World::new(Server::holding(), late_max_ms, late_max_ms);
        // Over the ends of two terms.
        world.run(50_000, 150_000);
        let (most, sent) = (world.most_in_a_window(), world.arrived.len());
        assert!(most <= 50, "{late_max_ms} ms late: {most} in a window");
        assert!(sent >= at_least, "{late_max_ms} ms late: {sent} in 100 s");
    }
}

#[test]
fn processes_share_one_allowance_whatever_their_clocks_say() {
    let mut world = World::new(Server::holding(), 20, 7);
    for (process, ahead_ms) in world.processes.iter_mut().zip([0_u64, 2_500, 31_000, 86_400_000]) {
        process.ahead = Nanos::new(u128::from(ahead_ms * MS));
    }
    world.run(50_000, 150_000);
    let (most, sent) = (world.most_in_a_window(), world.arrived.len());
    assert!(most <= 50, "{most} in a window");
    assert!(sent >= 4_800, "{sent} in 100 s");
}

#[test]
fn what_a_dead_process_held_is_back_with_the_next_term() {
    let mut world = World::new(Server::holding(), 10, 1);
    world.run(10_000, 15_000);
    world.processes.truncate(1);
    world.run(15_000, 130_000);
    let (before, after) = (world.between(20_000, 50_000), world.between(70_000, 100_000));
    assert!(before < 30 * 40, "{before} with what is left");
    assert!(after > 30 * 47, "{after} with all of it");
    assert!(world.most_in_a_window() <= 50);
}

#[test]
fn spent_tokens_bear_as_much_delay_as_the_arithmetic_says() {
    // Two at once, and one every 21 ms: 1 s and 20 ms have room for 48 of these.
    let mut world = World::new(Server::spending(), 20, 1);
    world.run(0, 60_000);
    let (most, sent) = (world.most_in_a_window(), world.arrived.len());
    assert!(most <= 50, "{most} in a window");
    assert!(sent >= 47 * 60, "{sent} in a minute");
}

/// What four processes send in twenty seconds where one in so many answers is late.
fn spend_with_late_answers(late: (u64, u64), is_idle_at_times: bool, seed: u64) -> World {
    // An answer may be 8 ms late, and a request 12.
    let mut world = World::new(Server::spending(), 12, seed);
    (world.late_answers, world.is_idle_at_times) = (Some(late), is_idle_at_times);
    world.run(0, 20_000);
    world
}

#[test]
fn spent_tokens_are_used_though_answers_are_read_late_now_and_then() {
    for seed in 0..20 {
        // Within 20 ms of the denial before.
        let sent = spend_with_late_answers((10, 14), false, seed).arrived.len();
        // One every 21 ms is 47.6 a second.
        assert!(sent >= 20 * 47, "seed {seed}: {sent} in 20 s");
    }
}

#[test]
fn spent_tokens_never_exceed_the_limit_however_late_answers_are_read() {
    for seed in 0..20 {
        for (late, is_idle) in [((10, 24), true), ((3, 100), false), ((3, 100), true)] {
            let most = spend_with_late_answers(late, is_idle, seed).most_in_a_window();
            assert!(most <= 50, "seed {seed}: {most} in a window");
        }
    }
}

#[test]
fn when_the_server_goes_each_has_its_share_and_when_it_is_back_all_is_shared_again() {
    for make in [Server::holding, Server::spending] {
        for seed in 0..20 {
            let mut world = World::new(make(), 15, seed);
            world.run(5_000, 10_000);
            world.server.is_there = false;
            let back = 20_000 + seed * 13;
            world.run(10_000, back);
            // It has forgotten everything.
            world.server = make();
            world.run(back, 30_500);
            let most = world.most_in_a_window();
            assert!(most <= 50, "seed {seed}: {most} in a window");
            let alone = world.between(12_000, 20_000);
            assert!((8 * 44..=8 * 48).contains(&alone), "seed {seed}: {alone} alone");
            let together = world.between(23_500, 30_500);
            assert!(together >= 7 * 46, "seed {seed}: {together} together again");
            assert!(world.processes.iter().all(|process| process.till.is_there()));
        }
    }
}

/// What they held, and what they asked for and never heard of, is not missing afterwards.
#[test]
fn a_server_that_was_silent_for_a_moment_and_forgot_nothing_is_used_in_full_again() {
    for seed in 0..20 {
        let late_max_ms = 15 + seed * 20;
        let mut world = World::new(Server::holding(), late_max_ms, seed);
        world.run(5_000, 10_000);
        world.server.is_there = false;
        let back = 10_600 + seed * 13;
        world.run(10_000, back);
        world.server.go_on(Moment::from_nanos(back * MS));
        world.run(back, 30_000);
        let most = world.most_in_a_window();
        assert!(most <= 50, "seed {seed}: {most} in a window");
        let mut twin = World::new(Server::holding(), late_max_ms, seed);
        twin.run(5_000, 30_000);
        let (again, never_silent) = (world.between(15_000, 27_000), twin.between(15_000, 27_000));
        // They may go all at once, each second.
        assert!(again + 50 >= never_silent, "seed {seed}: {again} of {never_silent}");
    }
}

/// It comes back as it was a while ago, when most was free.
#[test]
fn a_server_that_remembers_only_what_it_had_saved_is_given_no_more_than_it_lacks() {
    for seed in 0..20 {
        let mut world = World::new(Server::holding(), 15, seed);
        world.run(5_000, 5_200 + seed * 30);
        let saved = world.server.buckets.clone();
        world.run(5_200 + seed * 30, 10_000);
        world.server.is_there = false;
        world.run(10_000, 12_000);
        world.server.late.clear();
        world.server.buckets = saved;
        world.server.go_on(Moment::from_nanos(12_000 * MS));
        world.run(12_000, 20_000);
        let most = world.most_in_a_window();
        assert!(most <= 50, "seed {seed}: {most} in a window");
        let again = world.between(16_000, 20_000);
        assert!(again >= 4 * 46, "seed {seed}: {again} in 4 s");
    }
}

#[test]
fn who_has_no_share_of_its_own_waits_for_the_server() {
    let mut till = Till::new(Kind::Held, SECOND, 0, SPACING);
    let at = |ms: u64| Moment::from_nanos(ms * MS);
    till.failed(at(0));
    for ms in 0..5_000 {
        assert_eq!(till.take(at(ms)), None);
        if let Step::Ask(ask) = till.step(1, at(ms)) {
            assert_eq!((ask.spend, ask.refunds.len()), (0, 0));
            till.failed(at(ms));
        }
    }
    assert!(till.opens_at(at(5_000)) >= at(5_000));
}

#[test]
fn a_token_that_took_too_long_to_come_is_not_used() {
    let mut till = Till::new(Kind::Spent, SECOND, 12, SPACING);
    let at = |ms: u64| Moment::from_nanos(ms * MS);
    let terms = Terms::at(at(0), SECOND);
    let ask = Ask { spend: 1, terms, refunds: Refunds::new(), life: 0, over: None };
    let granted = Answer { granted: 1, left: 1, ..NOTHING };
    assert_eq!(till.step(1, at(0)), Step::Ask(ask.clone()));
    till.answered(&ask, granted, at(0), at(1));
    assert!(till.take(at(1)).is_some());
    assert_eq!(till.step(1, at(1)), Step::Ask(ask.clone()));
    till.answered(&ask, granted, at(1), at(30));
    assert!(till.take(at(30)).is_none());
    assert_eq!(till.step(1, at(30)), Step::Ask(ask), "it asks for another");
}

#[test]
fn what_nobody_took_and_what_was_never_sent_goes_back_at_once() {
    let mut till = Till::new(Kind::Held, SECOND, 12, SPACING);
    let now = Moment::from_nanos(10_000 * MS);
    let ask = |step: Step| match step {
        Step::Ask(ask) => (ask.spend, ask.refunds.clone(), ask),
        Step::Idle(until) => panic!("idle until {until:?}"),
    };
    let (_, _, asked) = ask(till.step(0, now));
    till.answered(&asked, NOTHING, now, now);
    let (_, _, asked) = ask(till.step(1, now));
    till.answered(&asked, Answer { granted: 1, left: 40, ..NOTHING }, now, now);
    let token = till.take(now).unwrap();
    till.give_back(token);
    let (spend, refunds, asked) = ask(till.step(8, now));
    assert_eq!((spend, refunds), (8, vec![(0, 1)]), "as many as there are known to be");
    till.answered(&asked, Answer { granted: 8, left: 30, ..NOTHING }, now, now);
    assert!(till.take(now).is_some());
    let (spend, refunds, _) = ask(till.step(0, now));
    assert_eq!((spend, refunds), (0, vec![(0, 7)]));
}
