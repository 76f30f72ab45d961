use ratekeeper_time::Moment;

use super::ServerClock;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn one_answer_tells_the_time_to_as_long_as_it_took() {
    for server_ms in [100_000_u64, 7_300_250] {
        for ours_ms in [100_400_u64, 5_000, 9_000_000] {
            let mut clock = ServerClock::default();
            // The server wrote it at any time between the ask and the answer.
            for written_ms in [0, 7, 20] {
                clock.learn(at(server_ms + written_ms), at(ours_ms), at(ours_ms + 20));
                let (says, truly) = (clock.at(at(ours_ms + 500)).unwrap(), at(server_ms + 500));
                assert!(says >= truly.before(MS_20) && says <= truly.after(MS_20));
            }
        }
    }
}

const MS_20: ratekeeper_time::Nanos = ratekeeper_time::Nanos::new(20_000_000);

#[test]
fn what_answers_confirm_is_not_changed() {
    let mut clock = ServerClock::default();
    clock.learn(at(10_000), at(10_000), at(10_000));
    for ms in (10_000..20_000).step_by(7) {
        clock.learn(at(ms + ms % 5), at(ms), at(ms + 5));
        assert_eq!(clock.at(at(ms)), Some(at(ms)));
    }
}

#[test]
fn before_the_first_answer_nobody_knows() {
    assert_eq!(ServerClock::default().at(at(7)), None);
}
