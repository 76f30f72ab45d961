//! Language models: requests and tokens are limited apart, and both come back all the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ratekeeper_testkit::discord::Network;
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::Moment;
use ratekeeper_tracker::headers::Unit;
use ratekeeper_tracker::{
    Costs, Profile, Reason, Request, Reservation, Response, Tracker, Verdict,
};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const MINUTE: u64 = 60 * SECOND;

/// A budget as such servers have it: it fills up in a minute.
struct Bucket {
    limit: u64,
    /// What is missing, in parts of one that come back in a nanosecond.
    missing: u128,
    at: u64,
}

impl Bucket {
    fn new(limit: u64) -> Self {
        Self { limit, missing: 0, at: 0 }
    }

    fn take(&mut self, cost: u64, at: u64) -> bool {
        let back = u128::from(at - self.at) * u128::from(self.limit);
        self.missing = self.missing.saturating_sub(back);
        self.at = at;
        let missing = self.missing + u128::from(cost) * u128::from(MINUTE);
        let fits = missing <= u128::from(self.limit) * u128::from(MINUTE);
        if fits {
            self.missing = missing;
        }
        fits
    }

    fn left(&self) -> u64 {
        self.limit - u64::try_from(self.missing.div_ceil(u128::from(MINUTE))).unwrap_or(self.limit)
    }

    /// As `6m0s` or `120ms`.
    fn reset(&self) -> String {
        let millis = self.missing.div_ceil(u128::from(self.limit)).div_ceil(u128::from(MILLI));
        format!("{millis}ms")
    }
}

