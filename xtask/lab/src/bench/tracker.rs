//! Asking a tracker before a request and telling it of the response, beside one check by governor.
//!
//! Every round picks the routes that it will ask for, then lets each contender do the same work,
//! one after the other; medians over the rounds are shown, also of the ratios, each of one round.
//! A check by governor is what a caller would make for the same request: it looks up the same path
//! as a key. The tracker is told the
//! time; governor reads a clock inside, the system's, as [`ratekeeper::Clock`] does. What a check
//! takes with the clock that governor has by itself, which reads a counter of the processor, is
//! shown beside it.

use std::num::NonZeroU32;
use std::time::Instant;

use governor::clock::MonotonicClock;
use governor::{Quota, RateLimiter};
use ratekeeper::{Clock, Moment};
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::headers::{self, Said};
use ratekeeper_tracker::profile::Paces;
use ratekeeper_tracker::{Profile, Request, Response, Tracker, Verdict};

use super::Failure;

/// What may be asked of the tracker for one check by governor.
const RATIO_MAX: f64 = 3.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many routes, as a list
    #[arg(long, value_delimiter = ',', default_values_t = [200, 5_000])]
    routes: Vec<u64>,
    /// How many rounds of each measurement; medians are shown
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// How many requests a round times
    #[arg(long, default_value_t = 100_000)]
    requests: usize,
}

/// Of one round, in nanoseconds per request.
struct Times {
    own_clock: f64,
    governor: f64,
    limited: f64,
    both: f64,
    with_fields: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    println!("nanoseconds per request; ratio to one check by governor\n");
    println!(
        "{:>7} | {:>9} | {:>8} | {:>16} | {:>16} | {:>16} | {:>16}",
        "routes",
        "own clock",
        "governor",
        "limited, given",
        "limited + learn",
        "reading fields",
        "limited + track"
    );
    let mut worst = 0.0_f64;
    for &routes in &args.routes {
        let rounds = measure(args, routes)?;
        let [own_clock, governor] =
            [|it: &Times| it.own_clock, |it: &Times| it.governor].map(|of| median(&rounds, of));
        print!("{routes:>7} | {own_clock:>9.0} | {governor:>8.0}");
        let parts: [fn(&Times) -> f64; 4] =
            [|it| it.limited, |it| it.both, |it| it.with_fields - it.both, |it| it.with_fields];
        for part in parts {
            // A ratio is made in one round: whatever else the machine does then falls on both.
            let ratio = median(&rounds, |it| part(it) / it.governor);
            print!(" | {:>8.0} {ratio:>7.2}", median(&rounds, part));
        }
        println!();
        worst = worst.max(median(&rounds, |it| it.with_fields / it.governor));
    }
    if worst > RATIO_MAX {
        return Err(format!("it took {worst:.2} times as long as a check by governor").into());
    }
    Ok(())
}

fn measure(args: &Args, routes: u64) -> Result<Vec<Times>, Failure> {
    let burst = NonZeroU32::new(u32::MAX).ok_or("not zero")?;
    let own_clock = RateLimiter::dashmap(Quota::per_second(burst));
    let governor = RateLimiter::dashmap_with_clock(Quota::per_second(burst), MonotonicClock);
    let mut tracker = tracker();
    let clock = Clock::start();
    let paths: Vec<_> = (0..routes).map(path).collect();
    let said = headers::read(FIELDS.iter().copied(), clock.now());
    let mut random = Random::new(1);
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let picked: Vec<_> =
            (0..args.requests).map(|_| &paths[random.index(paths.len())]).collect();
        rounds.push(Times {
            own_clock: timed(&picked, |path| own_clock.check_key(path).is_ok()),
            governor: timed(&picked, |path| governor.check_key(path).is_ok()),
            limited: timed(&picked, |path| give_back(&mut tracker, path, clock.now())),
            both: timed(&picked, |path| learn(&mut tracker, path, &said, clock.now())),
            with_fields: timed(&picked, |path| track(&mut tracker, path, clock.now())),
        });
    }
    Ok(rounds)
}

fn median(rounds: &[Times], of: impl Fn(&Times) -> f64) -> f64 {
    let mut values: Vec<_> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Only the budget of the route is looked at, as by governor.
pub(crate) fn tracker() -> Tracker {
    Tracker::new(Profile { paces: Paces::NONE, ..Profile::discord() })
}

/// One of many routes, by its number.
pub(crate) fn path(number: u64) -> String {
    format!("/channels/{}/messages", 100_000_000_000_000_000 + number)
}

/// What Discord sends with a message, as far as it speaks of limits, and some that does not. Only
/// one request is in flight, so what is left lets every one of them permit.
static FIELDS: [(&str, &[u8]); 9] = [
    ("date", b"Mon, 16 Nov 2026 10:00:00 GMT"),
    ("content-type", b"application/json"),
    ("x-ratelimit-bucket", b"80c17d2f203122d936070c88c8d10f33"),
    ("x-ratelimit-limit", b"5"),
    ("x-ratelimit-remaining", b"4"),
    ("x-ratelimit-reset", b"1794823205.250"),
    ("x-ratelimit-reset-after", b"5.250"),
    ("via", b"1.1 google"),
    ("cf-cache-status", b"DYNAMIC"),
];

fn give_back(tracker: &mut Tracker, path: &str, now: Moment) -> bool {
    let Verdict::Clear(reservation) = tracker.reserve(&Request::new("POST", path), now) else {
        return false;
    };
    tracker.give_back(reservation, now);
    true
}

fn learn(tracker: &mut Tracker, path: &str, said: &Said<'_>, now: Moment) -> bool {
    let Verdict::Clear(reservation) = tracker.reserve(&Request::new("POST", path), now) else {
        return false;
    };
    tracker.learn(reservation, 200, said, None, now);
    true
}

/// Asks before a request and tells of the response. Returns whether it was clear.
pub(crate) fn track(tracker: &mut Tracker, path: &str, now: Moment) -> bool {
    let Verdict::Clear(reservation) = tracker.reserve(&Request::new("POST", path), now) else {
        return false;
    };
    tracker.track(
        reservation,
        Response { status: 200, fields: FIELDS.iter().copied(), body: None },
        now,
    );
    true
}

/// Nanoseconds per request. Each must be allowed, or it is something else that is timed.
#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
#[expect(clippy::cast_precision_loss, reason = "shown as whole nanoseconds")]
fn timed(paths: &[&String], mut work: impl FnMut(&String) -> bool) -> f64 {
    let (warm_up, paths) = paths.split_at(paths.len() / 2);
    let mut allowed = warm_up.iter().filter(|path| work(path)).count();
    let begin = Instant::now();
    allowed += paths.iter().filter(|path| work(path)).count();
    let took = begin.elapsed();
    assert_eq!(allowed, warm_up.len() + paths.len(), "a request was denied");
    took.as_nanos() as f64 / paths.len() as f64
}
