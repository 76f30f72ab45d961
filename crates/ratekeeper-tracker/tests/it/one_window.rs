//! An API with one window of requests, the same for everybody: the plainest there is.

use std::time::Duration;

use ratekeeper_tracker::{Gate, Moment, Profile, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

/// So many requests in each window of so many seconds, told in header fields.
struct Window {
    limit: u64,
    secs: u64,
    began: u64,
    used: u64,
}

impl Api for Window {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        let second = now.as_nanos() / 1_000_000_000;
        let began = second - second % self.secs;
        if began != self.began {
            (self.began, self.used) = (began, 0);
        }
        let fits = self.used < self.limit;
        self.used += u64::from(fits);
        let fields = vec![
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", (self.limit - self.used).to_string()),
            ("x-ratelimit-reset", (began + self.secs).to_string()),
        ];
        Answer { status: if fits { 200 } else { 429 }, fields, ..Answer::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn one_window_is_used_without_refusals() {
    const MINUTES: u64 = 10;
    const PERMITTED: u64 = MINUTES * 6 * 100;
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_mins(10) };
    let gate = Gate::starting_at(Profile::generic(), simulation::start()).with(strategy);
    let api = Window { limit: 100, secs: 10, began: 0, used: 0 };
    let callers = Callers::usual(Duration::from_mins(MINUTES));
    let (tally, _) = callers.run(&gate, api, |_| Call::get("/things")).await;
    println!("refused {}, served {} of {PERMITTED}", tally.refused, tally.served);
    assert_eq!(tally.refused, 0);
    assert!(tally.served * 100 > PERMITTED * 95, "{tally:?}");
}
