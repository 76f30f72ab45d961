//! Servers that say when there is more, as the IETF's draft has it: a Ratekeeper server, whose budget
//! comes back token by token, and one whose budget comes back all at once. Nobody can tell them
//! apart by what they say, so both are obeyed by who knows nothing of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Limiter, Moment, Nanos};
use ratekeeper_testkit::discord::Network;
use ratekeeper_tracker::headers::format::{self, Policy};
use ratekeeper_tracker::profile::Refill;
use ratekeeper_tracker::{Profile, Request, Reservation, Response, Tracker};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const START: u64 = 1_790_000_000 * SECOND;
const TEN_MINUTES: u64 = 600 * SECOND;
/// Somebody always waits.
const WAITING: usize = 40;
/// How many there are, and how many milliseconds each takes to come back.
const TERMS: [(u64, u64); 5] = [(10, 1_000), (100, 600), (1, 5_000), (20, 3_000), (50, 20)];

/// A status and the header fields.
type Reply = (u16, Vec<(&'static str, String)>);

struct Server {
    burst: u64,
    step: u64,
    stock: Stock,
    served: u64,
    refused: u64,
}

enum Stock {
    Tokens(Box<Limiter>),
    Window { ends: u64, used: u64 },
}

impl Server {
    fn ratekeeper((burst, step_ms): (u64, u64)) -> Self {
        let text = format!("limit: {{ burst: {burst}, count: 1, period: {step_ms}ms }}");
        let limits = Limits::parse(&Source { name: "limits.yaml", text: &text }, None);
        let limiter = Limiter::with_memory(limits.expect("it is right"), 4 << 20);
        Self::new((burst, step_ms), Stock::Tokens(Box::new(limiter.expect("there is room"))))
    }

    fn windows(terms: (u64, u64)) -> Self {
        Self::new(terms, Stock::Window { ends: 0, used: 0 })
    }

    fn new((burst, step_ms): (u64, u64), stock: Stock) -> Self {
        Self { burst, step: step_ms * MILLI, stock, served: 0, refused: 0 }
    }

    fn receive(&mut self, at: u64) -> Reply {
        let (allowed, left, more_in) = self.count(at);
        *if allowed { &mut self.served } else { &mut self.refused } += 1;
        let retry_after = (!allowed).then(|| format::retry_after_secs(more_in));
        let window = Nanos::new(u128::from(self.burst) * u128::from(self.step));
        let (quota, remaining) = (self.burst, left);
        let policy = Policy { name: "limit", quota, window, remaining, more_in };
        let lists = format::lists([policy], retry_after);
        let mut fields =
            vec![(format::RATELIMIT, lists.states), (format::RATELIMIT_POLICY, lists.policies)];
        fields.extend(retry_after.map(|secs| ("retry-after", secs.to_string())));
        (if allowed { 200 } else { 429 }, fields)
    }

    /// Whether it is served, how many are left, and when there is more.
    fn count(&mut self, at: u64) -> (bool, u64, Nanos) {
        match &mut self.stock {
            Stock::Tokens(limiter) => {
                let now = Moment::from_nanos(at);
                let decision = limiter.spend("limit", "all", 1, now).expect("it is known");
                let others = u128::from((self.burst - decision.remaining).max(1) - 1);
                let next = decision.reset_in.get() - others * u128::from(self.step);
                (decision.allowed, decision.remaining, decision.retry_in.max(Nanos::new(next)))
            }
            Stock::Window { ends, used } => {
                if at >= *ends {
                    (*ends, *used) = (at + self.burst * self.step, 0);
                }
                let allowed = *used < self.burst;
                *used += u64::from(allowed);
                (allowed, self.burst - *used, Nanos::new((*ends - at).into()))
            }
        }
    }
}

/// Ten minutes of callers who always have something to ask; what the server counted.
fn ten_minutes(mut server: Server, profile: Profile) -> Server {
    let mut network = Network::usual(5);
    let mut tracker = Tracker::new(profile);
    let mut events = BinaryHeap::new();
    let mut flights: Vec<(Option<Reservation>, Reply)> = Vec::new();
    let (mut now, mut waiting) = (START, 0);
    while now < START + TEN_MINUTES {
        let moment = Moment::from_nanos(now);
        for _ in waiting..WAITING {
            let waiter_id = tracker.join(&Request::new("GET", "/things"), Moment::MAX, moment);
            waiter_id.expect("there is room");
        }
        waiting = WAITING;
        while let Some((_, reservation)) = tracker.release(moment) {
            waiting -= 1;
            events.push(Reverse((now + network.out(), true, flights.len())));
            flights.push((Some(reservation), Reply::default()));
        }
        let wake = tracker.next_wake().map_or(u64::MAX, Moment::as_nanos);
        if events.peek().is_none_or(|Reverse((at, ..))| wake < *at) {
            now = wake.max(now + 1);
            continue;
        }
        let Some(Reverse((at, is_arrival, flight))) = events.pop() else { panic!("stuck") };
        now = at;
        if is_arrival {
            flights[flight].1 = server.receive(now);
            events.push(Reverse((now + network.back(), false, flight)));
            continue;
        }
        let (reservation, (status, fields)) = std::mem::take(&mut flights[flight]);
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let response = Response { status, fields, body: None };
        tracker.track(reservation.expect("it is answered once"), response, Moment::from_nanos(now));
    }
    server
}

#[test]
fn tokens_that_come_back_one_by_one_are_used_up_and_never_overdrawn() {
    let little_by_little = Profile { refill: Refill::Continuously, ..Profile::generic() };
    for terms in TERMS {
        for profile in [Profile::generic(), little_by_little] {
            let server = ten_minutes(Server::ratekeeper(terms), profile);
            assert_eq!(server.refused, 0, "{terms:?} {:?}", profile.refill);
            let permitted = server.burst + TEN_MINUTES / server.step;
            // What comes back within a second is told of a second later.
            let percent = if server.step * server.burst > SECOND { 95 } else { 85 };
            println!("{terms:?} {:?}: {} of {permitted}", profile.refill, server.served);
            assert!(server.served * 100 >= permitted * percent, "{terms:?}: {}", server.served);
        }
    }
}

#[test]
fn a_window_that_comes_back_at_once_is_used_up_and_never_overdrawn() {
    for terms in TERMS {
        let server = ten_minutes(Server::windows(terms), Profile::generic());
        assert_eq!(server.refused, 0, "{terms:?}");
        // Each is a round trip or two later than it could be: with the first request it begins.
        let windows = TEN_MINUTES / (server.step * server.burst + 200 * MILLI);
        println!("{terms:?}: {} in {windows} windows", server.served);
        assert!(server.served >= windows * server.burst, "{terms:?}: {}", server.served);
    }
}
