//! Refusals that have nothing to do with how many requests are sent.

use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::{Gate, Moment, Profile, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

/// Refuses some requests by chance, and those beyond a limit if it has one.
struct Moody {
    /// How many of a thousand are refused, and from when on.
    per_mille: u64,
    random: Random,
    /// From when on there is a limit, and the distance of what it permits.
    limit: Option<(Duration, Duration)>,
    token: Moment,
    began: Option<Moment>,
    served: Vec<Duration>,
    refused: Vec<Duration>,
}

impl Moody {
    fn new(per_mille: u64, seed: u64) -> Self {
        let (served, refused) = (Vec::new(), Vec::new());
        let (limit, token, began, random) = (None, Moment::EPOCH, None, Random::new(seed));
        Self { per_mille, random, limit, token, began, served, refused }
    }

    /// How many were served and refused in a second.
    fn rates(&self, from: Duration, until: Duration) -> (f64, f64) {
        let rate = |all: &[Duration]| {
            let count = all.iter().filter(|at| (from..until).contains(at)).count();
            f64::from(u32::try_from(count).expect("they are few"))
                / until.saturating_sub(from).as_secs_f64()
        };
        (rate(&self.served), rate(&self.refused))
    }
}

impl Api for Moody {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        let began = *self.began.get_or_insert(now);
        let after = Duration::from_nanos(now.as_nanos() - began.as_nanos());
        let mut fits = self.random.below(1_000) >= self.per_mille;
        if let Some((_, each)) = self.limit.filter(|(from, _)| *from <= after) {
            // Ten at once.
            let earliest = now.before((each * 10).into());
            fits &= self.token <= now;
            if fits {
                self.token = self.token.max(earliest).after(each.into());
            }
        }
        if fits { &mut self.served } else { &mut self.refused }.push(after);
        Answer { status: if fits { 200 } else { 429 }, ..Answer::default() }
    }
}

async fn run(api: Moody, during: Duration, seed: u64) -> Moody {
    let deadline = Duration::from_hours(24);
    let gate = Gate::starting_at(Profile::generic(), simulation::start())
        .with(Strategy::Wait { queue: 1_000, deadline });
    let callers = Callers { seed, ..Callers::usual(during) };
    callers.run(&gate, api, |_| Call::get("/things")).await.1
}

#[tokio::test(start_paused = true)]
async fn refusals_by_chance_do_not_slow_a_bucket_down() {
    /// Forty callers, 170 ms each on average.
    const UNPACED: f64 = 40.0 / 0.17;
    for (per_mille, seed) in [(2, 1), (2, 2), (10, 1), (10, 3), (50, 1), (50, 3)] {
        let during = Duration::from_mins(40);
        let api = run(Moody::new(per_mille, seed), during, seed).await;
        let share = |n| {
            let (served, refused) = api.rates(during * n / 8, during * (n + 1) / 8);
            (served + refused) / UNPACED
        };
        let shares: Vec<f64> = (0..8).map(share).collect();
        println!("{per_mille} of 1000 refused, seed {seed}: {shares:.3?} of what is sent unpaced");
        let mean = shares.iter().sum::<f64>() / 8.0;
        assert!(mean >= 0.9 && shares[7] >= 0.9, "{per_mille}, seed {seed}: {shares:.3?}");
    }
}

/// Both at once are not told apart, but neither does the limit go unheeded nor the bucket stand still.
#[tokio::test(start_paused = true)]
async fn a_limit_beside_refusals_by_chance_is_found() {
    for per_mille in [2, 10, 50] {
        for from in [0, 20] {
            let mut api = Moody::new(per_mille, 1);
            api.limit = Some((Duration::from_mins(from), Duration::from_millis(100)));
            let during = Duration::from_hours(1);
            let api = run(api, during, 1).await;
            let (served, refused) = api.rates(Duration::from_mins(from + 10), during);
            println!(
                "{per_mille} of 1000 refused, limit 10/s from minute {from} on: \
                 {served:.2} served and {refused:.3} refused in a second"
            );
            assert!(served >= 2.5 && refused <= 2.0, "{per_mille}, {from}: {served}, {refused}");
        }
    }
}
