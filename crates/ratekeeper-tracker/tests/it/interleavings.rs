//! A million short lives of a tracker: whatever happens in whatever order, no reservation is leaked,
//! stuck or minted, and nobody who waits is forgotten.
//!
//! Two routes share a bucket, which nobody knows before the server says so; each bucket has two
//! budgets; their names change; and answers are lost, also the first ones. Only what nobody could
//! know may lead to a refusal.

use std::collections::VecDeque;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::headers::{Said, Told, Unit, Wait};
use ratekeeper_tracker::profile::{Pace, Paces, Profile, Refill};
use ratekeeper_tracker::{Moment, Nanos};
use ratekeeper_tracker::{Request, Reservation, Tracker, Verdict, WaiterId};
use smallvec::smallvec;

const LIVES: u64 = 1_000_000;
const MILLI: u64 = 1_000_000;
/// The first two routes share a place.
const PATHS: [&str; ROUTES] = ["/channels/1/typing", "/channels/1/pins", "/channels/2/typing"];
const PLACE_OF: [usize; ROUTES] = [0, 0, 1];
const ROUTES: usize = 3;
const PLACES: usize = 2;
const SHARED: usize = 0;
const BUDGETS: usize = 2;
const PACE: usize = 4;
const PACE_WINDOW: u64 = 200 * MILLI;
const PACES: Paces = Paces::new(&[Pace::new(4, Nanos::new(PACE_WINDOW as u128))]);
/// How long the answer of one that finds out is waited for before another goes.
const PATIENCE: u64 = 500 * MILLI;
/// What the server calls a bucket, one name after the other.
const NAMES: [&str; 4] = ["typing", "pins", "other", "more"];

#[test]
fn a_million_lives_leak_strand_and_mint_nothing() {
    let mut random = Random::new(6);
    let mut refused = 0;
    for life in 0..LIVES {
        let mut life = Life::new(Random::new(life), &mut random);
        for _ in 0..random.between(4, 40) {
            life.step();
        }
        refused += life.end();
    }
    println!("{refused} refusals that nobody could foresee");
    assert!(refused > 0, "nothing was lost that mattered");
}

/// What the server has, written down as plainly as can be: it counts what arrives, when it
/// arrives.
struct Server {
    /// How many, and in how long, of each budget.
    limits: [(u64, u64); BUDGETS],
    places: [Counts; PLACES],
    paced: VecDeque<u64>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    /// How often it was renamed.
    name: usize,
    ends: [u64; BUDGETS],
    used: [u64; BUDGETS],
    /// Whether an answer was had that told how long the window of a budget is.
    is_whole: [bool; BUDGETS],
    /// Until then something is counted that nobody could hear of.
    blind_until: u64,
}

/// What the server said, and when.
#[derive(Clone, Copy)]
struct Answer {
    at: u64,
    status: u16,
    name: usize,
    /// What is left of each budget, and for how long.
    left: [(u64, u64); BUDGETS],
}

impl Server {
    fn new(terms: &mut Random) -> Self {
        let window = terms.between(20, 600) * MILLI;
        let limit = terms.between(1, 3);
        let slower = (limit + terms.below(3), window * terms.between(1, 3));
        let limits = [(limit, window), slower];
        Self { limits, places: Default::default(), paced: VecDeque::new() }
    }

    fn count(&mut self, flight: &Flight, together: Option<usize>, at: u64) -> Answer {
        let route = flight.route;
        self.paced.retain(|&counted| counted + PACE_WINDOW > at);
        self.paced.push_back(at);
        assert!(self.paced.len() <= PACE, "too many in all");
        let place = &mut self.places[PLACE_OF[route]];
        for (budget, (_, window)) in self.limits.iter().enumerate() {
            if at >= place.ends[budget] {
                place.ends[budget] = at + window;
                place.used[budget] = 0;
            }
        }
        // Once it is told that two routes share a place, they stay together when it is renamed. When
        // it is renamed again before both were heard of, that may mean anything.
        let is_told = together.is_some_and(|name| place.name <= name + 1);
        if PLACE_OF[route] == SHARED && !is_told || flight.is_unsure {
            place.be_blind();
        }
        let mut full = place.used.iter().zip(self.limits).map(|(&used, (limit, _))| used >= limit);
        let is_refused = full.any(|full| full);
        if is_refused {
            assert!(at < place.blind_until, "too many in a window of {:?}", self.limits);
        } else {
            place.used.iter_mut().for_each(|used| *used += 1);
        }
        let left =
            |budget: usize| (self.limits[budget].0 - place.used[budget], place.ends[budget] - at);
        let status = if is_refused { 429 } else { 200 };
        Answer { at, status, name: place.name, left: [left(0), left(1)] }
    }
}

