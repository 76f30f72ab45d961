//! APIs that tell the same in different ways: whole seconds or decimals, milliseconds or seconds.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "of a simulation"
)]

use std::collections::HashMap;
use std::time::Duration;

use ratekeeper_tracker::{Gate, Moment, Profile, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;
/// The first moment of 2026.
const NEW_YEAR: u64 = 1_767_225_600 * SECOND;
const MILLI: u64 = 1_000_000;

/// When windows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    WithFirst,
    ByTheClock,
}

/// How the end of a window is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Down,
    Up,
    Nearest,
    /// As Discord tells it today: lengths with three decimals, and bodies in seconds.
    Decimals,
    /// A length in whole seconds besides the point, rounded up.
    BothUp,
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    begins: Begins,
    told: Told,
    limit: u64,
    window: u64,
    routes: u64,
    /// Whether there is a `Date`, and by how much the server's clock is ahead.
    date: bool,
    ahead_ms: i64,
    seed: u64,
}

const USUAL: Terms = Terms {
    begins: Begins::WithFirst,
    told: Told::Down,
    limit: 5,
    window: 5 * SECOND,
    routes: 1,
    date: true,
    ahead_ms: 0,
    seed: 1,
};

struct Server {
    terms: Terms,
    /// When the window of each route ends, and what was taken of it.
    windows: HashMap<String, (u64, u64)>,
    refused_at: Vec<u64>,
    /// How many were served in the time that counts.
    served: u64,
    start: u64,
    end: u64,
}

impl Api for Server {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        let Terms { begins, told, limit, window, .. } = self.terms;
        let ours = now.as_nanos();
        // With dates, the server's clock is always the same, whatever ours is.
        let theirs = if self.terms.date { NEW_YEAR + ours - self.start } else { ours };
        let now = theirs.saturating_add_signed(self.terms.ahead_ms * MILLI as i64);
        let (end, used) = self.windows.entry(call.path.clone()).or_default();
        if now >= *end {
            let began = if begins == Begins::WithFirst { now } else { now - now % window };
            (*end, *used) = (began + window, 0);
        }
        let fits = *used < limit;
        *used += u64::from(fits);
        let left = *end - now;
        let secs = match told {
            Told::Down => *end / SECOND,
            Told::Up | Told::BothUp => end.div_ceil(SECOND),
            Told::Nearest | Told::Decimals => (*end + SECOND / 2) / SECOND,
        };
        let mut fields = vec![
            ("x-ratelimit-limit", limit.to_string()),
            ("x-ratelimit-remaining", (limit - *used).to_string()),
        ];
        if self.terms.date {
            let date = std::time::UNIX_EPOCH + Duration::from_secs(now / SECOND);
            fields.push(("date", httpdate::fmt_http_date(date)));
        }
        let wait = if told == Told::Decimals {
            fields.push(("x-ratelimit-reset-after", thousandths(left)));
            fields.push(("x-ratelimit-reset", thousandths(*end)));
            thousandths(left)
        } else {
            if told == Told::BothUp {
                fields.push(("x-ratelimit-reset-after", left.div_ceil(SECOND).to_string()));
            }
            fields.push(("x-ratelimit-reset", secs.to_string()));
            left.div_ceil(MILLI).to_string()
        };
        if fits {
            self.served += u64::from(ours < self.end);
            return Answer { status: 200, fields, ..Answer::default() };
        }
        self.refused_at.push((ours - self.start) / MILLI);
        if told == Told::Decimals {
            fields.push(("retry-after", left.div_ceil(SECOND).to_string()));
        }
        let body = format!(r#"{{"message": "slow", "retry_after": {wait}, "global": false}}"#);
        Answer { status: 429, fields, body, ..Answer::default() }
    }
}

fn thousandths(nanos: u64) -> String {
    format!("{}.{:03}", nanos / SECOND, nanos % SECOND / MILLI)
}

/// How many requests were refused, and the share of what is permitted that was used.
async fn run(profile: Profile, terms: Terms, secs: u64) -> (u64, f64) {
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_hours(24) };
    let gate = Gate::starting_at(profile, simulation::start()).with(strategy);
    let start = gate.now().as_nanos();
    let end = start + secs * SECOND;
    let (windows, refused_at) = (HashMap::new(), Vec::new());
    let api = Server { terms, windows, refused_at, served: 0, start, end };
    let tasks = 40 * terms.routes.div_ceil(2) as usize;
    let usual = Callers::usual(Duration::from_secs(secs));
    let callers = Callers { seed: terms.seed, tasks, ..usual };
    let routes = terms.routes;
    let next = move |random: &mut ratekeeper_testkit::random::Random| {
        Call::get(format!("/channels/{}/messages", random.below(routes)))
    };
    let (tally, api) = callers.run(&gate, api, next).await;
    let permitted = (terms.limit * terms.routes * secs * SECOND) as f64 / terms.window as f64;
    let share = api.served as f64 / permitted;
    let Terms { begins, told, limit, window, date, ahead_ms, seed, .. } = terms;
    println!(
        "{} {told:?} {begins:?} {routes} x {limit} in {} s, date {date}, ahead {ahead_ms} ms, \
         seed {seed}: refused {} {:?}, used {share:.3}",
        profile.name,
        window as f64 / 1e9,
        tally.refused,
        &api.refused_at[..api.refused_at.len().min(6)],
    );
    (tally.refused, share)
}

