//! Who is told when its turn is can rely on it, however many wait for however many buckets behind
//! one limit on all requests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ratekeeper_testkit::discord::{Discord, Kind, Place, Reply};
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::{
    Limited, Profile, Reason, Request, Reservation, Response, Tracker, Verdict, WaiterId,
};
use ratekeeper_tracker::{Moment, Nanos};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
/// Some time in 2026, so that identifiers are younger than it.
const START: u64 = 1_790_000_000 * SECOND;
/// How long each way takes.
const WAY: u64 = 20 * MILLI;
const ROUND_TRIP: u64 = 2 * WAY;
const WORLDS: u64 = 3_000;
/// By how much what is told is off, but for a round trip for each window that somebody waits for.
const ERROR: u64 = 100 * MILLI;
/// Where what others will do was not quite foreseen, it is by the window of the limit that all share,
/// or by two.
const ERROR_MAX: u64 = 2 * (SECOND + ROUND_TRIP);

/// A tracker, a server and those who wait in between.
struct World {
    tracker: Tracker,
    server: Discord,
    now: u64,
    serial: u64,
    events: BinaryHeap<Reverse<(u64, u64, bool)>>,
    flights: HashMap<u64, (usize, Reservation, Option<Reply>)>,
    waiter_ids: HashMap<WaiterId, usize>,
}

impl World {
    fn new(places: Vec<Place>) -> Self {
        Self {
            tracker: Tracker::new(Profile::discord()),
            server: Discord::new(places, 0, 1),
            now: START,
            serial: 0,
            events: BinaryHeap::new(),
            flights: HashMap::new(),
            waiter_ids: HashMap::new(),
        }
    }

    fn join(&mut self, place: usize) -> WaiterId {
        let (method, path) = self.server.request(place);
        let now = Moment::from_nanos(self.now);
        let waiter_id = self.tracker.join(&Request::new(method, &path), Moment::MAX, now);
        let waiter_id = waiter_id.expect("there is room");
        self.waiter_ids.insert(waiter_id, place);
        waiter_id
    }

    /// What somebody is told who asks and does not wait.
    fn ask(&mut self, place: usize) -> Option<Limited> {
        let (method, path) = self.server.request(place);
        let now = Moment::from_nanos(self.now);
        match self.tracker.reserve(&Request::new(method, &path), now) {
            Verdict::Clear(reservation) => {
                self.tracker.give_back(reservation, now);
                None
            }
            Verdict::Limited(limited) => Some(limited),
        }
    }

    /// Lets time pass until a moment, or until somebody's turn has come; when that was.
    fn run(&mut self, until: u64, whose: Option<WaiterId>) -> Option<u64> {
        loop {
            while let Some((waiter_id, reservation)) =
                self.tracker.release(Moment::from_nanos(self.now))
            {
                let place = self.waiter_ids.remove(&waiter_id).expect("it waited");
                self.serial += 1;
                self.flights.insert(self.serial, (place, reservation, None));
                self.events.push(Reverse((self.now + WAY, self.serial, true)));
                if whose == Some(waiter_id) {
                    return Some(self.now);
                }
            }
            let wake = self.tracker.next_wake().map_or(u64::MAX, Moment::as_nanos);
            let event = self.events.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            if wake.min(event) > until {
                self.now = until;
                return None;
            }
            if event <= wake {
                self.step();
            } else {
                self.now = wake.max(self.now + 1);
            }
        }
    }

    fn step(&mut self) {
        let Some(Reverse((at, flight, is_arrival))) = self.events.pop() else { return };
        self.now = at;
        if is_arrival {
            let flying = self.flights.get_mut(&flight).expect("it is under way");
            flying.2 = Some(self.server.receive(flying.0, at));
            self.events.push(Reverse((at + WAY, flight, false)));
            return;
        }
        let (_, reservation, reply) = self.flights.remove(&flight).expect("it is under way");
        let reply = reply.expect("it was answered");
        let fields = reply.fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let response = Response { status: reply.status, fields, body: Some(reply.body.as_bytes()) };
        self.tracker.track(reservation, response, Moment::from_nanos(at));
    }
}

