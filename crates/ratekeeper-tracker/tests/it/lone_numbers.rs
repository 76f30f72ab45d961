//! APIs whose refusals have one number in the body and nothing else, in seconds or in milliseconds.

use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::profile::{Body, BodyUnit};
use ratekeeper_tracker::{Gate, Moment, Profile, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;
const HOUR: Duration = Duration::from_hours(1);
const LIMITED: &str = "/limited";
/// Counts for nothing, and is in the same bucket.
const FREE: &str = "/free";

/// What the number is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    /// The seconds or milliseconds that are left.
    Left,
    /// As much each time: the whole window.
    Window,
}

/// So many requests in a window that begins with the first.
struct Lone {
    limit: u32,
    window: u64,
    /// What the number counts, in nanoseconds.
    unit: u64,
    number: Number,
    /// Others use the limit up for so much of each window, in thousandths: then nobody is served.
    others: u64,
    random: Random,
    window_ends: u64,
    used: u32,
    refused: u64,
}

impl Lone {
    fn new(limit: u32, window: u64, unit: u64, number: Number) -> Self {
        let (random, window_ends, used, refused) = (Random::new(7), 0, 0, 0);
        Self { limit, window, unit, number, others: 0, random, window_ends, used, refused }
    }
}

impl Api for Lone {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        if call.path == FREE {
            return Answer { status: 200, ..Answer::default() };
        }
        let now = now.as_nanos();
        if now >= self.window_ends {
            self.window_ends = now + self.window;
            self.used = if self.random.chance(self.others, 1_000) { self.limit } else { 0 };
        }
        if self.used < self.limit {
            self.used += 1;
            return Answer { status: 200, ..Answer::default() };
        }
        self.refused += 1;
        let wait = match self.number {
            Number::Left => self.window_ends - now,
            Number::Window => self.window,
        };
        let body = format!(r#"{{"retry_after": {}}}"#, wait.div_ceil(self.unit));
        Answer { status: 429, body, ..Answer::default() }
    }
}

/// How many were refused and served in four hours. So many of four requests count for nothing.
async fn run(profile: Profile, api: Lone, tasks: usize, free: u64) -> (u64, u64) {
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_hours(24) };
    let gate = Gate::starting_at(profile, simulation::start()).with(strategy);
    let (number, limit, window, unit) = (api.number, api.limit, api.window, api.unit);
    let callers = Callers { tasks, ..Callers::usual(4 * HOUR) };
    let next =
        move |random: &mut Random| Call::get(if random.chance(free, 4) { FREE } else { LIMITED });
    let (tally, api) = callers.run(&gate, api, next).await;
    println!(
        "{:?}: {limit} in {:?}, {number:?} in units of {:?}, others in {} of 1000 windows, {free} of 4 \
         are free, {tasks} callers: refused {}, served {} in four hours",
        profile.body,
        Duration::from_nanos(window),
        Duration::from_nanos(unit),
        api.others,
        tally.refused,
        tally.served
    );
    (tally.refused, tally.served)
}

#[tokio::test(start_paused = true)]
async fn seconds_that_look_like_milliseconds_are_found_out_by_refusals() {
    let mut wrong = 0;
    for number in [Number::Left, Number::Window] {
        for window_secs in [3_600, 1_500, 150] {
            for tasks in [1, 40] {
                let api = Lone::new(5, window_secs * SECOND, SECOND, number);
                let (refused, served) = run(Profile::generic(), api, tasks, 0).await;
                // Those that go before the first refusal is heard, a few to find out, and one for
                // each window.
                let windows = 4 * 3_600 / window_secs;
                let is_right = refused <= 3 * tasks as u64 + 4 + windows && served >= 2 * windows;
                wrong += u32::from(!is_right);
            }
        }
    }
    assert_eq!(wrong, 0);
}

/// A request that was served after the wait shows nothing where others are still refused.
#[tokio::test(start_paused = true)]
async fn seconds_are_found_out_also_where_the_bucket_has_requests_that_are_always_served() {
    for tasks in [1, 40] {
        for free in [1, 3] {
            let api = Lone::new(5, 3_600 * SECOND, SECOND, Number::Left);
            let (refused, _) = run(Profile::generic(), api, tasks, free).await;
            assert!(refused <= 3 * tasks as u64 + 12, "{refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn milliseconds_stay_milliseconds_whatever_is_refused() {
    let mut wrong = 0;
    for number in [Number::Left, Number::Window] {
        for window_ms in [1_500, 3_600, 60_000] {
            for others in [0, 200] {
                let served = async |body| {
                    let window = window_ms * SECOND / 1_000;
                    let api = Lone { others, ..Lone::new(5, window, SECOND / 1_000, number) };
                    run(Profile { body, ..Profile::generic() }, api, 40, 0).await.1
                };
                let json = Body::Json { retry_after: BodyUnit::Milliseconds };
                // As many as if the profile said so.
                wrong += u32::from(served(Body::Any).await < served(json).await * 9 / 10);
            }
        }
    }
    assert_eq!(wrong, 0);
}
