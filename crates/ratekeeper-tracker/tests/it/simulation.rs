//! Callers and a simulated API in virtual time, behind a network that reorders.
//!
//! An API here is a function of when requests arrive. Every simulation prints what it counted:
//! how many requests the API refused, and how much of what it permits was used.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::{Costs, Gate, Moment, Nanos, Origin, Request, Response};

/// When a simulation begins: the same each time, so that what one run shows the next one shows again.
pub(crate) fn start() -> Moment {
    Moment::from_nanos(1_795_000_000_123_456_789)
}

/// One request, as the API sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub method: &'static str,
    pub path: String,
    /// Where it goes, if that is told.
    pub origin: String,
    pub group: String,
    /// What the caller says that it costs.
    pub said: Costs,
    /// What it really takes, which only the API knows.
    pub takes: u64,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), ..Self::default() }
    }
}

/// What the API answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: String,
    /// How long the API works on it.
    pub took: Duration,
}

/// A simulated API.
pub(crate) trait Api: Send + 'static {
    /// A request arrives.
    fn receive(&mut self, call: &Call, now: Moment) -> Answer;

    /// The answer to a request leaves.
    fn finish(&mut self, _call: &Call, _now: Moment) {}
}

/// What came of all requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Answered with a status below 400.
    pub served: u64,
    /// What those took together.
    pub served_takes: u64,
    /// Answered with 429 or 403.
    pub refused: u64,
    /// Refused by the gate, and never sent.
    pub not_sent: u64,
}

/// Who sends requests.
pub(crate) struct Callers {
    /// How many send at once; each sends one request after another.
    pub tasks: usize,
    /// No request is begun after this.
    pub during: Duration,
    /// The shortest and the longest way to the API, and back again.
    pub way: (Duration, Duration),
    pub seed: u64,
}

impl Callers {
    /// Forty callers, 20 to 150 ms each way.
    pub(crate) fn usual(during: Duration) -> Self {
        let way = (Duration::from_millis(20), Duration::from_millis(150));
        Self { tasks: 40, during, way, seed: 1 }
    }

    /// Runs until the time is over and everything is answered; needs tokio's clock to be paused.
    pub(crate) async fn run<A, N>(&self, gate: &Gate, api: A, next: N) -> (Tally, A)
    where
        A: Api,
        N: Fn(&mut Random) -> Call + Clone + Send + 'static,
    {
        let end = gate.now().after(Nanos::from(self.during));
        let shared = Arc::new(Mutex::new((Tally::default(), api)));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..self.tasks {
            let (gate, shared, next, way) = (gate.clone(), shared.clone(), next.clone(), self.way);
            let mut random = Random::new(self.seed.wrapping_add(task as u64 * 7_919));
            tasks.spawn(async move {
                while gate.now() < end {
                    let call = next(&mut random);
                    one_request(&gate, &shared, &call, way, &mut random).await;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no caller panics");
        }
        Arc::into_inner(shared).expect("all callers are done").into_inner()
    }
}

async fn one_request<A: Api>(
    gate: &Gate,
    shared: &Mutex<(Tally, A)>,
    call: &Call,
    way: (Duration, Duration),
    random: &mut Random,
) {
    let origin = Origin::of(&call.origin);
    let request = Request {
        group: &call.group,
        costs: call.said,
        ..Request::new(call.method, &call.path).to(origin)
    };
    let Ok(mut permit) = gate.acquire(&request).await else {
        shared.lock().0.not_sent += 1;
        // A caller that is refused does not come straight back.
        tokio::time::sleep(Duration::from_millis(100)).await;
        return;
    };
    permit.sent();
    tokio::time::sleep(one_way(way, random)).await;
    let answer = shared.lock().1.receive(call, gate.now());
    tokio::time::sleep(answer.took).await;
    shared.lock().1.finish(call, gate.now());
    tokio::time::sleep(one_way(way, random)).await;
    let fields = answer.fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    permit.track(Response { status: answer.status, fields, body: Some(answer.body.as_bytes()) });
    let tally = &mut shared.lock().0;
    match answer.status {
        403 | 429 => tally.refused += 1,
        ..400 => {
            tally.served += 1;
            tally.served_takes += call.takes;
        }
        _ => {}
    }
}

fn one_way((least, most): (Duration, Duration), random: &mut Random) -> Duration {
    let spread = u64::try_from(most.saturating_sub(least).as_nanos()).expect("ways are short");
    least + Duration::from_nanos(random.below(spread + 1))
}
