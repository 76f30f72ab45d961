//! APIs that do not tell their limit: they only refuse, and mostly do not say for how long.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ratekeeper_tracker::profile::{Body, BodyUnit};
use ratekeeper_tracker::{Gate, Moment, Nanos, Profile, Refused, Request, Response, Strategy};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

const KINDS: [Kind; 4] = [Kind::Aligned, Kind::FromFirst, Kind::Sliding, Kind::Bucket];
/// The shortest and the longest way, in milliseconds.
const WIDE: (u64, u64) = (20, 150);
const NARROW: (u64, u64) = (10, 20);

/// How an API counts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Windows of its clock.
    Aligned,
    /// A window begins with a request.
    FromFirst,
    /// So many in any stretch of time.
    Sliding,
    /// Tokens come back one by one; all of them within a window.
    Bucket,
}

/// So many requests in such windows, told by nothing but refusals.
struct Silent {
    kind: Kind,
    limit: u32,
    window: u64,
    says_retry_after: bool,
    /// What the body of a refusal is.
    body: &'static str,
    /// When the first request came: all times are counted from then.
    began: Option<u64>,
    /// Limits that hold from some moment on, the latest last.
    changes: Vec<(u64, u32)>,
    /// When what is used of the limit may be taken again.
    log: VecDeque<u64>,
    /// What was served and refused, and when.
    served: Vec<u64>,
    refused: Vec<u64>,
}

impl Silent {
    fn new(kind: Kind, limit: u32, window: Duration) -> Self {
        let window = u64::try_from(window.as_nanos()).expect("windows are short");
        let (log, served, refused) = (VecDeque::new(), Vec::new(), Vec::new());
        let (says_retry_after, body, began, changes) = (false, "", None, Vec::new());
        Self { kind, limit, window, says_retry_after, body, began, changes, log, served, refused }
    }

    fn allows(&mut self, now: u64) -> bool {
        if let Some(&(_, limit)) = self.changes.iter().rfind(|(from, _)| *from <= now) {
            self.limit = limit;
        }
        // When what is taken now is there again.
        let until = match self.kind {
            // The first comes somewhere in a window.
            Kind::Aligned => {
                let since_began = (now + self.window * 3 / 8) % self.window;
                now + self.window - since_began
            }
            Kind::FromFirst => match self.log.front() {
                Some(&ends) if ends > now => ends,
                _ => now + self.window,
            },
            Kind::Sliding => now + self.window,
            Kind::Bucket => {
                let each = self.window / u64::from(self.limit.max(1));
                self.log.back().map_or(now, |last| now.max(*last)) + each
            }
        };
        while self.log.front().is_some_and(|at| *at <= now) {
            self.log.pop_front();
        }
        let fits = self.log.len() < self.limit as usize;
        if fits {
            self.log.push_back(until);
        }
        fits
    }

    /// The share of a limit that was used between two moments, and the refusals in each window.
    fn used(&self, limit: u32, (from, until): (Duration, Duration)) -> (f64, f64) {
        let within = |all: &[u64]| {
            let all = all.iter().map(|&at| Duration::from_nanos(at));
            let count = all.filter(|at| (from..until).contains(at)).count();
            f64::from(u32::try_from(count).expect("they are few"))
        };
        let window = Duration::from_nanos(self.window);
        let windows = (until.as_secs_f64() - from.as_secs_f64()) / window.as_secs_f64();
        let (served, refused) = (within(&self.served), within(&self.refused));
        (served / (f64::from(limit) * windows), refused / windows)
    }
}

impl Api for Silent {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        let now = now.as_nanos() - *self.began.get_or_insert(now.as_nanos());
        let fits = self.allows(now);
        if fits { &mut self.served } else { &mut self.refused }.push(now);
        let mut fields = Vec::new();
        if self.says_retry_after
            && !fits
            && let Some(again) = self.log.front()
        {
            fields.push(("retry-after", (again - now).div_ceil(1_000_000_000).to_string()));
        }
        if fits {
            return Answer { status: 200, fields, ..Answer::default() };
        }
        Answer { status: 429, fields, body: self.body.to_owned(), ..Answer::default() }
    }
}

