//! Language models, asked by callers who do not say what their requests cost.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an API in a test counts far below 2^52, and nothing below zero"
)]

use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::{Costs, Gate, Moment, Nanos, Profile, Request, Response, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// How a budget fills up again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    /// Little by little, in a minute.
    Continuously,
    /// All of it at each full minute.
    EachMinute,
}

/// How an API tells what is left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dialect {
    /// Requests and tokens; it is full again in `6m0s`.
    OpenAi,
    /// Requests, input and output tokens; it is full again at a moment of RFC 3339.
    Anthropic,
}

struct Budget {
    limit: u64,
    fill: Fill,
    left: f64,
    at: u64,
    /// When the first window began.
    origin: u64,
}

impl Budget {
    fn new(limit: u64, fill: Fill) -> Self {
        Self { limit, fill, left: limit as f64, at: 0, origin: 0 }
    }

    fn pass(&mut self, now: u64) {
        match self.fill {
            Fill::Continuously => {
                let back = (now - self.at) as f64 * self.limit as f64 / MINUTE as f64;
                self.left = (self.left + back).min(self.limit as f64);
            }
            Fill::EachMinute if self.window(now) != self.window(self.at) => {
                self.left = self.limit as f64;
            }
            Fill::EachMinute => {}
        }
        self.at = now;
    }

    fn begin(&mut self, origin: u64) {
        (self.at, self.origin) = (origin, origin);
    }

    fn window(&self, at: u64) -> u64 {
        (at - self.origin) / MINUTE
    }

    fn full_in(&self) -> u64 {
        match self.fill {
            Fill::Continuously => {
                ((self.limit as f64 - self.left) / self.limit as f64 * MINUTE as f64) as u64
            }
            Fill::EachMinute => MINUTE - (self.at - self.origin) % MINUTE,
        }
    }
}

struct Models {
    dialect: Dialect,
    requests: Budget,
    tokens: Budget,
    output: Budget,
    took: (u64, u64),
    random: Random,
}

impl Models {
    fn new(dialect: Dialect, fill: Fill, tokens: u64) -> Self {
        Self {
            dialect,
            requests: Budget::new(10_000, fill),
            tokens: Budget::new(tokens, fill),
            output: Budget::new(tokens / 2, fill),
            took: (0, 0),
            random: Random::new(7),
        }
    }

    fn fields(&self, now: u64) -> Vec<(&'static str, String)> {
        let left = |budget: &Budget| (budget.left as u64).to_string();
        match self.dialect {
            Dialect::OpenAi => vec![
                ("x-ratelimit-limit-requests", self.requests.limit.to_string()),
                ("x-ratelimit-limit-tokens", self.tokens.limit.to_string()),
                ("x-ratelimit-remaining-requests", left(&self.requests)),
                ("x-ratelimit-remaining-tokens", left(&self.tokens)),
                ("x-ratelimit-reset-requests", span(self.requests.full_in())),
                ("x-ratelimit-reset-tokens", span(self.tokens.full_in())),
            ],
            Dialect::Anthropic => vec![
                ("anthropic-ratelimit-requests-limit", self.requests.limit.to_string()),
                ("anthropic-ratelimit-requests-remaining", left(&self.requests)),
                ("anthropic-ratelimit-requests-reset", stamp(now + self.requests.full_in())),
                ("anthropic-ratelimit-input-tokens-limit", self.tokens.limit.to_string()),
                ("anthropic-ratelimit-input-tokens-remaining", left(&self.tokens)),
                ("anthropic-ratelimit-input-tokens-reset", stamp(now + self.tokens.full_in())),
                ("anthropic-ratelimit-output-tokens-limit", self.output.limit.to_string()),
                ("anthropic-ratelimit-output-tokens-remaining", left(&self.output)),
                ("anthropic-ratelimit-output-tokens-reset", stamp(now + self.output.full_in())),
            ],
        }
    }
}

impl Api for Models {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        let now = now.as_nanos();
        let output = if self.dialect == Dialect::Anthropic { call.takes / 4 } else { 0 };
        let costs = [1, call.takes, output];
        let mut budgets = [&mut self.requests, &mut self.tokens, &mut self.output];
        for budget in &mut budgets {
            budget.pass(now);
        }
        let fits = budgets.iter().zip(costs).all(|(budget, cost)| budget.left >= cost as f64);
        if fits {
            for (budget, cost) in budgets.iter_mut().zip(costs) {
                budget.left -= cost as f64;
            }
        }
        let took = self.random.between(self.took.0, self.took.1);
        let fields = self.fields(now);
        let status = if fits { 200 } else { 429 };
        Answer { status, fields, took: Duration::from_millis(took), ..Answer::default() }
    }
}