/// A status and the header fields.
type Reply = (u16, Vec<(&'static str, String)>);

struct Server {
    requests: Bucket,
    tokens: Bucket,
    refused: u64,
    tokens_served: u64,
    requests_served: u64,
}

impl Server {
    fn new(requests: u64, tokens: u64) -> Self {
        let (requests, tokens) = (Bucket::new(requests), Bucket::new(tokens));
        Self { requests, tokens, refused: 0, tokens_served: 0, requests_served: 0 }
    }

    fn receive(&mut self, tokens: u64, at: u64) -> Reply {
        let served = self.requests.take(1, at) && self.tokens.take(tokens, at);
        if served {
            self.tokens_served += tokens;
            self.requests_served += 1;
        } else {
            self.refused += 1;
        }
        let fields = vec![
            ("x-ratelimit-limit-requests", self.requests.limit.to_string()),
            ("x-ratelimit-limit-tokens", self.tokens.limit.to_string()),
            ("x-ratelimit-remaining-requests", self.requests.left().to_string()),
            ("x-ratelimit-remaining-tokens", self.tokens.left().to_string()),
            ("x-ratelimit-reset-requests", self.requests.reset()),
            ("x-ratelimit-reset-tokens", self.tokens.reset()),
        ];
        (if served { 200 } else { 429 }, fields)
    }
}

/// Half an hour of callers who always have something to ask; what the server counted.
fn half_an_hour(mut server: Server, tokens: (u64, u64)) -> Server {
    const WAITING: usize = 40;
    let mut random = Random::new(4);
    let mut network = Network::usual(5);
    (network.least, network.jitter) = (150 * MILLI, 400 * MILLI);
    let mut tracker = Tracker::new(Profile::openai());
    let mut events = BinaryHeap::new();
    let mut flights: Vec<Option<(Reservation, u64)>> = Vec::new();
    let mut replies: Vec<Option<Reply>> = Vec::new();
    let mut costs = std::collections::HashMap::new();
    let mut now = SECOND;
    while now < 30 * MINUTE {
        while costs.len() < WAITING {
            let tokens = random.between(tokens.0, tokens.1);
            let request = Request {
                group: "a-model",
                costs: Costs { tokens, ..Costs::default() },
                ..Request::new("POST", "/v1/chat/completions")
            };
            let waiter_id = tracker.join(&request, Moment::MAX, Moment::from_nanos(now));
            costs.insert(waiter_id.expect("there is room"), tokens);
        }
        while let Some((waiter_id, reservation)) = tracker.release(Moment::from_nanos(now)) {
            let tokens = costs.remove(&waiter_id).expect("it waited");
            events.push(Reverse((now + network.out(), true, flights.len())));
            flights.push(Some((reservation, tokens)));
            replies.push(None);
        }
        let wake = tracker.next_wake().map(Moment::as_nanos);
        let next = events.peek().map(|&Reverse((at, ..))| at);
        if wake.is_some_and(|wake| next.is_none_or(|next| wake < next)) {
            now = wake.unwrap_or(now).max(now + 1);
            continue;
        }
        let Some(Reverse((at, is_arrival, flight))) = events.pop() else { panic!("stuck") };
        now = at;
        if is_arrival {
            let tokens = flights[flight].as_ref().map_or(0, |(_, tokens)| *tokens);
            replies[flight] = Some(server.receive(tokens, now));
            events.push(Reverse((now + network.back(), false, flight)));
            continue;
        }
        let (Some((reservation, _)), Some((status, fields))) =
            (flights[flight].take(), replies[flight].take())
        else {
            panic!("it was sent and answered once")
        };
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let response = Response { status, fields, body: None };
        tracker.track(reservation, response, Moment::from_nanos(now));
    }
    server
}

#[test]
fn a_token_budget_that_refills_is_used_up_and_never_overdrawn() {
    let server = half_an_hour(Server::new(10_000, 90_000), (100, 4_000));
    assert_eq!(server.refused, 0);
    // It is full when it begins, which is another minute's worth.
    let used = server.tokens_served * 100 / (31 * 90_000);
    println!("{used} % of the tokens");
    assert!(used >= 95, "{used} %");
}

#[test]
fn a_request_budget_that_refills_is_used_up_and_never_overdrawn() {
    let server = half_an_hour(Server::new(500, 1_000_000_000), (100, 4_000));
    assert_eq!(server.refused, 0);
    let used = server.requests_served * 100 / (31 * 500);
    println!("{used} % of the requests");
    assert!(used >= 95, "{used} %");
}

#[test]
fn the_strictest_budget_is_named() {
    let mut tracker = Tracker::new(Profile::openai());
    let mut server = Server::new(500, 10_000);
    let ask = |tokens| Request {
        group: "a-model",
        costs: Costs { tokens, ..Costs::default() },
        ..Request::new("POST", "/v1/chat/completions")
    };
    let now = Moment::from_nanos(SECOND);
    let Verdict::Clear(reservation) = tracker.reserve(&ask(9_000), now) else { panic!("unknown") };
    let (status, fields) = server.receive(9_000, SECOND);
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    tracker.track(reservation, Response { status, fields, body: None }, now);

    let Verdict::Limited(limited) = tracker.reserve(&ask(2_000), now) else { panic!("too many") };
    assert_eq!((limited.reason, limited.unit), (Reason::Spent, Unit::Tokens));
    assert_eq!((limited.limit, limited.remaining), (Some(10_000), Some(1_000)));
    // A thousand tokens come back in six seconds.
    assert_eq!(limited.retry_in.to_string(), "6s");
    let Verdict::Clear(held) = tracker.reserve(&ask(1_000), now) else { panic!("it fits") };
    // What is held by a request in flight is not there twice.
    assert!(matches!(tracker.reserve(&ask(1), now), Verdict::Limited(_)));
    tracker.give_back(held, now);
    // More than there ever is waits for all of it, and then hears from the server.
    let Verdict::Limited(limited) = tracker.reserve(&ask(50_000), now) else { panic!("too many") };
    assert_eq!(limited.retry_in.to_string(), "54s");
}

#[test]
fn what_is_spent_is_waited_for_also_where_nobody_says_how_much_there_is() {
    let mut tracker = Tracker::new(Profile::openai());
    let request = Request::new("POST", "/v1/chat/completions");
    let at = |secs| Moment::from_nanos(secs * SECOND);
    let Verdict::Clear(reservation) = tracker.reserve(&request, at(1)) else { panic!("unknown") };
    let fields: [(&str, &[u8]); 2] =
        [("x-ratelimit-remaining-requests", b"0"), ("x-ratelimit-reset-requests", b"6m0s")];
    tracker.track(reservation, Response { status: 200, fields, body: None }, at(1));
    let Verdict::Limited(limited) = tracker.reserve(&request, at(2)) else { panic!("spent") };
    assert_eq!((limited.reason, limited.retry_at), (Reason::Spent, at(361)));
    assert!(matches!(tracker.reserve(&request, at(361)), Verdict::Clear(_)));
}
