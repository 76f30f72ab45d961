//! Processes, a server and an API in virtual time, without any of them: processes start, close, die;
//! the server is away, forgets, comes back. The API counts what arrives.

mod cases;

use std::collections::{HashMap, VecDeque};

use ratekeeper_testkit::random::Random;
use ratekeeper_time::{Moment, Nanos};

use super::{SharedToken, Step, TokenAnswer, TokenAsk, TokenState};
use crate::pace::Pace;
use crate::share::terms::{Terms, kept_max};

const MS: u64 = 1_000_000;
/// How long it takes at most until a server counts as away.
const SILENT_MS_MAX: u64 = 500;
/// When the server was started, and when everything begins.
const STARTED_MS: u64 = 1_000;
const BEGIN_MS: u64 = 200_000;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * MS)
}

fn length(ms: u64) -> Nanos {
    Nanos::new((ms * MS).into())
}

/// The server: a bucket for each term.
struct Server {
    burst: u32,
    buckets: HashMap<u64, u32>,
    started: Moment,
    is_there: bool,
    /// What it was asked while it was not there, and does later.
    late: Vec<TokenAsk>,
}

impl Server {
    fn started(burst: u32, ms: u64) -> Self {
        Self { burst, buckets: HashMap::new(), started: at(ms), is_there: true, late: Vec::new() }
    }

    fn ask(&mut self, ask: &TokenAsk, now: Moment) -> Option<TokenAnswer> {
        if !self.is_there {
            self.late.push(ask.clone());
            return None;
        }
        Some(self.answer(ask, now))
    }

    fn answer(&mut self, ask: &TokenAsk, now: Moment) -> TokenAnswer {
        let (is_granted, left) = match ask {
            TokenAsk::Look => (true, self.burst - 1),
            TokenAsk::Renew { terms, tokens } => self.spend(terms, *tokens),
            TokenAsk::Exchange { terms, refund, spend } => {
                for term in terms.iter() {
                    let left = self.buckets.entry(term).or_insert(self.burst);
                    *left = (*left + refund).min(self.burst);
                }
                self.spend(terms, *spend)
            }
        };
        TokenAnswer { is_granted, left, there: now, started: self.started }
    }

    /// Of all, or of none.
    fn spend(&mut self, terms: &Terms, tokens: u32) -> (bool, u32) {
        let left = |server: &Self, term| *server.buckets.get(&term).unwrap_or(&server.burst);
        let least = terms.iter().map(|term| left(self, term)).min().unwrap();
        if tokens > least {
            return (false, least);
        }
        for term in terms.iter() {
            let left = left(self, term) - tokens;
            self.buckets.insert(term, left);
        }
        (true, least - tokens)
    }

