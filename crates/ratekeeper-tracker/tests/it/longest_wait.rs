//! One answer that says too long: a bucket is not shut for longer than the longest wait, and is
//! open at once when it is forgotten.

use std::time::Duration;

use ratekeeper_tracker::profile::{Body, BodyUnit, LONGEST_WAIT_DEFAULT, Profile, Refill};
use ratekeeper_tracker::{
    Gate, Limited, Moment, Nanos, Reason, Refused, Request, Reservation, Response, SendPermit,
    Strategy, Tracker, Verdict,
};

const WEEK_SECS: f64 = 604_800.0;
const YEAR_9999: &str = "Fri, 31 Dec 9999 23:59:59 GMT";

type Fields = &'static [(&'static str, &'static str)];

fn things() -> Request<'static> {
    Request::new("GET", "/things")
}

fn start() -> Moment {
    Moment::from_nanos(1_790_000_000_000_000_000)
}

fn response(
    status: u16,
    fields: Fields,
    body: &str,
) -> Response<'_, impl IntoIterator<Item = (&'static str, &'static [u8])>> {
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    Response { status, fields, body: Some(body.as_bytes()) }
}

#[track_caller]
fn clear(tracker: &mut Tracker, now: Moment) -> Reservation {
    match tracker.reserve(&things(), now) {
        Verdict::Clear(reservation) => reservation,
        Verdict::Limited(limited) => panic!("{limited:?}"),
    }
}

#[track_caller]
fn limited(tracker: &mut Tracker, now: Moment) -> Limited {
    match tracker.reserve(&things(), now) {
        Verdict::Clear(_) => panic!("it is clear"),
        Verdict::Limited(limited) => limited,
    }
}

fn profiles() -> [Profile; 3] {
    let fixed = Refill::Fixed { precision: Nanos::from_secs(1) };
    let json = Body::Json { retry_after: BodyUnit::Seconds };
    let generic = Profile::generic();
    [generic, Profile { refill: fixed, ..generic }, Profile { body: json, ..generic }]
}

/// What was said wrongly, in fields or in the body, and how many seconds it was at least.
const CASES: [(Fields, &str, f64); 6] = [
    (&[("retry-after", "604800")], "{}", WEEK_SECS),
    (&[("retry-after", YEAR_9999)], "{}", 2.4e11),
    (&[("retry-after", "1e300"), ("x-ratelimit-remaining", "0")], "{}", 1e300),
    (
        &[
            ("retry-after", "604800"),
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset-after", "604800"),
        ],
        "{}",
        WEEK_SECS,
    ),
    (
        &[("ratelimit", "\"x\";r=0;t=9999999"), ("ratelimit-policy", "\"x\";q=10;w=9999999")],
        "{}",
        WEEK_SECS,
    ),
    (&[("retry-after", "4000")], "", 4_000.0),
];

#[test]
fn no_refusal_shuts_a_bucket_for_longer_than_the_longest_wait() {
    for longest_wait in [LONGEST_WAIT_DEFAULT, Nanos::from_secs(60)] {
        for profile in profiles() {
            for (fields, body, said) in CASES {
                let mut tracker = Tracker::new(Profile { longest_wait, ..profile });
                let reservation = clear(&mut tracker, start());
                tracker.track(reservation, response(429, fields, body), start());
                let refused = limited(&mut tracker, start());
                assert_eq!(refused.retry_in, longest_wait, "{fields:?}");
                assert!(refused.truly_secs >= Some(said), "{refused:?}");
                // Then one finds out, and if it is refused again, nobody else is.
                let then = refused.retry_at;
                let reservation = clear(&mut tracker, then);
                let others = limited(&mut tracker, then);
                assert!(others.retry_in <= longest_wait, "{others:?}");
                tracker.track(reservation, response(429, fields, body), then);
                assert_eq!(limited(&mut tracker, then).retry_in, longest_wait, "{fields:?}");
            }
        }
    }
}

#[test]
fn a_body_that_says_too_long_is_not_believed_either() {
    let json = Body::Json { retry_after: BodyUnit::Seconds };
    for said in ["604800", "1e300"] {
        let mut tracker = Tracker::new(Profile { body: json, ..Profile::generic() });
        let reservation = clear(&mut tracker, start());
        let body = format!("{{\"retry_after\": {said}}}");
        tracker.track(reservation, response(429, &[], &body), start());
        let refused = limited(&mut tracker, start());
        assert_eq!(refused.retry_in, LONGEST_WAIT_DEFAULT);
        assert_eq!(refused.truly_secs, said.parse().ok());
    }
}

#[test]
fn what_is_not_too_long_is_believed() {
    let mut tracker = Tracker::new(Profile::generic());
    let reservation = clear(&mut tracker, start());
    tracker.track(reservation, response(429, &[("retry-after", "3600")], ""), start());
    let refused = limited(&mut tracker, start());
    assert_eq!((refused.retry_in, refused.truly_secs), (LONGEST_WAIT_DEFAULT, None));
}

