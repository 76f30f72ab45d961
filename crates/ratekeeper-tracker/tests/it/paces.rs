//! Limits that no answer tells: several paces at a time, some of which count only some requests or
//! count points, and how many requests may be in flight at once.
#![allow(clippy::cast_precision_loss, reason = "an API in a test counts far below 2^52")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::headers::Unit;
use ratekeeper_tracker::profile::{Pace, Paces, Profile};
use ratekeeper_tracker::{Gate, Moment, Nanos, Reason, Refused, Request, Strategy};
use simulation::{Answer, Api, Call, Callers, Tally};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const GRAPHQL: &str = "/graphql";

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// In any stretch of time.
    Sliding,
    /// In windows of its clock.
    Fixed,
}

/// So many points in a window.
struct Limit {
    kind: Kind,
    most: u64,
    window: u64,
    counted: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Limit {
    fn new(kind: Kind, most: u64, window: u64) -> Self {
        Self { kind, most, window, counted: VecDeque::new(), sum: 0 }
    }

    fn has_room(&mut self, points: u64, now: u64) -> bool {
        while let Some(&(at, points)) = self.counted.front() {
            let is_over = match self.kind {
                Kind::Sliding => at + self.window <= now,
                Kind::Fixed => at / self.window < now / self.window,
            };
            if !is_over {
                break;
            }
            self.sum -= points;
            self.counted.pop_front();
        }
        self.sum + points <= self.most
    }

    fn count(&mut self, points: u64, now: u64) {
        self.sum += points;
        self.counted.push_back((now, points));
    }
}

/// GitHub's primary limits, which are told, and its secondary ones, which are not.
struct GitHub {
    at_once: u64,
    rest: Limit,
    graphql: Limit,
    content: Limit,
    content_of_an_hour: Limit,
    primary: Limit,
    primary_graphql: Limit,
    in_flight: u64,
    most_in_flight: u64,
    points: u64,
    contents: u64,
    /// For how long requests were worked on, all together.
    worked: Duration,
    /// In milliseconds.
    took: (u64, u64),
    random: Random,
}

impl GitHub {
    fn new(kind: Kind, took: (u64, u64)) -> Self {
        Self {
            at_once: 100,
            rest: Limit::new(kind, 900, MINUTE),
            graphql: Limit::new(kind, 2_000, MINUTE),
            content: Limit::new(kind, 80, MINUTE),
            content_of_an_hour: Limit::new(kind, 500, HOUR),
            primary: Limit::new(Kind::Fixed, 100_000, HOUR),
            primary_graphql: Limit::new(Kind::Fixed, 100_000, HOUR),
            in_flight: 0,
            most_in_flight: 0,
            points: 0,
            contents: 0,
            worked: Duration::ZERO,
            took,
            random: Random::new(3),
        }
    }

    /// With as many requests and points an hour as a user has.
    fn of_a_user(kind: Kind, took: (u64, u64)) -> Self {
        let primary = || Limit::new(Kind::Fixed, 5_000, HOUR);
        Self { primary: primary(), primary_graphql: primary(), ..Self::new(kind, took) }
    }
}

/// The points of a request and whether it generates content, by the documentation. What GraphQL
/// does is only in the body.
fn counted(call: &Call) -> (u64, u64) {
    match call.method {
        _ if call.path == GRAPHQL => (call.takes.max(1), 0),
        "GET" | "HEAD" | "OPTIONS" => (1, 0),
        "DELETE" => (5, 0),
        _ => (5, 1),
    }
}

impl Api for GitHub {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        let now = now.as_nanos();
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        let (points, content) = counted(call);
        let (minute, primary, resource) = if call.path == GRAPHQL {
            (&mut self.graphql, &mut self.primary_graphql, "graphql")
        } else {
            (&mut self.rest, &mut self.primary, "core")
        };
        let has_primary = primary.has_room(1, now);
        let fits = self.in_flight <= self.at_once
            && minute.has_room(points, now)
            && self.content.has_room(content, now)
            && self.content_of_an_hour.has_room(content, now)
            && has_primary;
        let took = Duration::from_millis(self.random.between(self.took.0, self.took.1));
        if fits {
            minute.count(points, now);
            self.content.count(content, now);
            self.content_of_an_hour.count(content, now);
            primary.count(1, now);
            self.points += points;
            self.contents += content;
            self.worked += took;
        }
        let left = primary.most - primary.sum;
        let mut fields = vec![
            ("x-ratelimit-limit", primary.most.to_string()),
            ("x-ratelimit-remaining", left.to_string()),
            ("x-ratelimit-reset", ((now / HOUR + 1) * 3_600).to_string()),
            ("x-ratelimit-resource", resource.to_owned()),
        ];
        if fits {
            return Answer { status: 200, fields, took, ..Answer::default() };
        }
        let took = Duration::from_millis(50);
        if !has_primary {
            let body = "API rate limit exceeded".to_owned();
            return Answer { status: 403, fields, body, took };
        }
        fields.push(("retry-after", "60".to_owned()));
        let body = "You have exceeded a secondary rate limit.".to_owned();
        Answer { status: 403, fields, body, took }
    }

