//! A million short lives of a tracker: whatever happens in whatever order, no permit is leaked,
//! stuck or minted, and nobody who waits is forgotten.

use std::collections::VecDeque;

use smallvec::smallvec;
use tollgate::{Moment, Nanos};
use tollgate_testkit::random::Random;
use tollgate_tracker::headers::{Said, Told, Unit, Wait};
use tollgate_tracker::profile::{Pace, Profile, Refill};
use tollgate_tracker::{Permit, Request, Ticket, Tracker, Verdict};

const LIVES: u64 = 1_000_000;
const MILLI: u64 = 1_000_000;
const PLACES: usize = 2;
const PATHS: [&str; PLACES] = ["/channels/1/typing", "/channels/2/typing"];
const PACE: usize = 4;
const PACE_WINDOW: u64 = 200 * MILLI;

#[test]
fn a_million_lives_leak_strand_and_mint_nothing() {
    let mut random = Random::new(6);
    for life in 0..LIVES {
        let mut life = Life::new(Random::new(life), &mut random);
        for _ in 0..random.between(4, 30) {
            life.step();
        }
        life.end();
    }
}

/// What the server has, written down as plainly as can be: it counts what arrives, when it
/// arrives.
struct Server {
    limit: u64,
    window: u64,
    ends: [u64; PLACES],
    used: [u64; PLACES],
    paced: VecDeque<u64>,
}

impl Server {
    /// What is left, and for how long it is until the reset.
    fn count(&mut self, place: usize, at: u64) -> (u64, u64) {
        self.paced.retain(|&counted| counted + PACE_WINDOW > at);
        self.paced.push_back(at);
        assert!(self.paced.len() <= PACE, "too many in all");
        if at >= self.ends[place] {
            self.ends[place] = at + self.window;
            self.used[place] = 0;
        }
        self.used[place] += 1;
        assert!(self.used[place] <= self.limit, "too many in a window of {}", self.limit);
        (self.limit - self.used[place], self.ends[place] - at)
    }
}

/// A request that was allowed.
struct Flight {
    permit: Permit,
    place: usize,
    /// When it arrives, once it is sent.
    arrives: Option<u64>,
    /// What the server answered, and when.
    answer: Option<(u64, u64, u64)>,
}

struct Life {
    random: Random,
    now: u64,
    tracker: Tracker,
    server: Server,
    flights: Vec<Flight>,
    queues: [VecDeque<Ticket>; PLACES],
    /// Where an answer was had.
    known: [bool; PLACES],
}

impl Life {
    fn new(random: Random, terms: &mut Random) -> Self {
        let precision = Nanos::new(MILLI.into());
        let profile = Profile {
            pace: Some(Pace { count: 4, window: Nanos::new(PACE_WINDOW.into()) }),
            refill: Refill::Fixed { precision },
            invalid: None,
            ..Profile::discord()
        };
        let window = terms.between(20, 600) * MILLI;
        let (ends, used, paced) = ([0; PLACES], [0; PLACES], VecDeque::new());
        Self {
            random,
            now: MILLI,
            tracker: Tracker::new(profile),
            server: Server { limit: terms.between(1, 3), window, ends, used, paced },
            flights: Vec::new(),
            queues: Default::default(),
            known: [false; PLACES],
        }
    }

    fn step(&mut self) {
        let place = self.random.index(PLACES);
        let request = Request::new("POST", PATHS[place]);
        let now = Moment::from_nanos(self.now);
        match self.random.below(12) {
            0..2 => {
                if let Verdict::Clear(permit) = self.tracker.limited(&request, now) {
                    assert!(self.queues[place].is_empty(), "somebody was there before");
                    self.flights.push(Flight { permit, place, arrives: None, answer: None });
                }
            }
            2 => {
                let ticket = self.tracker.join(&request, Moment::MAX, now);
                self.queues[place].push_back(ticket.expect("there is room"));
            }
            3 => self.leave(place),
            4 => self.release(),
            5 => self.drop_one(),
            6..8 => self.send_one(),
            8..10 => self.answer_one(),
            _ => {
                let step = self.random.log_between(1, 400) * MILLI;
                self.advance(self.now + step);
            }
        }
    }

    fn leave(&mut self, place: usize) {
        if self.queues[place].is_empty() {
            return;
        }
        let index = self.random.index(self.queues[place].len());
        let ticket = self.queues[place].remove(index).expect("it is there");
        assert!(self.tracker.leave(ticket));
        assert!(!self.tracker.leave(ticket), "it left twice");
    }

    fn release(&mut self) {
        let Some((ticket, permit)) = self.tracker.release(Moment::from_nanos(self.now)) else {
            return;
        };
        let place = self.queues.iter().position(|queue| queue.front() == Some(&ticket));
        let place = place.expect("it was the first of its queue");
        self.queues[place].pop_front();
        self.flights.push(Flight { permit, place, arrives: None, answer: None });
    }

