//! What one process knew, the next one knows.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "of a simulation")]

use std::collections::VecDeque;
use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::profile::{Pace, Paces};
use ratekeeper_tracker::{Gate, LoadError, Moment, Nanos, Profile, Strategy};
use ratekeeper_tracker::{Request, Reservation, Response, Tracker, Verdict};
use simulation::{Answer, Api, Call, Callers};

use crate::simulation;

const SECOND: u64 = 1_000_000_000;
/// Some time in 2026.
const WALL: u64 = 1_790_000_000 * SECOND;
const PATHS: [&str; 4] =
    ["/channels/1/messages", "/channels/2/messages", "/webhooks/3/token", "/interactions/4/x"];

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn answer(
    tracker: &mut Tracker,
    reservation: Reservation,
    status: u16,
    fields: &[(&str, &str)],
    now: Moment,
) {
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    tracker.track(reservation, Response { status, fields, body: Some(b"{}") }, now);
}

fn clear(tracker: &mut Tracker, now: Moment) -> Reservation {
    match tracker.reserve(&Request::new("POST", PATHS[0]), now) {
        Verdict::Clear(reservation) => reservation,
        Verdict::Limited(limited) => panic!("{limited:?}"),
    }
}

/// For how long nobody may send.
fn shut_for(tracker: &mut Tracker, now: Moment) -> Option<Nanos> {
    match tracker.reserve(&Request::new("POST", PATHS[0]), now) {
        Verdict::Clear(_) => None,
        Verdict::Limited(limited) => Some(limited.retry_in),
    }
}

/// A tracker of whose five requests two are left for ten seconds, and one of them is in flight.
fn nearly_spent(now: Moment) -> Tracker {
    let mut tracker = Tracker::new(Profile::discord());
    let fields = [
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "2"),
        ("x-ratelimit-reset-after", "10.000"),
        ("x-ratelimit-bucket", "abcd"),
    ];
    let first = clear(&mut tracker, now);
    answer(&mut tracker, first, 200, &fields, now);
    let _in_flight = clear(&mut tracker, now);
    tracker
}

#[test]
fn what_was_spent_stays_spent_until_its_window_is_over() {
    let text = nearly_spent(at(500)).save(at(500), Moment::from_nanos(WALL));
    // The next process began to count elsewhere.
    for (passed, left) in [(0, Some(10_001)), (4_000, Some(6_001)), (10_002, None), (1 << 40, None)]
    {
        let wall = Moment::from_nanos(WALL).after(Nanos::new(passed * 1_000_000));
        let mut tracker = Tracker::new(Profile::discord());
        tracker.load(&text, at(77_000), wall).unwrap();
        let _one = clear(&mut tracker, at(77_000));
        let left = left.map(|ms| Nanos::new(ms * 1_000_000));
        assert_eq!(shut_for(&mut tracker, at(77_000)), left, "after {passed} ms");
    }
    // The clock on the wall was put back by an hour.
    let wall = Moment::from_nanos(WALL).before(Nanos::from_secs(3_600));
    let mut tracker = Tracker::new(Profile::discord());
    tracker.load(&text, at(77_000), wall).unwrap();
    let _one = clear(&mut tracker, at(77_000));
    assert_eq!(shut_for(&mut tracker, at(77_000)), Some(Nanos::new(10_001_000_000)));
}

#[test]
fn refusals_the_pace_and_names_are_known_to_the_next_process() {
    let now = at(1_000);
    let mut before = Tracker::new(Profile::discord());
    let other = Request::new("POST", PATHS[1]);
    let held: Vec<_> = (0..50).filter_map(|_| before.send_anyway(&other, now)).collect();
    for reservation in held {
        answer(&mut before, reservation, 200, &[], now);
    }
    let refused = before.send_anyway(&Request::new("POST", PATHS[0]), now).expect("there is room");
    let fields = [("retry-after", "30"), ("x-ratelimit-bucket", "abcd")];
    answer(&mut before, refused, 429, &fields, now);

    let mut after = Tracker::new(Profile::discord());
    after.load(&before.save(now, now), now, now).unwrap();
    assert_eq!(shut_for(&mut after, now), Some(Nanos::from_secs(30)));
    let Verdict::Limited(limited) = after.reserve(&other, now) else { panic!("fifty were sent") };
    assert_eq!(limited.retry_in, Nanos::from_secs(1));
    assert_eq!(before.snapshot(now), after.snapshot(now));
}

const SECOND_LONG: Nanos = Nanos::from_secs(1);
const ALL: Pace = Pace::new(50, SECOND_LONG);
const MESSAGES: Pace = Pace::counting("messages", 9, Nanos::from_secs(60), three_points);

fn three_points(request: &Request<'_>) -> u16 {
    if request.path == PATHS[0] { 3 } else { 0 }
}

