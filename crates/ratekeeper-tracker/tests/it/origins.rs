//! Budgets belong to an origin, unless the profile says that hosts are one API.

#![expect(clippy::cast_precision_loss, reason = "shares are compared with whole percents")]

use crate::simulation;

use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::profile::{Pace, Paces};
use ratekeeper_tracker::{
    Gate, Limited, Moment, Nanos, ORIGINS_MAX, Origin, Profile, Reason, Request, Response,
    Snapshot, Strategy, Tracker, Verdict,
};
use simulation::{Answer, Api, Call, Callers};

const SECOND: u64 = 1_000_000_000;
const NOTHING_LEFT: &[(&str, &str)] = &[
    ("x-ratelimit-limit", "5"),
    ("x-ratelimit-remaining", "0"),
    ("x-ratelimit-reset-after", "60"),
];

fn at(secs: u64) -> Moment {
    Moment::from_nanos(secs * SECOND)
}

fn get(url: &str) -> Request<'_> {
    Request::new("GET", "/v1/things").to(Origin::of(url))
}

/// Sends a request in second 1 that is answered in the same.
fn answered(tracker: &mut Tracker, url: &str, status: u16, fields: &[(&str, &str)]) {
    let reservation = tracker.send_anyway(&get(url), at(1)).expect("there is room");
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    tracker.track(reservation, Response { status, fields, body: None }, at(1));
}

fn limited(tracker: &mut Tracker, url: &str) -> Option<Limited> {
    match tracker.reserve(&get(url), at(1)) {
        Verdict::Clear(reservation) => {
            tracker.give_back(reservation, at(1));
            None
        }
        Verdict::Limited(limited) => Some(limited),
    }
}

#[test]
fn what_one_origin_has_spent_another_has_not() {
    let mut tracker = Tracker::new(Profile::generic());
    answered(&mut tracker, "https://a.example", 200, NOTHING_LEFT);
    let refused = limited(&mut tracker, "https://a.example/elsewhere").expect("it is spent");
    assert_eq!((refused.reason, &*refused.origin), (Reason::Spent, "https://a.example"));
    for other in ["https://b.example", "http://a.example", "https://a.example:444", ""] {
        assert!(limited(&mut tracker, other).is_none(), "{other}");
    }
    assert!(limited(&mut tracker, "https://A.example:443").is_some(), "it is the same");
}

#[test]
fn a_refusal_of_everything_stops_one_origin_only() {
    let mut tracker = Tracker::new(Profile::discord());
    let global = [("retry-after", "9"), ("x-ratelimit-global", "true")];
    answered(&mut tracker, "https://api.example", 429, &global);
    assert!(limited(&mut tracker, "https://api.example").is_some());
    assert!(limited(&mut tracker, "https://discord.com").is_none());
    // The page of a proxy shuts what is behind that proxy.
    answered(&mut tracker, "https://cdn.example", 429, &[("retry-after", "9")]);
    assert!(limited(&mut tracker, "https://cdn.example").is_some());
    assert!(limited(&mut tracker, "https://discord.com").is_none());
}

#[test]
fn the_hosts_of_a_profile_are_one_api() {
    let mut tracker = Tracker::new(Profile::discord());
    answered(&mut tracker, "https://canary.discord.com/api", 200, NOTHING_LEFT);
    for same in ["https://discord.com", "https://DISCORDAPP.com:443", "http://ptb.discord.com", ""]
    {
        assert!(limited(&mut tracker, same).is_some(), "{same}");
    }
    for other in ["https://cdn.discordapp.com", "https://discord.com.evil.example"] {
        assert!(limited(&mut tracker, other).is_none(), "{other}");
    }
}

