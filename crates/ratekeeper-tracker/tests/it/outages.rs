//! APIs that refuse everything for a while, and have no limit before or after that.

use std::time::Duration;

use ratekeeper_tracker::{Gate, Moment, Profile, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

/// What a caller sends in a second whom nobody keeps waiting: its requests take 170 ms on average.
const UNPACED: f64 = 1.0 / 0.17;

/// Refuses everything at certain times, and does not say for how long.
struct Down {
    /// From and until when, since the first request.
    times: Vec<(Duration, Duration)>,
    began: Option<Moment>,
    served: Vec<Duration>,
    refused: u64,
}

impl Down {
    fn new(times: Vec<(Duration, Duration)>) -> Self {
        Self { times, began: None, served: Vec::new(), refused: 0 }
    }

    /// How many were served in a second, between two times.
    fn rate(&self, from: Duration, until: Duration) -> f64 {
        let count = self.served.iter().filter(|at| (from..until).contains(at)).count();
        f64::from(u32::try_from(count).expect("they are few"))
            / until.saturating_sub(from).as_secs_f64()
    }
}

impl Api for Down {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        let began = *self.began.get_or_insert(now);
        let after = Duration::from_nanos(now.as_nanos() - began.as_nanos());
        if self.times.iter().any(|(from, until)| (*from..*until).contains(&after)) {
            self.refused += 1;
            return Answer { status: 429, ..Answer::default() };
        }
        self.served.push(after);
        Answer { status: 200, ..Answer::default() }
    }
}

/// The share of what can be sent that was served in each of ten minutes, from when the API served
/// again after the last of its times of refusing.
async fn after(times: &[(Duration, Duration)], tasks: usize, seed: u64) -> Vec<f64> {
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_hours(24) };
    let gate = Gate::starting_at(Profile::generic(), simulation::start()).with(strategy);
    let end = times.last().expect("there is one").1;
    // One finds out after fifteen minutes at the latest.
    let usual = Callers::usual(end + Duration::from_mins(26));
    let callers = Callers { tasks, seed, ..usual };
    let (_, api) = callers.run(&gate, Down::new(times.to_vec()), |_| Call::get("/things")).await;
    let again = *api.served.iter().find(|at| **at >= end).expect("it serves again");
    let minute = |n: u32| {
        let from = again + Duration::from_mins(n.into());
        let all = UNPACED * f64::from(u32::try_from(tasks).expect("they are few"));
        api.rate(from, from + Duration::from_mins(1)) / all
    };
    let shares: Vec<f64> = (0..10).map(minute).collect();
    println!(
        "{tasks} callers, seed {seed}, refused in {times:?}: {} refusals, served again {:?} after \
         that, then in each minute {shares:.2?}",
        api.refused,
        again.saturating_sub(end),
    );
    shares
}

fn secs(from: f64, until: f64) -> (Duration, Duration) {
    (Duration::from_secs_f64(from), Duration::from_secs_f64(until))
}

#[tokio::test(start_paused = true)]
async fn an_outage_soon_after_the_first_request_is_not_taken_for_a_window() {
    let mut wrong = Vec::new();
    for mins in [1_u32, 30, 360] {
        for tasks in [1, 2, 40] {
            let outage = secs(9.0, 9.0 + 60.0 * f64::from(mins));
            let twice_before = vec![secs(3.0, 3.6), secs(6.0, 6.4), outage];
            for times in [vec![outage], vec![secs(5.0, 5.6), outage], twice_before] {
                let shares = after(&times, tasks, 1).await;
                if shares[3..].iter().any(|share| *share < 0.9) {
                    wrong.push((times, tasks, shares));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}