/// As `6m0s` or `1.5s`.
fn span(nanos: u64) -> String {
    let millis = nanos.div_ceil(1_000_000);
    match millis / 60_000 {
        0 => format!("{}.{:03}s", millis / 1_000, millis % 1_000),
        minutes => format!("{minutes}m{}.{:03}s", millis / 1_000 % 60, millis % 1_000),
    }
}

/// As `2026-11-19T04:00:00Z`, rounded up.
fn stamp(nanos: u64) -> String {
    let secs = nanos.div_ceil(SECOND);
    let (days, secs) = (secs / 86_400, secs % 86_400);
    // From days since 1970 to a date, as in any almanac.
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// What requests take.
#[derive(Clone, Copy, Debug)]
enum Takes {
    Always(u64),
    Between(u64, u64),
    /// Logarithms with this deviation about the logarithm of the median.
    LogNormal(u64, f64),
    /// Each route something else, by some tenths more or less.
    ByRoute([u64; 3]),
    /// The one until the time is half over, then the other.
    Changes(u64, u64),
    /// Between these, but one in so many takes as much as is told.
    SeldomHuge((u64, u64), u64, u64),
}

impl Takes {
    fn call(self, random: &mut Random, is_half_over: bool) -> Call {
        let chat = || Call { method: "POST", group: "a-model".into(), ..Call::get("/v1/chat") };
        match self {
            Self::Always(takes) => Call { takes, ..chat() },
            Self::Between(least, most) => Call { takes: random.between(least, most), ..chat() },
            Self::LogNormal(median, deviation) => {
                let sum: u64 = (0..12).map(|_| random.below(1_000_000)).sum();
                let normal = sum as f64 / 1e6 - 6.0;
                let takes = (median as f64 * (normal * deviation).exp()) as u64;
                Call { takes: takes.max(1), ..chat() }
            }
            Self::SeldomHuge((least, most), seldom, huge) => {
                let usual = random.between(least, most);
                Call { takes: if random.below(seldom) == 0 { huge } else { usual }, ..chat() }
            }
            Self::ByRoute(takes) => {
                let route = random.index(takes.len());
                let takes = takes[route] * random.between(8, 12) / 10;
                Call { takes, path: ["/small", "/middle", "/large"][route].into(), ..chat() }
            }
            Self::Changes(before, after) => {
                Call { takes: if is_half_over { after } else { before }, ..chat() }
            }
        }
    }
}

/// What came of half an hour.
struct Seen {
    /// How much of what is permitted was used.
    share: f64,
    refused: u64,
    served: u64,
}

impl Seen {
    #[track_caller]
    fn assert(&self, refused_max: u64, share_min: f64) {
        assert!(self.refused <= refused_max, "{} of {} refused", self.refused, self.served);
        assert!(self.share >= share_min, "{}", self.share);
    }
}

async fn half_an_hour(profile: Profile, api: Models, takes: Takes) -> Seen {
    half_an_hour_from(simulation::start(), profile, api, takes).await
}

async fn half_an_hour_from(start: Moment, profile: Profile, mut api: Models, takes: Takes) -> Seen {
    const MINUTES: u64 = 30;
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_secs(100_000) };
    let gate = Gate::starting_at(profile, start).with(strategy);
    let what = format!(
        "{}: {:?}, {} a minute {:?}, answers in {:?} ms, {takes:?}",
        profile.name, api.dialect, api.tokens.limit, api.tokens.fill, api.took
    );
    // It is full at first, which is as much as comes in a minute; windows begin and end within one.
    let permitted = (MINUTES + 1) * api.tokens.limit;
    let origin = gate.now().as_nanos() - 20 * SECOND;
    for budget in [&mut api.requests, &mut api.tokens, &mut api.output] {
        budget.begin(origin);
    }
    let half_over = gate.now().as_nanos() + MINUTES * MINUTE / 2;
    let clock = gate.clone();
    let next = move |random: &mut Random| takes.call(random, clock.now().as_nanos() >= half_over);
    let callers = Callers::usual(Duration::from_secs(60 * MINUTES));
    let (tally, _) = callers.run(&gate, api, next).await;
    let share = tally.served_takes as f64 / permitted as f64;
    println!("{what}: used {share:.3}, refused {} of {}", tally.refused, tally.served);
    Seen { share, refused: tally.refused, served: tally.served }
}

