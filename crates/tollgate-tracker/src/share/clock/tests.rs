use tollgate::{Moment, Nanos};

use super::ServerClock;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

/// Answers take 20 ms, and the server's clock is `server_ms` when ours is `ours_ms`.
fn learn(clock: &mut ServerClock, ours_ms: u64, server_ms: u64) {
    let second = Some(at(server_ms / 1_000 * 1_000));
    clock.learn(second, at(ours_ms - 10), at(ours_ms + 10));
}

#[test]
fn one_answer_tells_the_time_to_a_second_and_many_tell_it_better() {
    for server_ms in [100_000_u64, 100_500, 100_999, 7_300_250] {
        for ours_ms in [100_400_u64, 5_000, 9_000_000] {
            let mut clock = ServerClock::default();
            let off = |clock: &ServerClock, after_ms: u64| {
                let says = clock.at(at(ours_ms + after_ms));
                let truly = at(server_ms + after_ms);
                says.since(truly).max(truly.since(says))
            };
            learn(&mut clock, ours_ms, server_ms);
            assert!(off(&clock, 0) <= Nanos::new(1_010_000_000), "{}", off(&clock, 0));
            for step in 0..200 {
                learn(&mut clock, ours_ms + step * 17, server_ms + step * 17);
            }
            assert!(off(&clock, 0) <= Nanos::new(30_000_000), "{}", off(&clock, 0));
        }
    }
}

#[test]
fn clocks_that_agree_are_left_as_they_are() {
    let mut clock = ServerClock::default();
    for ms in (10_000..20_000).step_by(7) {
        learn(&mut clock, ms, ms);
        assert_eq!(clock.at(at(ms)), at(ms));
    }
}

#[test]
fn a_server_that_does_not_say_has_our_time() {
    let mut clock = ServerClock::default();
    assert!(!clock.is_asked);
    clock.learn(None, at(5), at(6));
    assert!(clock.is_asked);
    assert_eq!(clock.at(at(7)), at(7));
}
