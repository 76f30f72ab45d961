//! First answers that are slow, or never come: who waits for what they tell does not wait for long.

use std::time::Duration;

use ratekeeper_tracker::profile::Profile;
use ratekeeper_tracker::{Gate, Moment, Strategy};
use simulation::{Answer, Api, Call, Callers, Tally};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;

/// An API whose first answers are slow.
struct SlowFirst {
    /// How many of the first requests, and how long the API works on them.
    slow: (usize, Duration),
    /// How many requests in how long; refused is what is beyond it.
    limit: (usize, Duration),
    is_told: bool,
    arrived: Vec<Moment>,
    refused: Vec<Moment>,
    used: usize,
    ends: Moment,
}

impl SlowFirst {
    fn new(slow: usize, took: Duration) -> Self {
        let limit = (usize::MAX, Duration::ZERO);
        let (used, ends) = (0, Moment::EPOCH);
        let (arrived, refused) = (Vec::new(), Vec::new());
        Self { slow: (slow, took), limit, is_told: false, arrived, refused, used, ends }
    }
}

impl Api for SlowFirst {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        self.arrived.push(now);
        let took = if self.arrived.len() <= self.slow.0 { self.slow.1 } else { Duration::ZERO };
        let (limit, window) = self.limit;
        if now >= self.ends {
            (self.used, self.ends) = (0, now.after(window.into()));
        }
        let status = if self.used < limit { 200 } else { 429 };
        self.used += usize::from(status == 200);
        if status == 429 {
            self.refused.push(now);
        }
        let mut fields = Vec::new();
        if self.is_told {
            let reset = self.ends.since(now).get().div_ceil(SECOND.into());
            let left = (limit - self.used).to_string();
            fields.push(("x-ratelimit-limit", limit.to_string()));
            fields.push(("x-ratelimit-remaining", left));
            fields.push(("x-ratelimit-reset-after", reset.to_string()));
        }
        Answer { status, fields, took, ..Answer::default() }
    }
}

/// What came of all, and when requests arrived and were refused.
async fn run(api: SlowFirst, tasks: usize, secs: u64) -> (Tally, Vec<Duration>, Vec<Duration>) {
    let deadline = Duration::from_hours(1);
    let gate = Gate::starting_at(Profile::generic(), simulation::start())
        .with(Strategy::Wait { queue: 1_000, deadline });
    let start = gate.now();
    let callers = Callers { tasks, ..Callers::usual(Duration::from_secs(secs)) };
    let (tally, api) = callers.run(&gate, api, |_| Call::get("/things")).await;
    let after = |at: &Moment| Duration::from_nanos(at.as_nanos() - start.as_nanos());
    let [arrived, refused] = [api.arrived, api.refused].map(|all| all.iter().map(after).collect());
    (tally, arrived, refused)
}

#[tokio::test(start_paused = true)]
async fn a_first_answer_that_is_slow_holds_nobody_for_long() {
    for (took, tasks) in [(2, 2), (6, 6), (30, 40), (86_400, 100)] {
        let api = SlowFirst::new(1, Duration::from_secs(took));
        let (tally, arrived, _) = run(api, tasks, 5).await;
        let late = arrived[tasks - 1];
        println!("first answer after {took} s: all of {tasks} arrived within {late:?}");
        // Another goes after half a second; its answer lets all others go.
        assert!(late < Duration::from_secs(1), "{late:?}");
        assert_eq!((tally.refused, tally.not_sent), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn several_slow_answers_hold_the_others_for_as_many_half_seconds() {
    let (_, arrived, _) = run(SlowFirst::new(4, Duration::from_mins(1)), 40, 5).await;
    assert!(arrived[3] < Duration::from_millis(1_700), "{arrived:?}");
    assert!(arrived[39] < Duration::from_millis(2_600), "{arrived:?}");
}

#[tokio::test(start_paused = true)]
async fn an_api_with_slow_answers_and_a_tiny_limit_is_not_flooded() {
    for is_told in [false, true] {
        let limit = (1, Duration::from_secs(10));
        let slow = SlowFirst::new(usize::MAX, Duration::from_secs(6));
        let (tally, arrived, refused) = run(SlowFirst { limit, is_told, ..slow }, 40, 600).await;
        let within = |all: &[Duration], from: u64, until: u64| {
            let is_in = |at: &&Duration| (from..until).contains(&at.as_secs());
            all.iter().filter(is_in).count()
        };
        let (first, late) = (within(&arrived, 0, 6), within(&refused, 100, 600));
        println!(
            "1 in 10 s, told {is_told}: {tally:?}, {first} at first, {late} refused after 100 s"
        );
        assert!(first <= 12, "{first} within the first answer");
        // Fifty windows.
        assert!(late <= 50, "{late}");
        let served = within(&arrived, 100, 600) - late;
        assert!(served >= 28, "{served}");
    }
}

/// An API that never answers its first requests after the very first, and counts in windows.
struct Hanging {
    limit: usize,
    window: Duration,
    hangs: std::ops::Range<usize>,
    arrived: usize,
    used: usize,
    ends: Moment,
    refused: usize,
}

impl Api for Hanging {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        if now >= self.ends {
            (self.used, self.ends) = (0, now.after(self.window.into()));
        }
        let fits = self.used < self.limit;
        self.used += usize::from(fits);
        self.refused += usize::from(!fits);
        let hangs = self.hangs.contains(&self.arrived);
        self.arrived += 1;
        let reset = Duration::from_nanos(self.ends.as_nanos() - now.as_nanos());
        let fields = vec![
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", (self.limit - self.used).to_string()),
            ("x-ratelimit-reset-after", format!("{:.3}", reset.as_secs_f64())),
        ];
        let took = if hangs { Duration::from_hours(24) } else { Duration::ZERO };
        Answer { status: if fits { 200 } else { 429 }, fields, took, ..Answer::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_hang_hold_a_bucket_no_longer_than_a_window_and_the_patience() {
    for (limit, millis) in [(1, 250), (1, 5_000), (5, 2_000), (5, 250)] {
        let window = Duration::from_millis(millis);
        let (hangs, ends) = (1..1 + limit, Moment::EPOCH);
        let api = Hanging { limit, window, hangs, arrived: 0, used: 0, ends, refused: 0 };
        let gate = Gate::new(Profile::discord());
        let gate = gate.with(Strategy::Wait { queue: 1_000, deadline: Duration::from_hours(30) });
        let during = window * 100 + Duration::from_secs(10);
        let callers = Callers { tasks: 20, ..Callers::usual(during) };
        let end = gate.now().after(during.into());
        let counted = std::sync::Arc::new(parking_lot::Mutex::new(0));
        let so_far = counted.clone();
        let next = move |_: &mut _| {
            *so_far.lock() += 1;
            Call::get("/things")
        };
        let (tally, api) = callers.run(&gate, api, next).await;
        assert!(gate.now() > end);
        println!("{limit} in {window:?}, all of one window hang: {tally:?}");
        let served = usize::try_from(tally.served).unwrap();
        // One goes after each window and the patience, half a second.
        let often = during.as_millis() / (window.as_millis() + 500);
        assert!(served as u128 * 10 >= often * 8, "{limit} in {window:?}: {served} of {often}");
        assert!(api.refused <= 5, "{limit} in {window:?}: {}", api.refused);
    }
}