#[test]
fn what_is_forgotten_is_asked_about_by_one_request() {
    for everything in [false, true] {
        for (fields, body, _) in CASES {
            let mut tracker = Tracker::new(Profile::generic());
            let reservation = clear(&mut tracker, start());
            tracker.track(reservation, response(429, fields, body), start());
            let now = limited(&mut tracker, start()).retry_at.before(Nanos::from_secs(3_000));
            if everything {
                tracker.forget_all(now);
            } else {
                tracker.forget(&things(), now);
            }
            let reservation = clear(&mut tracker, now);
            assert_eq!(limited(&mut tracker, now).reason, Reason::Probing);
            tracker.track(reservation, response(200, &[], ""), now);
            let _both = [clear(&mut tracker, now), clear(&mut tracker, now)];
        }
    }
}

#[test]
fn a_page_of_a_proxy_is_forgotten_with_all() {
    let mut tracker = Tracker::new(Profile::discord());
    let reservation = clear(&mut tracker, start());
    let fields = &[("retry-after", "604800")];
    tracker.track(reservation, response(429, fields, "<h1>You are banned</h1>"), start());
    assert_eq!(limited(&mut tracker, start()).retry_in, LONGEST_WAIT_DEFAULT);
    tracker.forget(&things(), start());
    assert_eq!(limited(&mut tracker, start()).reason, Reason::Refused, "it was for everything");
    tracker.forget_all(start());
    let _reservation = clear(&mut tracker, start());
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_when_the_bucket_is_forgotten() {
    for everything in [false, true] {
        let strategy = Strategy::Wait { queue: 10, deadline: Duration::from_hours(24) };
        let gate = Gate::new(Profile::generic()).with(strategy);
        let mut permit = gate.acquire(&things()).await.expect("nothing is known");
        permit.sent();
        permit.track(response(429, &[("retry-after", "604800")], ""));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let gate = gate.clone();
            tasks.spawn(async move { gate.acquire(&things()).await });
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(tasks.try_join_next().is_none(), "it is shut");
        let forgotten = gate.now();
        if everything {
            gate.forget_all();
        } else {
            gate.forget(&things());
        }
        let first: Result<SendPermit, Refused> = tasks.join_next().await.unwrap().unwrap();
        let first = first.expect("it waits");
        assert_eq!(gate.now(), forgotten);
        first.track(response(200, &[], ""));
        for _ in 0..2 {
            drop(tasks.join_next().await.unwrap().unwrap().expect("it waits"));
        }
        assert_eq!(gate.now(), forgotten);
    }
}

/// Ten requests in twelve hours, told by nothing but refusals; until so many hours have passed.
/// Each wait is handed to `see`.
fn half_a_day(tracker: &mut Tracker, hours: u64, mut see: impl FnMut(&Limited)) -> Moment {
    let (mut now, mut window_ends, mut left) = (start(), start(), 0_u32);
    let end = start().after(Nanos::from_secs(hours * 3_600));
    while now < end {
        match tracker.reserve(&things(), now) {
            Verdict::Clear(reservation) => {
                if now >= window_ends {
                    window_ends = now.after(Nanos::from_secs(12 * 3_600));
                    left = 10;
                }
                let status = if left > 0 { 200 } else { 429 };
                left = left.saturating_sub(1);
                tracker.track(reservation, response(status, &[], ""), now);
                now = now.after(Nanos::new(1_000_000));
            }
            Verdict::Limited(limited) => {
                see(&limited);
                now = limited.retry_at;
            }
        }
    }
    now
}

#[test]
fn a_limit_that_is_learnt_from_refusals_shuts_a_bucket_for_no_longer_either() {
    let mut tracker = Tracker::new(Profile::generic());
    let mut is_paced = false;
    half_a_day(&mut tracker, 100, |limited| {
        assert!(limited.retry_in <= LONGEST_WAIT_DEFAULT, "{limited:?}");
        is_paced |= limited.reason == Reason::Spent;
    });
    assert!(is_paced, "a pace was learnt");
}

#[test]
fn a_learnt_limit_that_is_loaded_obeys_the_new_longest_wait_and_is_seen() {
    let mut tracker = Tracker::new(Profile::generic());
    let mut now = half_a_day(&mut tracker, 100, |_| {});
    while let Verdict::Clear(reservation) = tracker.reserve(&things(), now) {
        tracker.track(reservation, response(200, &[], ""), now);
    }
    let shut = limited(&mut tracker, now);
    assert!(shut.reason == Reason::Spent && shut.retry_in > Nanos::from_secs(600), "{shut:?}");
    let states = tracker.snapshot(now).states;
    let shown = states.iter().find_map(|state| state.reset_in);
    assert_eq!(shown, Some(shut.retry_in), "{states:?}");

    let longest_wait = Nanos::from_secs(60);
    let saved = tracker.save(now, now);
    let mut tracker = Tracker::new(Profile { longest_wait, ..Profile::generic() });
    tracker.load(&saved, now, now).expect("it is of the same profile");
    for _ in 0..3 {
        let shut = limited(&mut tracker, now);
        assert!(shut.retry_in <= longest_wait, "{shut:?}");
        now = shut.retry_at;
        let reservation = clear(&mut tracker, now);
        tracker.track(reservation, response(200, &[], ""), now);
    }
}