/// Places that are known, and a crowd before them.
fn crowd(seed: u64) -> (World, Random) {
    let mut random = Random::new(seed);
    let count = random.between(1, 40);
    let places = (0..count).map(|n| match random.below(5) {
        0 => Place::new(Kind::Free, n, u64::MAX, SECOND),
        1 => Place::new(Kind::Interaction, n, random.between(1, 5), random.between(1, 5) * SECOND),
        _ => Place::new(Kind::Messages, n, random.between(1, 20), random.between(1, 8) * SECOND),
    });
    let places: Vec<_> = places.collect();
    let mut world = World::new(places);
    // Round trips have to be known, too.
    while world.serial < 64 {
        for place in 0..world.server.places().len() {
            world.join(place);
        }
        world.run(world.now + 8 * SECOND, None);
    }
    world.run(world.now + 60 * SECOND, None);
    for _ in 0..random.log_between(1, 600) {
        let place = random.index(world.server.places().len());
        world.join(place);
        if random.chance(1, 20) {
            let until = world.now + random.below(SECOND / 10);
            world.run(until, None);
        }
    }
    let until = world.now + random.below(3 * SECOND);
    world.run(until, None);
    (world, random)
}

/// How far from the truth something is that somebody was told, in nanoseconds.
struct Off {
    by: u64,
    /// How many windows of its bucket somebody waited for: a round trip of doubt for each.
    windows: u64,
}

impl Off {
    fn new(told: Moment, truth: u64, place: &Place, now: u64) -> Self {
        let windows = truth.saturating_sub(now) / place.window + 1;
        Self { by: told.as_nanos().abs_diff(truth), windows }
    }

    fn is_by_more_than(&self, error: u64) -> bool {
        self.by > error + self.windows * ROUND_TRIP
    }
}

/// Of the worlds in which somebody has to wait, how far off each is; with what it was told.
fn all(mut truth: impl FnMut(&mut World, usize, &Limited) -> u64) -> Vec<(u64, Off, Limited)> {
    let each = |seed| {
        let (mut world, mut random) = crowd(seed);
        let place = random.index(world.server.places().len());
        let (now, told) = (world.now, world.ask(place)?);
        let truth = truth(&mut world, place, &told);
        let off = Off::new(told.retry_at, truth, &world.server.places()[place], now);
        Some((seed, off, told))
    };
    (0..WORLDS).filter_map(each).collect()
}

fn assert_right(all: &[(u64, Off, Limited)]) {
    for (seed, off, told) in all {
        assert!(!off.is_by_more_than(ERROR_MAX), "off by {} ns in {seed}: {told:?}", off.by);
    }
    let wrong = all.iter().filter(|(_, off, _)| off.is_by_more_than(ERROR)).count();
    println!("{wrong} of {} are off by more than usual", all.len());
    assert!(all.len() as u64 > WORLDS / 4, "hardly anybody had to wait");
    assert!(wrong * 100 <= all.len() * 3, "{wrong} of {}", all.len());
}

#[test]
fn it_is_told_when_it_would_be_the_turn_of_who_joins_no_sooner_and_no_later() {
    assert_right(&all(|world, place, _| {
        let waiter_id = world.join(place);
        world.run(u64::MAX - 1, Some(waiter_id)).expect("its turn comes")
    }));
}

#[test]
fn who_comes_when_it_was_told_to_hardly_waits() {
    let all = all(|world, place, told| {
        world.run(told.retry_at.as_nanos(), None);
        world.ask(place).map_or(told.retry_at, |told| told.retry_at).as_nanos()
    });
    assert_right(&all);
}

#[test]
fn who_is_refused_for_its_deadline_is_told_the_same_as_who_only_asks() {
    for seed in 0..WORLDS / 10 {
        let (mut world, mut random) = crowd(seed);
        let place = random.index(world.server.places().len());
        let Some(told) = world.ask(place) else { continue };
        let (method, path) = world.server.request(place);
        let now = Moment::from_nanos(world.now);
        let before = told.retry_at.before(Nanos::new(1));
        let request = Request::new(method, &path);
        let refused = world.tracker.join(&request, before, now).expect_err("it is too late");
        assert_eq!((refused.reason, refused.retry_at), (Reason::Deadline, told.retry_at));
        assert!(world.tracker.join(&request, told.retry_at, now).is_ok(), "it is in time");
    }
}