const LIMITS: [(u64, u64); 5] = [(5, 5), (10, 10), (50, 10), (30, 60), (4, 7)];

#[tokio::test(start_paused = true)]
async fn whole_seconds_and_decimals_are_obeyed_without_being_configured() {
    let mut wrong = Vec::new();
    for profile in [Profile::discord(), Profile::generic()] {
        for told in [Told::Decimals, Told::Down, Told::Up, Told::Nearest, Told::BothUp] {
            for (limit, secs) in LIMITS {
                for (seed, ahead_ms) in [(1, 0), (2, 333), (3, -7_450)] {
                    let routes =
                        if profile.paces.iter().next().is_some() && secs != 10 { 4 } else { 1 };
                    let window = secs * SECOND;
                    let terms = Terms { told, limit, window, routes, ahead_ms, seed, ..USUAL };
                    let (refused, share) = run(profile, terms, 60 * secs).await;
                    if refused > 0 || share < least(told) {
                        wrong.push((terms, refused, share));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// The share that must be used, from the first request on: what is rounded up and down shows itself
/// more slowly.
fn least(told: Told) -> f64 {
    if told == Told::Nearest { 0.88 } else { 0.95 }
}

#[tokio::test(start_paused = true)]
async fn windows_by_the_clock_are_obeyed_without_being_configured() {
    let mut wrong = Vec::new();
    for profile in [Profile::discord(), Profile::generic()] {
        for (limit, secs) in LIMITS {
            for (seed, date, ahead_ms) in
                [(1, false, 0), (2, true, 333), (3, true, -7_450), (4, true, 719), (5, true, 2_500)]
            {
                let window = secs * SECOND;
                let begins = Begins::ByTheClock;
                let terms = Terms { begins, limit, window, date, ahead_ms, seed, ..USUAL };
                let (refused, share) = run(profile, terms, 60 * secs).await;
                if refused > 0 || share < 0.95 {
                    wrong.push((terms, refused, share));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// Without a `Date`, the caller's clock is all there is.
#[tokio::test(start_paused = true)]
async fn without_a_date_both_clocks_are_taken_to_agree() {
    let mut wrong = 0;
    for told in [Told::Down, Told::Up, Told::Nearest] {
        for (limit, secs) in LIMITS {
            let terms = Terms { told, limit, window: secs * SECOND, date: false, ..USUAL };
            let (refused, share) = run(Profile::generic(), terms, 60 * secs).await;
            wrong += u64::from(refused > 0 || share < least(told));
        }
    }
    assert_eq!(wrong, 0);
}

/// Windows of a second or two are used for as long as round trips allow. Of single requests none can
/// be kept to find out how ends are rounded, nor is a part of a second told.
#[tokio::test(start_paused = true)]
async fn short_windows_and_single_requests_are_obeyed_as_far_as_can_be() {
    let part = SECOND / 4;
    for (told, limit, window, least) in [
        (Told::Decimals, 5, SECOND, 0.9),
        (Told::Down, 5, SECOND, 0.87),
        (Told::Up, 5, SECOND, 0.85),
        (Told::Down, 10, 2 * SECOND, 0.93),
        (Told::Up, 10, 2 * SECOND, 0.9),
        (Told::Down, 1, 5 * SECOND, 0.93),
        (Told::Up, 1, 5 * SECOND, 0.78),
        (Told::Down, 1, SECOND, 0.7),
        (Told::Up, 1, SECOND, 0.4),
        (Told::Down, 1, part, 0.24),
        (Told::Up, 1, part, 0.15),
    ] {
        let terms = Terms { told, limit, window, ..USUAL };
        let (refused, share) = run(Profile::discord(), terms, 300).await;
        assert_eq!(refused, 0);
        assert!(share > least, "{share}");
    }
}

/// A window that lasts for no whole number of seconds is told in a way that cannot be understood:
/// the requests of one window are refused, and then it is known.
#[tokio::test(start_paused = true)]
async fn windows_of_no_whole_number_of_seconds_are_refused_once() {
    for told in [Told::Down, Told::Up] {
        for parts in [5, 11] {
            let window = parts * SECOND / 2;
            let terms = Terms { told, limit: 4, window, ..USUAL };
            let (refused, share) = run(Profile::generic(), terms, 300).await;
            assert!(refused <= 8 && share > 0.65, "{refused}, {share}");
        }
    }
}