#[test]
fn places_are_found_by_what_they_are_and_not_by_where_they_stand() {
    let tracker = |paces: &'static [Pace]| {
        Tracker::new(Profile { paces: Paces::new(paces), ..Profile::generic() })
    };
    let now = at(1_000);
    let mut before = tracker(&[ALL, MESSAGES]);
    for _ in 0..3 {
        let reservation = clear(&mut before, now);
        answer(&mut before, reservation, 200, &[], now);
    }
    let text = before.save(now, now);
    let cases: [(&'static [Pace], Option<u64>); 6] = [
        (&[ALL, MESSAGES], Some(60)),
        (&[MESSAGES, ALL], Some(60)),
        (&[MESSAGES], Some(60)),
        (const { &[ALL, Pace { count: 11, ..MESSAGES }] }, Some(60)),
        // Another limit than it was.
        (const { &[Pace { name: "other", ..MESSAGES }] }, None),
        (const { &[Pace { count: 2, ..ALL }, ALL] }, None),
    ];
    for (paces, shut_secs) in cases {
        let mut after = tracker(paces);
        after.load(&text, now, now).unwrap();
        assert_eq!(shut_for(&mut after, now), shut_secs.map(Nanos::from_secs), "{paces:?}");
    }
}

#[test]
fn who_believes_in_shorter_waits_waits_no_longer_for_what_was_saved() {
    let longest_wait = Nanos::from_secs(60);
    let now = at(1_000);
    let spent: &[(&str, &str)] = &[
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset-after", "3000"),
    ];
    let global: &[(&str, &str)] = &[("retry-after", "3000"), ("x-ratelimit-global", "true")];
    let refused: &[(&str, &str)] = &[("retry-after", "3000")];
    for profile in [Profile::generic(), Profile::discord(), Profile::openai()] {
        for (status, fields) in [(200, spent), (429, refused), (429, global)] {
            let mut before = Tracker::new(profile);
            let reservation = clear(&mut before, now);
            answer(&mut before, reservation, status, fields, now);
            let text = before.save(now, now);
            let mut after = Tracker::new(Profile { longest_wait, ..profile });
            after.load(&text, now, now).unwrap();
            let shut_for = shut_for(&mut after, now).expect("it is shut");
            let most = longest_wait.get() + u128::from(SECOND);
            assert!(shut_for.get() <= most, "{} {fields:?}: {shut_for:?}", profile.name);
        }
    }
}

/// Requests and answers of any kind, some of which are still in flight.
fn life(tracker: &mut Tracker, random: &mut Random) -> (Vec<Reservation>, Moment) {
    let (mut held, mut now) = (Vec::new(), at(5_000));
    for _ in 0..random.between(1, 60) {
        let request = Request::new("POST", random.pick(&PATHS));
        if let Verdict::Clear(reservation) = tracker.reserve(&request, now) {
            held.push(reservation);
        }
        if !held.is_empty() && random.chance(2, 3) {
            let place = usize::try_from(random.below(held.len() as u64)).expect("it is small");
            let reservation = held.swap_remove(place);
            let (left, secs) = (random.below(5).to_string(), random.between(1, 30).to_string());
            let reset = (1_790_000_000 + random.below(60)).to_string();
            let all = [
                ("date", "Mon, 21 Sep 2026 13:33:20 GMT"),
                ("x-ratelimit-bucket", random.pick(&["a", "b"])),
                ("x-ratelimit-limit", "5"),
                ("x-ratelimit-remaining", &left),
                random.pick(&[("x-ratelimit-reset", &*reset), ("x-ratelimit-reset-after", &secs)]),
                ("retry-after", &secs),
            ];
            let (status, some) = random.pick(&[(200, 5), (200, 5), (200, 1), (429, 6), (429, 2)]);
            answer(tracker, reservation, status, &all[..some], now);
        }
        now = now.after(Nanos::new(random.log_between(1_000, 4 * SECOND).into()));
    }
    (held, now)
}

#[test]
fn nothing_is_allowed_that_the_process_before_would_not_have_allowed() {
    let profiles = [
        Profile::generic(),
        Profile::discord(),
        Profile::github(),
        Profile::openai(),
        Profile::anthropic(),
    ];
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let profile = random.pick(&profiles);
        let mut before = Tracker::new(profile);
        let (held, now) = life(&mut before, &mut random);
        let text = before.save(now, Moment::from_nanos(WALL));
        // Whatever was in flight was never heard of.
        for reservation in held {
            before.lost(reservation, now);
        }
        let mut after = Tracker::new(profile);
        let later = Nanos::from_secs(random.below(2) * 1_000);
        after.load(&text, now.after(later), Moment::from_nanos(WALL)).unwrap();
        for ms in [0, 1, 10, 300, 1_000, 2_500, 7_000, 20_000, 60_000, 600_000] {
            for path in PATHS {
                let (request, now) =
                    (Request::new("POST", path), now.after(Nanos::new(ms * 1_000_000)));
                let is_clear = |tracker: &Tracker, now: Moment| {
                    matches!(tracker.clone().reserve(&request, now), Verdict::Clear(_))
                };
                if is_clear(&after, now.after(later)) {
                    assert!(is_clear(&before, now), "seed {seed}, {path}, {ms} ms: {text}");
                }
            }
        }
    }
}