impl Counts {
    /// What is counted now was not told, and will not be.
    fn be_blind(&mut self) {
        self.blind_until = self.ends.into_iter().fold(self.blind_until, u64::max);
    }

    /// The bucket gets another name, and all is counted anew.
    fn rename(&mut self) {
        *self = Self { name: self.name + 1, ..Self::default() };
    }
}

/// A request that was allowed.
struct Flight {
    reservation: Reservation,
    route: usize,
    granted: u64,
    /// Whether nothing was known, as the answer of one that was to find out did not come.
    is_unsure: bool,
    /// When it arrives, once it is sent.
    arrives: Option<u64>,
    answer: Option<Answer>,
}

struct Life {
    random: Random,
    now: u64,
    tracker: Tracker,
    server: Server,
    flights: Vec<Flight>,
    queues: [VecDeque<WaiterId>; ROUTES],
    /// The name in the last answer that was had, where there was one.
    known: [Option<usize>; ROUTES],
    /// When a name was last heard for the first time.
    named_at: [u64; PLACES],
    /// The last name with which both routes were answered that share a place, and since when.
    together: Option<(usize, u64)>,
    refused: u64,
}

impl Life {
    fn new(random: Random, terms: &mut Random) -> Self {
        let precision = Nanos::new(MILLI.into());
        let profile = Profile {
            paces: PACES,
            refill: Refill::Fixed { precision },
            invalid: None,
            ..Profile::discord()
        };
        Self {
            random,
            now: MILLI,
            tracker: Tracker::new(profile),
            server: Server::new(terms),
            flights: Vec::new(),
            queues: Default::default(),
            known: [None; ROUTES],
            named_at: [0; PLACES],
            together: None,
            refused: 0,
        }
    }

    fn step(&mut self) {
        let route = self.random.index(ROUTES);
        let request = Request::new("POST", PATHS[route]);
        let now = Moment::from_nanos(self.now);
        match self.random.below(50) {
            0..8 => {
                if let Verdict::Clear(reservation) = self.tracker.reserve(&request, now) {
                    assert!(self.queues[route].is_empty(), "somebody was there before");
                    self.granted(reservation, route);
                }
            }
            8..12 => {
                let waiter_id = self.tracker.join(&request, Moment::MAX, now);
                self.queues[route].push_back(waiter_id.expect("there is room"));
            }
            12..16 => self.leave(route),
            16..20 => self.release(),
            20..24 => self.drop_one(),
            24..32 => self.send_one(),
            32..40 => self.answer_one(),
            40 => self.server.places[PLACE_OF[route]].rename(),
            _ => {
                let step = self.random.log_between(1, 400) * MILLI;
                self.advance(self.now + step);
            }
        }
    }

    fn leave(&mut self, route: usize) {
        if self.queues[route].is_empty() {
            return;
        }
        let index = self.random.index(self.queues[route].len());
        let waiter_id = self.queues[route].remove(index).expect("it is there");
        assert!(self.tracker.leave(waiter_id));
        assert!(!self.tracker.leave(waiter_id), "it left twice");
    }

    fn release(&mut self) {
        let Some((waiter_id, reservation)) = self.tracker.release(Moment::from_nanos(self.now))
        else {
            return;
        };
        let route = self.queues.iter().position(|queue| queue.front() == Some(&waiter_id));
        let route = route.expect("it was the first of its queue");
        self.queues[route].pop_front();
        self.granted(reservation, route);
    }

    fn granted(&mut self, reservation: Reservation, route: usize) {
        // One that is so late may have been counted long ago, or may yet arrive.
        let is_same = |other: &Flight| PLACE_OF[other.route] == PLACE_OF[route];
        let late = |other: &Flight| is_same(other) && other.granted + PATIENCE <= self.now;
        let is_unsure = self.flights.iter().any(late);
        let (granted, arrives, answer) = (self.now, None, None);
        self.flights.push(Flight { reservation, route, granted, is_unsure, arrives, answer });
    }