fn patient(profile: Profile) -> Gate {
    let deadline = Duration::from_hours(24);
    Gate::starting_at(profile, simulation::start()).with(Strategy::Wait { queue: 1_000, deadline })
}

fn callers(tasks: usize, during: Duration, way: (u64, u64), seed: u64) -> Callers {
    let way = (Duration::from_millis(way.0), Duration::from_millis(way.1));
    Callers { tasks, during, way, seed }
}

/// Lets callers send as much as they can for so many windows, of which the first are not counted.
async fn long_run(
    api: Silent,
    windows: (u32, u32),
    (tasks, way): (usize, (u64, u64)),
) -> (f64, f64) {
    long_run_of(Profile::generic(), api, windows, (tasks, way)).await
}

async fn long_run_of(
    profile: Profile,
    api: Silent,
    windows: (u32, u32),
    (tasks, way): (usize, (u64, u64)),
) -> (f64, f64) {
    let (kind, limit, window) = (api.kind, api.limit, Duration::from_nanos(api.window));
    let body = api.body;
    let gate = patient(profile);
    let callers = callers(tasks, window * windows.1, way, u64::from(limit));
    let (_, api) = callers.run(&gate, api, |_| Call::get("/things")).await;
    let (share, refused) = api.used(limit, (window * windows.0, window * windows.1));
    println!(
        "{kind:?} {limit} in {window:?}, body {body:?}, {tasks} callers, ways {way:?}: \
         used {share:.3}, refused {refused:.2} in a window"
    );
    (share, refused)
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_not_told_is_learnt() {
    for kind in KINDS {
        for (limit, secs) in [(10, 10), (7, 5), (100, 10), (100, 60), (30, 60), (600, 60), (20, 3)]
        {
            let api = Silent::new(kind, limit, Duration::from_secs(secs));
            let (share, refused) = long_run(api, (20, 120), (40, WIDE)).await;
            assert!(share >= 0.9, "{kind:?} {limit} in {secs} s: {share:.3}");
            assert!(refused <= 1.0, "{kind:?} {limit} in {secs} s: {refused:.2}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_learnt_whoever_calls_from_wherever() {
    for kind in KINDS {
        for (tasks, way) in [(12, WIDE), (200, WIDE), (40, (200, 600)), (40, (1, 3))] {
            let api = Silent::new(kind, 20, Duration::from_secs(10));
            let (share, refused) = long_run(api, (20, 120), (tasks, way)).await;
            assert!(share >= 0.9, "{kind:?}, {tasks} callers, {way:?}: {share:.3}");
            assert!(refused <= 1.0, "{kind:?}, {tasks} callers, {way:?}: {refused:.2}");
        }
    }
}

/// Where ways differ by 130 ms, nobody knows to which of two windows of a second a request belongs
/// that is sent in the last or the first 130 ms of one.
#[tokio::test(start_paused = true)]
async fn a_short_window_is_used_as_far_as_the_ways_to_it_are_alike() {
    for kind in KINDS {
        for (limit, way, least) in [
            (1, NARROW, 0.9),
            (10, NARROW, 0.9),
            (100, NARROW, 0.9),
            (1, WIDE, 0.7),
            (10, WIDE, 0.8),
            (100, WIDE, 0.85),
        ] {
            let api = Silent::new(kind, limit, Duration::from_secs(1));
            let (share, refused) = long_run(api, (100, 300), (40, way)).await;
            assert!(share >= least, "{kind:?} {limit} in a second, {way:?}: {share:.3}");
            assert!(refused <= 1.0, "{kind:?} {limit} in a second, {way:?}: {refused:.2}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_in_a_window_is_learnt_too() {
    for kind in KINDS {
        for secs in [10, 60] {
            let api = Silent::new(kind, 1, Duration::from_secs(secs));
            let (share, refused) = long_run(api, (50, 250), (40, WIDE)).await;
            assert!(share >= 0.9, "{kind:?} 1 in {secs} s: {share:.3}");
            assert!(refused <= 1.0, "{kind:?} 1 in {secs} s: {refused:.2}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_said_is_learnt_from_too() {
    for kind in KINDS {
        for (limit, secs) in [(10, 10), (100, 60)] {
            let mut api = Silent::new(kind, limit, Duration::from_secs(secs));
            api.says_retry_after = true;
            let (share, refused) = long_run(api, (20, 120), (40, WIDE)).await;
            assert!(share >= 0.9, "{kind:?} {limit} in {secs} s: {share:.3}");
            assert!(refused <= 1.0, "{kind:?} {limit} in {secs} s: {refused:.2}");
        }
    }
}

/// A page of a proxy is for every request, and so is what the API itself calls global.
#[tokio::test(start_paused = true)]
async fn a_limit_on_everything_is_learnt_like_one_of_a_bucket() {
    let json = Body::Json { retry_after: BodyUnit::AsTold };
    let mut wrong = 0;
    for body in ["", "<h1>no</h1>", r#"{"global": true}"#] {
        for kind in KINDS {
            for (limit, secs, tasks) in [(10, 10, 8), (10, 10, 40), (100, 60, 40)] {
                let api = Silent { body, ..Silent::new(kind, limit, Duration::from_secs(secs)) };
                let profile = Profile { body: json, ..Profile::generic() };
                let (share, refused) = long_run_of(profile, api, (20, 120), (tasks, WIDE)).await;
                wrong += u32::from(share < 0.9 || refused > 1.0);
            }
        }
    }
    assert_eq!(wrong, 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_learnt_limit_on_everything_is_told_its_turn() {
    let body = Body::Json { retry_after: BodyUnit::AsTold };
    for profile in [Profile::generic(), Profile { body, ..Profile::generic() }] {
        let window = Duration::from_secs(10);
        let gate = patient(profile);
        let api = Silent::new(Kind::Bucket, 10, window);
        callers(40, window * 50, WIDE, 1).run(&gate, api, |_| Call::get("/things")).await;
        let request = Request::new("GET", "/things");
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let gate = gate.clone();
            waiting.spawn(async move { gate.acquire(&Request::new("GET", "/things")).await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let hasty = gate.with(Strategy::Wait { queue: 100, deadline: Duration::from_secs(1) });
        let Err(Refused::Limited(limited)) = hasty.acquire(&request).await else {
            panic!("twenty are before it")
        };
        println!("{:?}: its turn is in {}", profile.body, limited.retry_in);
        let expected = Nanos::from_secs(16)..Nanos::from_secs(24);
        assert!(expected.contains(&limited.retry_in), "{limited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_changes_is_followed() {
    for kind in KINDS {
        for (limit, then) in [(10, 5), (10, 20), (100, 300), (100, 40)] {
            let window = Duration::from_secs(10);
            let mut api = Silent::new(kind, limit, window);
            api.changes = [(60, then), (180, limit)]
                .map(|(windows, limit)| (windows * api.window, limit))
                .to_vec();
            let gate = patient(Profile::generic());
            let callers = callers(60, window * 300, WIDE, 1);
            let (_, api) = callers.run(&gate, api, |_| Call::get("/things")).await;
            for (limit, from, until) in [(limit, 20, 60), (then, 140, 180), (limit, 260, 300)] {
                let (share, refused) = api.used(limit, (window * from, window * until));
                println!("{kind:?} {limit}, windows {from} to {until}: {share:.3}, {refused:.2}");
                assert!(share >= 0.9, "{kind:?} {limit} from window {from} on: {share:.3}");
                assert!(refused <= 1.0, "{kind:?} {limit} from window {from} on: {refused:.2}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_in_which_all_is_refused_is_got_over() {
    for kind in KINDS {
        let window = Duration::from_secs(10);
        let mut api = Silent::new(kind, 100, window);
        api.changes = vec![(30 * api.window, 0), (60 * api.window, 100)];
        let gate = patient(Profile::generic());
        let callers = callers(40, window * 200, WIDE, 1);
        let (_, api) = callers.run(&gate, api, |_| Call::get("/things")).await;
        let (_, while_shut) = api.used(100, (window * 30, window * 60));
        // A pause may last as long as all before it.
        let (share, refused) = api.used(100, (window * 130, window * 200));
        println!("{kind:?}: refused {while_shut:.2}, then used {share:.3}, refused {refused:.2}");
        assert!(while_shut <= 1.0, "{kind:?}: {while_shut:.2}");
        assert!(share >= 0.9, "{kind:?}: {share:.3}");
        assert!(refused <= 1.0, "{kind:?}: {refused:.2}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_quiet_time_several_go_at_once_and_no_more_than_fit() {
    for (limit, secs) in [(10, 10), (100, 60)] {
        let window = Duration::from_secs(secs);
        let gate = patient(Profile::generic());
        let api = Silent::new(Kind::FromFirst, limit, window);
        let many = callers(40, window * 50, WIDE, 1);
        many.run(&gate, api, |_| Call::get("/things")).await;
        tokio::time::sleep(window * 3).await;
        let at_once = gate.with(Strategy::Error);
        let mut permits = Vec::new();
        while let Ok(permit) = at_once.acquire(&Request::new("GET", "/things")).await {
            permits.push(permit);
        }
        println!("{limit} in {secs} s: {} at once", permits.len());
        let limit = limit as usize;
        assert!((limit / 2..=limit + limit / 10).contains(&permits.len()));
    }
}

/// Several limits, by the group of a request.
struct Several(HashMap<String, Silent>);

impl Api for Several {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        self.0.get_mut(&call.group).expect("it is known").receive(call, now)
    }
}

#[tokio::test(start_paused = true)]
async fn each_bucket_has_its_own() {
    const LIMITS: [(&str, Kind, u32, u64); 4] = [
        ("a", Kind::Aligned, 10, 10),
        ("b", Kind::FromFirst, 100, 60),
        ("c", Kind::Sliding, 50, 5),
        ("d", Kind::Bucket, 30, 20),
    ];
    let silent = |(name, kind, limit, secs): (&str, _, _, _)| {
        (name.to_owned(), Silent::new(kind, limit, Duration::from_secs(secs)))
    };
    let gate = patient(Profile::generic());
    let mut tasks = tokio::task::JoinSet::new();
    for limit in LIMITS {
        let (gate, api) = (gate.clone(), Several([silent(limit)].into()));
        tasks.spawn(async move {
            let callers = callers(25, Duration::from_mins(40), WIDE, limit.3);
            let call = Call { group: limit.0.to_owned(), ..Call::get("/things") };
            let (_, api) = callers.run(&gate, api, move |_| call.clone()).await;
            (limit, api)
        });
    }
    while let Some(done) = tasks.join_next().await {
        let ((name, _, limit, _), Several(apis)) = done.expect("no caller panics");
        let (from, until) = (Duration::from_mins(15), Duration::from_mins(40));
        let (share, refused) = apis[name].used(limit, (from, until));
        println!("{name}: used {share:.3}, refused {refused:.2} in a window");
        assert!(share >= 0.9 && refused <= 1.0, "{name}: {share:.3}, {refused:.2}");
    }
}

/// Refuses everything until then, and does not say for how long.
struct Closed {
    until: Moment,
    answer: Answer,
}

impl Api for Closed {
    fn receive(&mut self, _: &Call, now: Moment) -> Answer {
        if now < self.until {
            self.answer.clone()
        } else {
            Answer { status: 200, ..Answer::default() }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_the_same_however_many_were_refused_together() {
    let json = Body::Json { retry_after: BodyUnit::Seconds };
    let by_proxy = Profile { body: json, ..Profile::generic() };
    for profile in [Profile::generic(), by_proxy] {
        for tasks in [1, 4, 8, 16, 64, 300] {
            let gate = patient(profile);
            let mut permit = gate.acquire(&Request::new("GET", "/things")).await.unwrap();
            permit.sent();
            permit.track(Response { status: 200, fields: [], body: None });
            let until = gate.now().after(Nanos::new(500_000_000));
            let answer = Answer { status: 429, body: "<h1>no</h1>".into(), ..Answer::default() };
            let callers = callers(tasks, Duration::from_secs(2), WIDE, 1);
            let (tally, _) =
                callers.run(&gate, Closed { until, answer }, |_| Call::get("/things")).await;
            println!("{tasks} refused together: {tally:?}");
            let tasks = tasks as u64;
            // Each once, and one more that goes first.
            assert!(tally.refused <= tasks + 1, "{tally:?}");
            // From about 1.5 to 2 seconds they go one after the other, each 40 to 300 ms.
            assert!(tally.served >= 2 * tasks, "{tally:?}");
        }
    }
}
