//! Callers, a network and a server in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ratekeeper_testkit::discord::{Discord, Network, Reply};
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::Moment;
use ratekeeper_tracker::{Profile, Request, Reservation, Response, Tracker, Verdict, WaiterId};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// What a task does, over and over.
#[derive(Clone, Debug)]
pub(crate) enum Habit {
    /// Goes from one of its places to the next, sends what may be sent, and sleeps when nothing
    /// may.
    Asks(Vec<usize>),
    /// Picks one of its places and waits in line.
    Waits(Vec<usize>),
}

pub(crate) struct World {
    pub(crate) tracker: Tracker,
    pub(crate) server: Discord,
    network: Network,
    tasks: Vec<Habit>,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
    flights: HashMap<u64, Flight>,
    waiter_ids: HashMap<WaiterId, (usize, usize)>,
    wake: Option<u64>,
    /// Until when a refusal that was heard stops each place.
    stopped: Vec<u64>,
    /// How often each place was asked for successfully.
    pub(crate) served: Vec<u64>,
    /// From when on `served` counts.
    pub(crate) count_from: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(u64),
    Answer(u64),
    Work(usize),
    Release,
}

struct Flight {
    task: usize,
    place: usize,
    reservation: Reservation,
    reply: Option<Reply>,
}

impl World {
    pub(crate) fn new(server: Discord, network: Network, tasks: Vec<Habit>, seed: u64) -> Self {
        let counts = vec![0; server.places().len()];
        let mut new = Self {
            tracker: Tracker::new(Profile::discord()),
            server,
            network,
            random: Random::new(seed),
            events: BinaryHeap::new(),
            serial: 0,
            flights: HashMap::new(),
            waiter_ids: HashMap::new(),
            wake: None,
            stopped: counts.clone(),
            served: counts,
            count_from: 0,
            tasks,
        };
        for task in 0..new.tasks.len() {
            let at = START + new.random.below(SECOND);
            new.after(at, Event::Work(task));
        }
        new
    }

    /// Lets time pass until `secs` after the start.
    pub(crate) fn run(&mut self, secs: u64) {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > START + secs * SECOND {
                break;
            }
            self.events.pop();
            match event {
                Event::Work(task) => self.work(task, at),
                Event::Arrive(flight) => self.arrive(flight, at),
                Event::Answer(flight) => self.answer(flight, at),
                // Others may have been set for earlier moments since.
                Event::Release => self.wake = self.wake.filter(|&wake| wake > at),
            }
            self.release(at);
        }
    }

    fn after(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, event)));
    }

    fn work(&mut self, task: usize, at: u64) {
        let now = Moment::from_nanos(at);
        match self.tasks[task].clone() {
            Habit::Waits(places) => {
                let place = self.random.pick(&places);
                let (method, path) = self.server.request(place);
                let request = Request::new(method, &path);
                let waiter_id =
                    self.tracker.join(&request, Moment::MAX, now).expect("there is room");
                self.waiter_ids.insert(waiter_id, (task, place));
            }
            Habit::Asks(places) => {
                let mut earliest = u64::MAX;
                for (index, &place) in places.iter().enumerate() {
                    let (method, path) = self.server.request(place);
                    match self.tracker.reserve(&Request::new(method, &path), now) {
                        Verdict::Clear(reservation) => {
                            // The next time it begins with another.
                            let Habit::Asks(places) = &mut self.tasks[task] else { return };
                            places.rotate_left(index + 1);
                            return self.send(task, place, reservation, at);
                        }
                        Verdict::Limited(limited) => {
                            assert!(limited.retry_at > now, "{limited:?}");
                            earliest = earliest.min(limited.retry_at.as_nanos());
                        }
                    }
                }
                self.after(earliest, Event::Work(task));
            }
        }
    }

    fn send(&mut self, task: usize, place: usize, reservation: Reservation, at: u64) {
        assert!(at >= self.stopped[place], "sent while {place} was told to wait");
        self.serial += 1;
        let flight = self.serial;
        self.flights.insert(flight, Flight { task, place, reservation, reply: None });
        let arrival = at + self.network.out();
        self.after(arrival, Event::Arrive(flight));
    }

    fn arrive(&mut self, flight: u64, at: u64) {
        let flying = self.flights.get_mut(&flight).expect("it is under way");
        flying.reply = Some(self.server.receive(flying.place, at));
        let back = at + self.network.back();
        self.after(back, Event::Answer(flight));
    }

    fn answer(&mut self, flight: u64, at: u64) {
        let Flight { task, place, reservation, reply } =
            self.flights.remove(&flight).expect("it is");
        let reply = reply.expect("it was answered");
        let fields = reply.fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let body = Some(reply.body.as_bytes());
        if reply.status == 429 {
            let wait = reply.fields.iter().find(|(name, _)| *name == "retry-after");
            let wait = wait.and_then(|(_, secs)| secs.parse::<u64>().ok()).expect("it says so");
            self.stopped[place] = at + wait * SECOND;
        }
        let response = Response { status: reply.status, fields, body };
        self.tracker.track(reservation, response, Moment::from_nanos(at));
        if reply.status == 200 && at >= self.count_from {
            self.served[place] += 1;
        }
        self.after(at, Event::Work(task));
    }

    fn release(&mut self, at: u64) {
        let now = Moment::from_nanos(at);
        while let Some((waiter_id, reservation)) = self.tracker.release(now) {
            let (task, place) = self.waiter_ids.remove(&waiter_id).expect("it waited");
            self.send(task, place, reservation, at);
        }
        let Some(wake) = self.tracker.next_wake().map(Moment::as_nanos) else { return };
        assert!(wake > at, "nobody may go now, and yet it says now");
        if self.wake.is_none_or(|known| wake < known) {
            self.wake = Some(wake);
            self.after(wake, Event::Release);
        }
    }
}

/// Some time in 2026, so that identifiers are younger than it.
pub(crate) const START: u64 = 1_790_000_000 * SECOND;