    /// It is never sent; or it arrived, and the answer is lost. Where the answers that were had do not
    /// speak of what it was counted in, or not of how long that lasts, nobody can tell that it was.
    fn drop_one(&mut self) {
        let now = Moment::from_nanos(self.now);
        let may_go = |flight: &Flight| flight.arrives.is_none() || flight.answer.is_some();
        let Some(flight) = self.take(may_go) else { return };
        let Some(answer) = flight.answer else {
            return self.tracker.give_back(flight.reservation, now);
        };
        self.tracker.lost(flight.reservation, now);
        let place = &mut self.server.places[PLACE_OF[flight.route]];
        let is_known = self.known[flight.route] == Some(answer.name) && place.is_whole == [true; 2];
        if place.name == answer.name && !is_known {
            place.be_blind();
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
        let is_back = |flight: &Flight| flight.answer.is_some_and(|it| it.at + 2 * MILLI <= now);
        let Some(flight) = self.take(is_back) else { return };
        let Some(answer) = flight.answer else { return };
        self.hear(&flight, answer.name);
        let place = &mut self.server.places[PLACE_OF[flight.route]];
        for (budget, (_, window)) in self.server.limits.iter().enumerate() {
            place.is_whole[budget] |= place.name == answer.name && answer.left[budget].1 == *window;
        }
        let wait = |length: u64| Wait { length: Nanos::new(length.into()), truly_secs: None };
        let told = |budget: usize, name| Told {
            name,
            unit: Unit::Requests,
            limit: Some(self.server.limits[budget].0),
            remaining: Some(answer.left[budget].0),
            reset_in: Some(wait(answer.left[budget].1 / MILLI * MILLI)),
            rounded: None,
            only_more: false,
            window: None,
        };
        let spent = answer.left.iter().filter(|(left, _)| *left == 0).map(|(_, length)| *length);
        let said = Said {
            budgets: smallvec![told(0, ""), told(1, "slower")],
            bucket: Some(NAMES[answer.name % NAMES.len()]),
            retry_after: spent.max().filter(|_| answer.status == 429).map(wait),
            ..Said::default()
        };
        self.refused += u64::from(answer.status == 429);
        self.tracker.learn(flight.reservation, answer.status, &said, None, Moment::from_nanos(now));
    }

    /// Another name counts if the request was sent after the one before was heard; else it may be the
    /// older of the two.
    fn hear(&mut self, flight: &Flight, name: usize) {
        let named_at = &mut self.named_at[PLACE_OF[flight.route]];
        let known = self.known[flight.route];
        if known == Some(name) || known.is_some() && flight.granted < *named_at {
            return;
        }
        *named_at = self.now;
        self.known[flight.route] = Some(name);
        if flight.route < 2 && self.known[0] == self.known[1] {
            let stayed = self.together.filter(|&(before, _)| name <= before + 1);
            self.together = Some((name, stayed.map_or(self.now, |(_, since)| since)));
        }
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
            let together = self.together.filter(|&(_, since)| flight.granted >= since);
            let together = together.map(|(name, _)| name);
            flight.answer = Some(self.server.count(flight, together, at));
        }
        self.now = until;
    }

    /// Everything comes to its end: what is in flight is answered, and who waits has a turn.
    fn end(mut self) -> u64 {
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
        self.refused
    }

    /// After a while each place has all that it has when it is full, and no more.
    fn all_is_back(&mut self) {
        self.now += 10_000 * MILLI;
        let now = Moment::from_nanos(self.now);
        let request = Request::new("POST", PATHS[0]);
        let mut reservations = Vec::new();
        while let Verdict::Clear(reservation) = self.tracker.reserve(&request, now) {
            reservations.push(reservation);
        }
        // The other budget has no less. Of a route that was never answered one request finds out.
        let most = if self.known[0].is_some() { self.server.limits[0].0 } else { 1 };
        assert_eq!(reservations.len() as u64, most, "{:?}", self.tracker);
    }
}