#[test]
fn what_was_cut_or_changed_or_is_of_another_api_is_refused() {
    let text = nearly_spent(at(500)).save(at(500), at(500));
    let load = |text: &str| Tracker::new(Profile::discord()).load(text, at(600), at(600));
    load(&text).unwrap();
    load(&text.replace('\n', "\r\n")).expect_err("the first line is not the same");
    for end in 0..text.len() - 1 {
        load(&text[..end]).expect_err("it was cut");
    }
    for place in 0..text.len() - 1 {
        for byte in [b'0', b'9', b'-', b'"', b'z'] {
            let mut bytes = text.clone().into_bytes();
            if std::mem::replace(&mut bytes[place], byte) != byte {
                load(str::from_utf8(&bytes).unwrap()).expect_err("it was changed");
            }
        }
    }
    assert!(matches!(load(""), Err(LoadError::NotSaved { .. })));
    assert!(matches!(load("{}"), Err(LoadError::NotSaved { .. })));
    let newer = text.replacen("tracker 3 ", "tracker 4 ", 1);
    assert!(matches!(load(&newer), Err(LoadError::Format { .. })));
    let damaged = load(&text.replacen("abcd", "abce", 1)).unwrap_err();
    assert!(matches!(damaged, LoadError::Damaged { .. }), "{damaged}");

    let foreign = Tracker::new(Profile::generic()).load(&text, at(600), at(600)).unwrap_err();
    let told = "it is of profile `discord`, and this tracker has `all requests`: use that profile, or \
                begin without it";
    assert_eq!(foreign.to_string(), told);
    let mut used = nearly_spent(at(0));
    assert!(matches!(used.load(&text, at(600), at(600)), Err(LoadError::InUse { requests: 1 })));
}

/// Fifty requests in any second, and twenty in ten seconds from the first on; it says so of these.
#[derive(Default)]
struct Server {
    ends: u64,
    used: u64,
    all: VecDeque<u64>,
    /// How far the clock of the second process is behind.
    behind: u64,
    most_in_a_second: usize,
}

impl Api for Server {
    fn receive(&mut self, call: &Call, now: Moment) -> Answer {
        let now = now.as_nanos() + self.behind;
        self.all.retain(|at| at + SECOND > now);
        self.all.push_back(now);
        self.most_in_a_second = self.most_in_a_second.max(self.all.len());
        if call.path != PATHS[0] {
            return Answer { status: 200, ..Answer::default() };
        }
        if now >= self.ends {
            (self.ends, self.used) = (now + 10 * SECOND, 0);
        }
        let fits = self.used < 20;
        self.used += u64::from(fits);
        let left = (self.ends - now) as f64 / 1e9;
        let fields = vec![
            ("x-ratelimit-limit", "20".to_owned()),
            ("x-ratelimit-remaining", (20 - self.used).to_string()),
            ("x-ratelimit-reset-after", format!("{left:.3}")),
        ];
        Answer { status: if fits { 200 } else { 429 }, fields, ..Answer::default() }
    }
}

/// What two processes in a row send, of which the second knows what the first did, or not.
async fn restart(path: &'static str, knows: bool) -> (u64, usize) {
    let strategy = Strategy::Wait { queue: 1_000, deadline: Duration::from_mins(10) };
    let first = Gate::starting_at(Profile::discord(), simulation::start()).with(strategy);
    let next = move |_: &mut Random| Call::get(path);
    // All that there is, each of them once.
    let tasks = if path == PATHS[0] { 20 } else { 50 };
    let few = Callers { tasks, ..Callers::usual(Duration::from_millis(1)) };
    let (tally, mut server) = few.run(&first, Server::default(), next).await;
    let second = Gate::starting_at(Profile::discord(), simulation::start()).with(strategy);
    if knows {
        second.load(&first.save()).expect("it is for the same profile");
    }
    server.behind = first.now().since(second.now()).get() as u64;
    drop(first);
    let many = Callers::usual(Duration::from_secs(30));
    let (again, server) = many.run(&second, server, next).await;
    let refused = tally.refused + again.refused;
    println!("{path}, knows {knows}: refused {refused}, {} in a second", server.most_in_a_second);
    (refused, server.most_in_a_second)
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_nothing_is_sent_twice() {
    assert!(restart(PATHS[0], false).await.0 > 0, "or this shows nothing");
    assert_eq!(restart(PATHS[0], true).await.0, 0);
    assert!(restart(PATHS[1], false).await.1 > 50, "or this shows nothing");
    assert!(restart(PATHS[1], true).await.1 <= 50);
}