#[test]
fn the_pace_and_the_count_of_refused_requests_are_of_an_origin() {
    const PACES: Paces = Paces::new(&[Pace::new(2, Nanos::from_secs(60))]);
    let invalid = Profile::discord()
        .invalid
        .map(|max| ratekeeper_tracker::profile::InvalidMax { count: 3, ..max });
    let mut tracker = Tracker::new(Profile { paces: PACES, ..Profile::generic() });
    for _ in 0..2 {
        answered(&mut tracker, "https://a.example", 200, &[]);
    }
    let refused = limited(&mut tracker, "https://a.example").expect("two went");
    assert_eq!(refused.reason, Reason::Paced);
    assert!(limited(&mut tracker, "https://b.example").is_none());

    let mut tracker = Tracker::new(Profile { invalid, ..Profile::generic() });
    for _ in 0..2 {
        answered(&mut tracker, "https://a.example", 401, &[]);
    }
    let refused = limited(&mut tracker, "https://a.example").expect("two were refused");
    assert_eq!(refused.reason, Reason::Invalid);
    assert!(limited(&mut tracker, "https://b.example").is_none());
}

#[test]
fn lines_are_of_an_origin_and_numbers_are_not() {
    let mut tracker = Tracker::new(Profile::generic());
    let urls = ["https://a.example", "https://b.example"];
    for url in urls {
        answered(&mut tracker, url, 200, NOTHING_LEFT);
    }
    let join = |tracker: &mut Tracker, url| tracker.join(&get(url), Moment::MAX, at(1)).unwrap();
    let waiters = [0, 1, 0, 1].map(|n: usize| join(&mut tracker, urls[n]));
    assert_eq!(tracker.snapshot(at(1)).waiting, 4);
    assert!(tracker.leave(waiters[0]));
    assert!(!tracker.leave(waiters[0]), "it has left");
    assert!(tracker.release(at(1)).is_none());
    let wake = tracker.next_wake().expect("both open some time");
    let mut gone = Vec::new();
    while let Some((waiter_id, reservation)) = tracker.release(wake.after(Nanos::from_secs(1))) {
        tracker.give_back(reservation, wake);
        gone.push(waiter_id);
    }
    gone.sort();
    assert_eq!(gone, waiters[1..]);
}

#[test]
fn the_oldest_of_all_origins_goes_first() {
    for origins in [2, 3, 7] {
        let mut tracker = Tracker::new(Profile::generic());
        let urls: Vec<_> = (0..origins).map(|n| format!("https://{n}.example")).collect();
        for url in &urls {
            answered(&mut tracker, url, 200, NOTHING_LEFT);
        }
        // Later origins come first in every other turn.
        let order = (0..4).flat_map(|turn| {
            let one_way = 0..origins;
            let other_way = (0..origins).rev();
            if turn % 2 == 0 { one_way.collect::<Vec<_>>() } else { other_way.collect() }
        });
        let join = |n: usize| tracker.join(&get(&urls[n]), Moment::MAX, at(1)).unwrap();
        let waiters: Vec<_> = order.map(join).collect();
        let later = at(120);
        let mut gone = Vec::new();
        // One at a time, as where all of them share a limit.
        while let Some((waiter_id, reservation)) = tracker.release(later) {
            tracker.give_back(reservation, later);
            gone.push(waiter_id);
        }
        assert_eq!(gone, waiters, "{origins} origins");
    }
}

/// How many origins a snapshot tells of.
fn origins(snapshot: &Snapshot) -> usize {
    let mut origins: Vec<_> = snapshot.states.iter().map(|state| &state.origin).collect();
    origins.dedup();
    origins.len()
}