    fn finish(&mut self, _: &Call, _: Moment) {
        self.in_flight -= 1;
    }
}

/// An API that several groups of callers share.
#[derive(Clone)]
struct Shared(Arc<Mutex<GitHub>>);

impl Api for Shared {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        self.0.lock().receive(call, now)
    }

    fn finish(&mut self, call: &Call, now: Moment) {
        self.0.lock().finish(call, now);
    }
}

fn gate(profile: Profile) -> Gate {
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_secs(1_000_000) };
    Gate::starting_at(profile, simulation::start()).with(strategy)
}

/// One request in `of` writes.
fn mixed(of: u64) -> impl Fn(&mut Random) -> Call + Clone + Send + 'static {
    move |random| {
        let path = format!("/repos/a/{}/issues", random.below(1_000));
        let method = if of > 0 && random.chance(1, of) { "POST" } else { "GET" };
        Call { method, ..Call::get(path) }
    }
}

async fn run(api: GitHub, tasks: usize, minutes: u64, writes: u64) -> (Tally, GitHub) {
    let what = format!("1 in {writes} writes");
    let (tally, api) = run_calls(api, tasks, minutes, &what, mixed(writes)).await;
    assert_eq!(tally.refused, 0);
    (tally, api)
}

async fn run_calls(
    api: GitHub,
    tasks: usize,
    minutes: u64,
    what: &str,
    next: impl Fn(&mut Random) -> Call + Clone + Send + 'static,
) -> (Tally, GitHub) {
    let kind = api.rest.kind;
    let took = api.took;
    let during = Duration::from_secs(60 * minutes);
    let callers = Callers { tasks, ..Callers::usual(during) };
    let (tally, api) = callers.run(&gate(Profile::github()), api, next).await;
    println!(
        "{kind:?}, {tasks} callers for {minutes} min, {what}, answers in {took:?} ms: \
         served {}, refused {}, points {}, contents {}, most at once {}, {:.1} at once",
        tally.served,
        tally.refused,
        api.points,
        api.contents,
        api.most_in_flight,
        api.worked.as_secs_f64() / during.as_secs_f64(),
    );
    (tally, api)
}

#[track_caller]
fn assert_used(what: &str, used: f64, permitted: f64, share: f64) {
    println!("  {what}: {:.3} of what is permitted", used / permitted);
    assert!(used >= share * permitted, "{what}: {used} of {permitted}");
}

#[tokio::test(start_paused = true)]
async fn points_of_a_minute_are_used_and_kept() {
    for kind in [Kind::Sliding, Kind::Fixed] {
        for (tasks, took) in [(40, (50, 200)), (200, (500, 3_000))] {
            let (_, api) = run(GitHub::new(kind, took), tasks, 30, 0).await;
            assert_used("points", api.points as f64, 900.0 * 30.0, 0.9);
        }
    }
}

/// It is shut after some minutes until the hour is over, which is told in whole seconds.
#[tokio::test(start_paused = true)]
async fn the_primary_limit_of_a_user_is_used_and_kept() {
    for kind in [Kind::Sliding, Kind::Fixed] {
        for (tasks, took) in [(40, (50, 200)), (200, (500, 3_000))] {
            let (tally, _) = run(GitHub::of_a_user(kind, took), tasks, 130, 0).await;
            // The third hour has begun more than ten minutes before the end.
            assert_used("requests", tally.served as f64, 3.0 * 5_000.0, 0.9);
        }
    }
}

/// What deletes something has five points, and generates no content.
#[tokio::test(start_paused = true)]
async fn what_deletes_counts_as_five_points_and_as_no_content() {
    let next = |random: &mut Random| {
        let method = if random.chance(1, 2) { "DELETE" } else { "GET" };
        Call { method, ..mixed(0)(random) }
    };
    let api = GitHub::new(Kind::Sliding, (50, 200));
    let (tally, api) = run_calls(api, 40, 30, "1 in 2 deletes", next).await;
    assert_eq!((tally.refused, api.contents), (0, 0));
    assert_used("points", api.points as f64, 900.0 * 30.0, 0.9);
}