    /// It is never sent; or it arrived, and the answer is lost. Of a place of which nothing is
    /// known nobody could tell that it was counted.
    fn drop_one(&mut self) {
        let now = Moment::from_nanos(self.now);
        let known = self.known;
        let is_lost = |flight: &Flight| flight.answer.is_some() && known[flight.place];
        let Some(flight) = self.take(|flight| flight.arrives.is_none() || is_lost(flight)) else {
            return;
        };
        match flight.arrives {
            None => self.tracker.give_back(flight.permit, now),
            Some(_) => self.tracker.lost(flight.permit, now),
        }
    }

    fn send_one(&mut self) {
        let delay = 2 * MILLI + self.random.log_between(1, 300 * MILLI);
        let at = self.now + delay;
        if let Some(mut flight) = self.take(|flight| flight.arrives.is_none()) {
            flight.arrives = Some(at);
            self.flights.push(flight);
        }
    }

    /// The answers come in any order, some of them very late.
    fn answer_one(&mut self) {
        let now = self.now;
        let is_back = |flight: &Flight| flight.answer.is_some_and(|(at, ..)| at + 2 * MILLI <= now);
        let Some(flight) = self.take(is_back) else { return };
        let Some((_, left, wait)) = flight.answer else { return };
        self.known[flight.place] = true;
        let wait = Wait { length: Nanos::new((wait / MILLI * MILLI).into()), truly_secs: None };
        let told = Told {
            name: "",
            unit: Unit::Requests,
            limit: Some(self.server.limit),
            remaining: Some(left),
            reset_in: Some(wait),
            window: None,
        };
        let said = Said { budgets: smallvec![told], bucket: Some("typing"), ..Said::default() };
        self.tracker.learn(flight.permit, 200, &said, None, Moment::from_nanos(now));
    }

    fn take(&mut self, is_it: impl Fn(&Flight) -> bool) -> Option<Flight> {
        let all = self.flights.len().max(1);
        let from = self.random.index(all);
        let index = (0..all).map(|n| (from + n) % all);
        let index = index.into_iter().find(|&n| self.flights.get(n).is_some_and(&is_it))?;
        Some(self.flights.swap_remove(index))
    }

    /// Lets time pass; what arrives meanwhile is counted in order.
    fn advance(&mut self, until: u64) {
        loop {
            let next = self.flights.iter_mut().filter(|flight| flight.answer.is_none());
            let next = next.filter(|flight| flight.arrives.is_some_and(|at| at <= until));
            let Some(flight) = next.min_by_key(|flight| flight.arrives) else { break };
            let at = flight.arrives.unwrap_or_default();
            let (left, wait) = self.server.count(flight.place, at);
            flight.answer = Some((at, left, wait));
        }
        self.now = until;
    }

    /// Everything comes to its end: what is in flight is answered, and who waits has a turn.
    fn end(mut self) {
        for round in 0.. {
            assert!(round < 1_000, "stuck: {:?}", self.tracker);
            while let Some(wake) = self.tracker.next_wake().filter(|at| at.as_nanos() <= self.now) {
                let waiting = self.queues.iter().map(VecDeque::len).sum::<usize>();
                self.release();
                let still = self.queues.iter().map(VecDeque::len).sum::<usize>();
                // A bucket that opens now may turn out to wait for an answer, or for others.
                if still == waiting {
                    assert_ne!(self.tracker.next_wake(), Some(wake), "woken for nothing");
                    break;
                }
            }
            while self.flights.iter().any(|flight| flight.arrives.is_none()) {
                self.send_one();
            }
            self.advance(self.now + 350 * MILLI);
            while self.flights.iter().any(|flight| flight.answer.is_some()) {
                self.advance(self.now + 2 * MILLI);
                self.answer_one();
            }
            if self.flights.is_empty() && self.queues.iter().all(VecDeque::is_empty) {
                break;
            }
        }
        let snapshot = self.tracker.snapshot(Moment::from_nanos(self.now));
        assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
        self.all_is_back();
    }

    /// After a while each place has all that it has when it is full, and no more.
    fn all_is_back(&mut self) {
        self.now += 10_000 * MILLI;
        let now = Moment::from_nanos(self.now);
        let request = Request::new("POST", PATHS[0]);
        let mut permits = Vec::new();
        while let Verdict::Clear(permit) = self.tracker.limited(&request, now) {
            permits.push(permit);
        }
        // Of a place that never answered one request finds out.
        let most = if self.known[0] { self.server.limit } else { 1 };
        assert_eq!(permits.len() as u64, most, "{:?}", self.tracker);
    }
}