    /// It is there again, remembers everything, and does what it was asked.
    fn go_on(&mut self, now: Moment) {
        self.is_there = true;
        for ask in std::mem::take(&mut self.late) {
            self.answer(&ask, now);
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    let [part, whole] = [part, whole].map(|it| f64::from(u32::try_from(it).unwrap()));
    100.0 * part / whole
}

/// A process that always has something to send, and the requests it has in flight.
struct Process {
    state: TokenState,
    /// How far its clock is ahead.
    ahead: Nanos,
    /// How many requests it always has to send.
    waiting: usize,
    flying: VecDeque<(Moment, SharedToken)>,
    looks_at: Moment,
    /// When an answer comes, or none, to what was asked when.
    pending: Option<(Moment, Moment, TokenAsk, Option<TokenAnswer>)>,
    is_gone: bool,
}

/// What the API allows, and how long things take.
#[derive(Clone, Copy, Debug)]
struct Setting {
    pace: Pace,
    /// How long a request is on its way at most, and an answer to it after that.
    late_max_ms: u64,
    slow_max_ms: u64,
    /// How long the server's answers take at most.
    trip_max_ms: u64,
}

const DISCORD: Setting = Setting {
    pace: Pace::new(50, Nanos::from_secs(1)),
    late_max_ms: 20,
    slow_max_ms: 1,
    trip_max_ms: 3,
};

struct World {
    setting: Setting,
    random: Random,
    server: Server,
    processes: Vec<Process>,
    arrived: Vec<Moment>,
}

impl World {
    fn new(setting: Setting, processes: usize, seed: u64) -> Self {
        let server = Server::started(setting.pace.count, STARTED_MS);
        let (random, processes_) = (Random::new(seed), Vec::new());
        let mut world =
            Self { setting, random, server, processes: processes_, arrived: Vec::new() };
        world.start(processes);
        world
    }

    fn start(&mut self, count: usize) {
        let pace = self.setting.pace;
        let process = || Process {
            state: TokenState::new(pace, pace.count / 4),
            ahead: Nanos::ZERO,
            waiting: 5,
            flying: VecDeque::new(),
            looks_at: Moment::EPOCH,
            pending: None,
            is_gone: false,
        };
        self.processes.extend((0..count).map(|_| process()));
    }

    /// Processes end with all they have. What they sent is on its way.
    fn kill(&mut self, count: usize) {
        self.processes.drain(..count);
    }

    /// They close and are waited for. How many milliseconds that takes.
    fn close_all(&mut self, from_ms: u64) -> u64 {
        for process in &mut self.processes {
            process.state.close();
            process.waiting = 0;
        }
        let mut ms = from_ms;
        while !self.processes.is_empty() {
            self.run(ms, ms + 1);
            ms += 1;
            self.processes.retain(|process| !process.is_gone);
        }
        ms - from_ms
    }

    /// Lets time go by in milliseconds.
    fn run(&mut self, from_ms: u64, to_ms: u64) {
        for ms in from_ms..to_ms {
            for index in 0..self.processes.len() {
                self.turn(index, at(ms));
            }
        }
    }

    fn turn(&mut self, index: usize, now: Moment) {
        let Setting { late_max_ms, slow_max_ms, trip_max_ms, .. } = self.setting;
        let process = &mut self.processes[index];
        let here = now.after(process.ahead);
        while process.flying.front().is_some_and(|&(at, _)| at <= now) {
            let (_, token) = process.flying.pop_front().unwrap();
            process.state.settle(token, Nanos::ZERO, here);
        }
        if now < process.looks_at {
            return;
        }
        // Tasks are not always called at once.
        process.looks_at = now.after(length(self.random.below(3)));
        for _ in 0..process.waiting {
            let Some(token) = process.state.take(here) else { break };
            let arrives = now.after(length(self.random.below(late_max_ms)));
            self.arrived.push(arrives);
            let answered = arrives.after(length(self.random.below(slow_max_ms)));
            let answered = process.flying.back().map_or(answered, |&(at, _)| at.max(answered));
            process.flying.push_back((answered, token));
        }
        if let Some((_, asked, ask, answer)) = process.pending.take_if(|(at, ..)| *at <= now) {
            match answer {
                Some(answer) => process.state.answered(&ask, answer, asked, here),
                None => process.state.failed(here),
            }
            process.looks_at = now;
            return;
        }
        if process.pending.is_none() && !process.is_gone {
            let step = process.state.step(process.waiting, here);
            process.is_gone = process.state.is_closed();
            if let Step::Ask(ask) = step {
                // It is silent, or refuses at once.
                let answer = self.server.ask(&ask, now);
                let max_ms = if answer.is_some() { trip_max_ms } else { SILENT_MS_MAX };
                let then = now.after(length(self.random.below(max_ms + 1)));
                process.pending = Some((then, here, ask, answer));
            }
        }
    }

    /// How many of what arrived an API refuses that counts all in any window.
    fn refused(&mut self) -> usize {
        self.arrived.sort();
        let Pace { count, window, .. } = self.setting.pace;
        let pairs = self.arrived.iter().zip(self.arrived.iter().skip(count as usize));
        pairs.filter(|(first, next)| next.since(**first) < window).count()
    }

    /// How many percent of what is permitted were used in a time. They may come all at once in each
    /// window; so it is the mean of times that begin everywhere in the window before.
    fn percent(&self, from_ms: u64, to_ms: u64) -> f64 {
        const BEGINS: u64 = 50;
        let Pace { count, window, .. } = self.setting.pace;
        let window_ms = u64::try_from(window.get()).unwrap() / MS;
        let sent: usize = (0..BEGINS)
            .map(|begin| begin * window_ms / BEGINS)
            .map(|earlier_ms| {
                let range = at(from_ms - earlier_ms)..at(to_ms - earlier_ms);
                self.arrived.iter().filter(|at| range.contains(at)).count()
            })
            .sum();
        let permitted = BEGINS * (to_ms - from_ms) * u64::from(count) / window_ms;
        percent(sent as u64, permitted)
    }

    /// Prints what came of it, and sees to it that nothing was refused.
    fn show(&mut self, what: &str, percents: &[f64]) {
        let refused = self.refused();
        let percents: Vec<String> = percents.iter().map(|it| format!("{it:.1}")).collect();
        println!("{what}: {refused} refused, {} % used", percents.join(", "));
        assert_eq!(refused, 0, "{what}");
    }
}