/// One request in so many is a mutation, of five points that only its body shows.
fn graphql(mutations: u64) -> impl Fn(&mut Random) -> Call + Clone + Send + 'static {
    move |random| {
        let takes = if mutations > 0 && random.chance(1, mutations) { 5 } else { 1 };
        Call { method: "POST", path: GRAPHQL.to_owned(), takes, ..Call::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn graphql_has_points_and_a_primary_limit_of_its_own() {
    let api = GitHub::new(Kind::Sliding, (50, 200));
    let (tally, api) = run_calls(api, 40, 30, "queries", graphql(0)).await;
    assert_eq!((tally.refused, api.contents), (0, 0));
    assert_used("points", api.points as f64, 2_000.0 * 30.0, 0.9);

    let next = |random: &mut Random| {
        if random.chance(1, 2) { graphql(0)(random) } else { mixed(0)(random) }
    };
    let api = GitHub::of_a_user(Kind::Sliding, (50, 200));
    let (tally, _) = run_calls(api, 40, 130, "1 in 2 is a query", next).await;
    assert_eq!(tally.refused, 0);
    assert_used("requests and queries", tally.served as f64, 3.0 * 10_000.0, 0.9);
}

/// The gate takes them for queries, so GitHub refuses some, and the gate learns from that.
#[tokio::test(start_paused = true)]
async fn graphql_mutations_are_refused_now_and_then() {
    let api = GitHub::new(Kind::Sliding, (50, 200));
    let (tally, api) = run_calls(api, 40, 60, "1 in 10 is a mutation", graphql(10)).await;
    assert_used("points", api.points as f64, 2_000.0 * 60.0, 0.7);
    assert!(tally.refused * 200 <= tally.served, "{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn as_many_are_in_flight_as_may_be_and_no_more() {
    for took in [(5_000, 15_000), (10_000, 40_000)] {
        let (_, api) = run(GitHub::new(Kind::Sliding, took), 200, 30, 0).await;
        let worked = api.worked.as_secs_f64();
        assert_used("at once", worked, 100.0 * 30.0 * 60.0, 0.9);
    }
}

#[tokio::test(start_paused = true)]
async fn what_generates_content_is_limited_by_the_minute_and_by_the_hour() {
    for (tasks, writes) in [(40, 2), (100, 4)] {
        let (_, api) = run(GitHub::new(Kind::Sliding, (100, 2_000)), tasks, 130, writes).await;
        // As many go in the first hour, in the second, and when the third begins.
        assert_used("contents", api.contents as f64, 3.0 * 500.0, 0.9);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_to_write_keeps_nobody_from_reading() {
    const MINUTES: u64 = 50;
    let during = Duration::from_secs(60 * MINUTES);
    let api = Shared(Arc::new(Mutex::new(GitHub::new(Kind::Sliding, (100, 1_000)))));
    let gate = gate(Profile::github());
    let readers = Callers { tasks: 60, ..Callers::usual(during) };
    let writers = Callers { tasks: 20, seed: 2, ..Callers::usual(during) };
    let post = |random: &mut Random| Call { method: "POST", ..mixed(0)(random) };
    let (read, timeout) = tokio::join!(
        readers.run(&gate, api.clone(), mixed(0)),
        tokio::time::timeout(during, writers.run(&gate, api.clone(), post))
    );
    assert!(timeout.is_err(), "they wait until the hour is over");
    assert_eq!(read.0.refused, 0);
    let api = api.0.lock();
    assert_used("contents", api.contents as f64, 500.0, 1.0);
    // While content is written it takes up to 400 of the 900 points.
    assert_used("points", api.points as f64, (900 * MINUTES) as f64, 0.9);
}

/// Uploads count for what they weigh; nothing else is counted by the second pace.
fn weight(request: &Request<'_>) -> u16 {
    match request.path {
        "/large" => 10,
        "/small" => 2,
        _ => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_limit_that_keeps_it_waiting() {
    const UPLOADS: Profile = Profile {
        name: "uploads",
        paces: Paces::new(&[
            Pace::new(100, Nanos::from_secs(1)),
            Pace::counting("weight", 25, Nanos::from_secs(60), weight),
        ]),
        at_once: Some(3),
        ..Profile::generic()
    };
    let gate = Gate::new(UPLOADS).with(Strategy::Error);
    let ask = async |path| gate.acquire(&Request::new("PUT", path)).await;
    let mut first = gate.acquire(&Request::new("GET", "/")).await.expect("nothing is known");
    first.sent();
    let no_fields: [(&str, &[u8]); 0] = [];
    first.track(ratekeeper_tracker::Response { status: 200, fields: no_fields, body: None });

    let held = [ask("/large").await.expect("10"), ask("/large").await.expect("20")];
    let why = |refused: Refused| match refused {
        Refused::Limited(it) => (it.policy.to_string(), it.unit, it.reason, it.limit),
        Refused::Closed => panic!("it is open"),
    };
    let heavy = why(ask("/large").await.expect_err("30"));
    assert_eq!(heavy, ("weight".to_owned(), Unit::Requests, Reason::Paced, Some(25)));
    let light = ask("/small").await.expect("22");
    let many = why(ask("/").await.expect_err("three are in flight"));
    assert_eq!(many, ("at once".to_owned(), Unit::Concurrent, Reason::Paced, Some(3)));
    let policies = gate.snapshot().states;
    let shown = |n: usize| (policies[n].policy.to_string(), policies[n].in_flight);
    assert_eq!((shown(1), shown(2)), (("weight".to_owned(), 22), ("at once".to_owned(), 3)));
    drop((held, light));
    drop(ask("/large").await.expect("all was given back"));
}