/// Profiles and APIs: each is told how its budgets fill up, or finds out.
const APIS: [(Profile, Dialect, Fill); 5] = [
    (Profile::openai(), Dialect::OpenAi, Fill::Continuously),
    (Profile::anthropic(), Dialect::Anthropic, Fill::Continuously),
    (Profile::anthropic(), Dialect::Anthropic, Fill::EachMinute),
    (Profile::generic(), Dialect::Anthropic, Fill::EachMinute),
    (Profile::generic(), Dialect::OpenAi, Fill::Continuously),
];

#[tokio::test(start_paused = true)]
async fn costs_that_nobody_says_are_learnt() {
    for (profile, dialect, fill) in APIS {
        for limit in [20_000, 90_000, 2_000_000] {
            for takes in [Takes::Always(1_000), Takes::Between(100, 4_000)] {
                let api = Models::new(dialect, fill, limit);
                half_an_hour(profile, api, takes).await.assert(0, 0.85);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn windows_may_begin_at_any_part_of_a_second() {
    for part in 0..20 {
        let start = simulation::start().after(Nanos::new(part * 50_000_000));
        let api = Models::new(Dialect::Anthropic, Fill::EachMinute, 90_000);
        let takes = Takes::Always(1_000);
        half_an_hour_from(start, Profile::generic(), api, takes).await.assert(0, 0.85);
    }
}

#[tokio::test(start_paused = true)]
async fn costs_are_learnt_also_where_answers_take_long() {
    for (profile, dialect, fill) in APIS {
        for takes in [Takes::Always(1_000), Takes::Between(100, 4_000)] {
            let api = Models { took: (2_000, 8_000), ..Models::new(dialect, fill, 90_000) };
            let seen = half_an_hour(profile, api, takes).await;
            seen.assert(seen.served / 300, 0.8);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_costs_with_heavy_tails_few_are_refused() {
    for (profile, dialect, fill) in APIS {
        for limit in [90_000, 2_000_000] {
            let api = Models::new(dialect, fill, limit);
            let seen = half_an_hour(profile, api, Takes::LogNormal(600, 1.0)).await;
            seen.assert(seen.served / 300, 0.8);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_route_has_a_cost_of_its_own() {
    for fill in [Fill::Continuously, Fill::EachMinute] {
        let takes = Takes::ByRoute([100, 1_000, 4_000]);
        let api = Models::new(Dialect::OpenAi, fill, 90_000);
        half_an_hour(Profile::generic(), api, takes).await.assert(0, 0.85);
    }
}

#[tokio::test(start_paused = true)]
async fn costs_that_change_are_followed() {
    for (profile, dialect, fill) in APIS {
        for takes in [Takes::Changes(1_000, 2_000), Takes::Changes(3_000, 1_000)] {
            let api = Models::new(dialect, fill, 90_000);
            // When it changes, those in flight may take more than there is.
            let seen = half_an_hour(profile, api, takes).await;
            seen.assert(seen.served / 100, 0.85);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_huge_request_does_not_spoil_the_budget_for_others() {
    for (profile, dialect, fill) in APIS {
        for takes in [
            Takes::SeldomHuge((1_000, 2_000), 400, 60_000),
            Takes::SeldomHuge((500, 900), 1_000, 45_000),
        ] {
            let api = Models::new(dialect, fill, 90_000);
            let seen = half_an_hour(profile, api, takes).await;
            // What is in flight beside a huge one is refused together with it.
            seen.assert(seen.served / 15, 0.9);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_is_said_counts_whatever_was_learnt() {
    let gate = Gate::new(Profile::openai()).with(Strategy::Error);
    let ask = |tokens| Request {
        costs: Costs { tokens, ..Costs::default() },
        ..Request::new("POST", "/v1/chat")
    };
    for left in [b"900", b"800", b"700"] {
        let mut permit = gate.acquire(&ask(0)).await.expect("there is enough");
        permit.sent();
        let fields: [(&str, &[u8]); 3] = [
            ("x-ratelimit-limit-tokens", b"1000"),
            ("x-ratelimit-remaining-tokens", left),
            ("x-ratelimit-reset-tokens", b"6m0s"),
        ];
        permit.track(Response { status: 200, fields, body: None });
    }
    // Each took a hundred, and as few of them are no more than a guess.
    let first = gate.acquire(&ask(0)).await.expect("there is enough");
    gate.acquire(&ask(0)).await.expect_err("both might take more");
    drop(first);
    let _all = gate.acquire(&ask(700)).await.expect("it is what is left");
    gate.acquire(&ask(1)).await.expect_err("nothing is left");
}
