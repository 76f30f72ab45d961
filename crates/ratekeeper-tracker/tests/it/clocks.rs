//! The caller's clock may be wrong, as long as it runs at the right speed.

use ratekeeper_tracker::Moment;
use ratekeeper_tracker::{Profile, Request, Response, Tracker, Verdict};

const SECOND: u64 = 1_000_000_000;
/// 10:00 on 16 November 2026, as the server knows it.
const TRUTH: u64 = 1_794_823_200 * SECOND;

#[test]
fn a_clock_that_is_an_hour_off_waits_a_little_too_long_and_never_too_short() {
    let reset_secs = 25;
    let epoch = (TRUTH / SECOND + reset_secs).to_string();
    let millis = (TRUTH / 1_000_000 + reset_secs * 1_000).to_string();
    let resets =
        [epoch.as_str(), millis.as_str(), "2026-11-16T10:00:25Z", "Mon, 16 Nov 2026 10:00:25 GMT"];
    let hour = 3_600 * SECOND;
    for clock in [TRUTH - hour, TRUTH, TRUTH + hour] {
        for reset in resets {
            // The response was made within the second that its date says.
            for into_second in [0, SECOND / 2, SECOND - 1] {
                // Where nothing is known, whole seconds may have been rounded down as well.
                for (profile, secs) in [(Profile::generic(), 2), (Profile::github(), 1)] {
                    let waited = wait(profile, reset, Moment::from_nanos(clock + into_second));
                    let right = reset_secs * SECOND - into_second;
                    let longest = right + secs * SECOND;
                    assert!((right..=longest).contains(&waited), "{reset} at {clock}: {waited}");
                }
            }
        }
    }
}

/// How long a caller waits whose clock says `now` when it hears of the reset.
fn wait(profile: Profile, reset: &str, now: Moment) -> u64 {
    let mut tracker = Tracker::new(profile);
    let request = Request::new("GET", "/things");
    let Verdict::Clear(reservation) = tracker.reserve(&request, now) else { panic!("unknown") };
    let fields: [(&str, &[u8]); 4] = [
        ("date", b"Mon, 16 Nov 2026 10:00:00 GMT"),
        ("x-ratelimit-limit", b"10"),
        ("x-ratelimit-remaining", b"0"),
        ("x-ratelimit-reset", reset.as_bytes()),
    ];
    tracker.track(reservation, Response { status: 200, fields, body: None }, now);
    let Verdict::Limited(limited) = tracker.reserve(&request, now) else { panic!("spent") };
    u64::try_from(limited.retry_in.get()).expect("it is not long")
}