#[test]
fn a_thousand_origins_take_the_room_of_a_hundred() {
    let mut tracker = Tracker::new(Profile::generic());
    let left = [("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "4")];
    for number in 0..1_000 {
        answered(&mut tracker, &format!("https://{number}.example"), 200, &left);
        let known = tracker.snapshot(at(1));
        assert!(known.states.len() <= ORIGINS_MAX);
        assert_eq!(origins(&known), known.states.len());
    }
    // What is spent is not forgotten, so that nobody sends too early.
    for number in 0..ORIGINS_MAX {
        answered(&mut tracker, &format!("https://{number}.spent.example"), 200, NOTHING_LEFT);
    }
    let refused = limited(&mut tracker, "https://one-more.example").expect("there is no room");
    assert_eq!(refused.reason, Reason::Full);
    assert!(refused.retry_at > at(1));
    for number in 0..ORIGINS_MAX {
        let url = format!("https://{number}.spent.example");
        assert_eq!(limited(&mut tracker, &url).expect("spent").reason, Reason::Spent);
    }
}

#[test]
fn many_routes_of_many_origins_take_the_room_of_ten_thousand_buckets() {
    let mut tracker = Tracker::new(Profile::discord());
    for origin in 0..10 {
        let url = format!("https://{origin}.example");
        for channel in 0..10_100 {
            let path = format!("/channels/{channel}/messages");
            let request = Request::new("GET", &path).to(Origin::of(&url));
            let reservation = tracker.send_anyway(&request, at(1)).expect("there is room");
            let none: [(&str, &[u8]); 0] = [];
            let response = Response { status: 200, fields: none, body: None };
            tracker.track(reservation, response, at(1));
        }
    }
    let kept = tracker.snapshot(at(1)).states.len();
    assert!(kept <= ratekeeper_tracker::BUCKETS_MAX + 10, "{kept}");
}

/// Asks for so many channels of an origin, which are answered at once.
fn ask_channels(tracker: &mut Tracker, url: &str, channels: std::ops::Range<u64>, now: Moment) {
    for channel in channels {
        let path = format!("/channels/{channel}/messages");
        let request = Request::new("GET", &path).to(Origin::of(url));
        let reservation = tracker.send_anyway(&request, now).expect("there is room");
        let none: [(&str, &[u8]); 0] = [];
        tracker.track(reservation, Response { status: 200, fields: none, body: None }, now);
    }
}

fn buckets_of(tracker: &Tracker, url: &str, now: Moment) -> usize {
    tracker.snapshot(now).states.iter().filter(|state| &*state.origin == url).count()
}

#[test]
fn an_origin_has_the_room_that_others_do_not_fill() {
    const MAIN: &str = "https://main.example";
    for (main, others, of_each) in [(9_000, 99, 1), (5_000, 99, 40), (9_400, 20, 20)] {
        let mut tracker = Tracker::new(Profile::discord());
        ask_channels(&mut tracker, MAIN, 0..main, at(1));
        for other in 0..others {
            ask_channels(&mut tracker, &format!("https://{other}.example"), 0..of_each, at(2));
        }
        ask_channels(&mut tracker, MAIN, 0..main, at(3));
        let kept = buckets_of(&tracker, MAIN, at(3)) as u64;
        println!("{kept} of {main} beside {others} origins");
        assert!(kept >= main, "{kept} of {main}");
        let kept = tracker.snapshot(at(3)).states.len();
        assert!(kept <= ratekeeper_tracker::BUCKETS_MAX + 2 * ORIGINS_MAX, "{kept}");
    }
}

#[test]
fn an_origin_gets_back_the_room_that_others_filled_and_use_no_more() {
    const MAIN: &str = "https://main.example";
    let mut tracker = Tracker::new(Profile::discord());
    ask_channels(&mut tracker, MAIN, 0..9_000, at(1));
    for other in 0..99 {
        ask_channels(&mut tracker, &format!("https://{other}.example"), 0..300, at(2));
    }
    // Nobody keeps much less than another.
    let kept = buckets_of(&tracker, "https://7.example", at(2));
    assert!(kept >= 50, "{kept}");
    ask_channels(&mut tracker, MAIN, 0..9_000, at(600));
    let kept = buckets_of(&tracker, MAIN, at(600));
    println!("{kept} of 9000");
    assert!(kept >= ratekeeper_tracker::BUCKETS_MAX / 2 - 100, "{kept}");
}

#[test]
fn other_origins_leave_half_of_the_room_to_the_hosts_of_the_profile() {
    const OWN: &str = "https://discord.com";
    let mut tracker = Tracker::new(Profile::discord());
    ask_channels(&mut tracker, OWN, 0..9_000, at(1));
    for round in 0..3 {
        for other in 0..99 {
            let channels = round * 300..(round + 1) * 300;
            ask_channels(&mut tracker, &format!("https://{other}.example"), channels, at(2));
        }
    }
    let kept = buckets_of(&tracker, "discord.com", at(2));
    println!("{kept} of 9000");
    assert!(kept >= ratekeeper_tracker::BUCKETS_MAX / 2, "{kept}");
}

#[test]
fn of_all_origins_the_one_that_may_be_forgotten_makes_room() {
    for idle in [0, 30, 57, 99] {
        let mut tracker = Tracker::new(Profile::generic());
        for number in 0..ORIGINS_MAX {
            let fields = if number == idle { &[] } else { NOTHING_LEFT };
            answered(&mut tracker, &format!("https://{number}.example"), 200, fields);
        }
        assert!(limited(&mut tracker, "https://one-more.example").is_none(), "{idle}");
    }
}

/// APIs on hosts of their own, each with so many requests in its windows of so many seconds.
struct Hosts(Vec<Window>);

struct Window {
    limit: u64,
    secs: u64,
    began: u64,
    used: u64,
}

impl Window {
    fn new(limit: u64, secs: u64) -> Self {
        Self { limit, secs, began: 0, used: 0 }
    }
}

impl Api for Hosts {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        let host = call.origin.strip_prefix("https://").and_then(|host| host.parse().ok());
        let window: &mut Window = &mut self.0[host.unwrap_or(0_usize)];
        let nanos = now.as_nanos();
        let began = nanos - nanos % (window.secs * SECOND);
        if began != window.began {
            (window.began, window.used) = (began, 0);
        }
        let fits = window.used < window.limit;
        window.used += u64::from(fits);
        let reset = (began + window.secs * SECOND - nanos) as f64 / 1e9;
        let fields = vec![
            ("x-ratelimit-limit", window.limit.to_string()),
            ("x-ratelimit-remaining", (window.limit - window.used).to_string()),
            ("x-ratelimit-reset-after", format!("{reset:.3}")),
        ];
        Answer { status: if fits { 200 } else { 429 }, fields, ..Answer::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn one_gate_uses_what_each_of_many_hosts_permits() {
    const SECS: u64 = 600;
    for (tasks, windows) in
        [(40, vec![(100, 10), (5, 2)]), (90, vec![(100, 20), (300, 60), (20, 5), (60, 30)])]
    {
        let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_mins(10) };
        let gate = Gate::starting_at(Profile::generic(), simulation::start()).with(strategy);
        let hosts = windows.len() as u64;
        let permitted: u64 = windows.iter().map(|(limit, secs)| limit * SECS / secs).sum();
        let api =
            Hosts(windows.into_iter().map(|(limit, secs)| Window::new(limit, secs)).collect());
        let mut callers = Callers::usual(Duration::from_secs(SECS));
        callers.tasks = tasks;
        // Each caller keeps to one of them.
        let mine = std::cell::OnceCell::new();
        let next = move |random: &mut Random| {
            let host = mine.get_or_init(|| random.below(hosts));
            Call { origin: format!("https://{host}"), ..Call::get("/things") }
        };
        let (tally, _) = callers.run(&gate, api, next).await;
        let share = tally.served as f64 / permitted as f64;
        println!("{hosts} hosts: refused {}, used {share:.3} of what is permitted", tally.refused);
        assert_eq!(tally.refused, 0);
        assert!(share > 0.95, "{share}");
    }
}
