use ratekeeper_time::Nanos;

use super::{BEGIN_MS, DISCORD, MS, Pace, Server, Setting, World, at, kept_max, percent};

/// Other APIs, with other windows and other networks.
const SETTINGS: [Setting; 5] = [
    DISCORD,
    Setting {
        pace: Pace::new(50, Nanos::from_secs(1)),
        late_max_ms: 300,
        slow_max_ms: 200,
        trip_max_ms: 40,
    },
    Setting {
        pace: Pace::new(5, Nanos::new(250_000_000)),
        late_max_ms: 8,
        slow_max_ms: 4,
        trip_max_ms: 1,
    },
    Setting {
        pace: Pace::new(20, Nanos::from_secs(5)),
        late_max_ms: 60,
        slow_max_ms: 400,
        trip_max_ms: 10,
    },
    Setting {
        pace: Pace::new(90, Nanos::from_secs(60)),
        late_max_ms: 60,
        slow_max_ms: 2_000,
        trip_max_ms: 5,
    },
];

impl Setting {
    fn window_ms(&self) -> u64 {
        u64::try_from(self.pace.window.get()).unwrap() / MS
    }

    /// For how long tokens are missing at most that nobody gives back, and a moment for answers.
    fn missing_ms(&self) -> u64 {
        u64::try_from(kept_max(self.pace.window).get()).unwrap() / MS + 100
    }

    /// What can be used of it where each request holds its token while it is on its way too.
    fn usable_percent(&self) -> f64 {
        let window = self.window_ms();
        let held = self.late_max_ms + self.slow_max_ms + 4 * self.trip_max_ms + 16;
        percent(window, window + held)
    }
}

#[test]
fn processes_share_all_there_is_and_never_more() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        let mut world = World::new(setting, 4, index as u64);
        let length_ms = setting.window_ms() * 20;
        world.run(BEGIN_MS, BEGIN_MS + length_ms + setting.window_ms());
        let begin = BEGIN_MS + setting.window_ms();
        let used = world.percent(begin, begin + length_ms);
        world.show(&format!("{setting:?}"), &[used]);
        assert!(used >= setting.usable_percent(), "{used} of {}", setting.usable_percent());
    }
}

/// However long requests take, who lives renews what it holds.
#[test]
fn requests_that_are_on_their_way_for_many_terms_are_never_counted_twice() {
    for (late_max_ms, at_least) in [(2_000, 40.0), (10_000, 8.0), (60_000, 1.0)] {
        let setting = Setting { late_max_ms, ..DISCORD };
        let mut world = World::new(setting, 4, late_max_ms);
        world.run(BEGIN_MS, BEGIN_MS + 200_000);
        let used = world.percent(BEGIN_MS, BEGIN_MS + 200_000);
        world.show(&format!("up to {late_max_ms} ms late"), &[used]);
        assert!(used >= at_least, "{used}");
    }
}

#[test]
fn processes_share_one_allowance_whatever_their_clocks_say() {
    let mut world = World::new(DISCORD, 4, 7);
    for (process, ahead_ms) in world.processes.iter_mut().zip([0_u64, 2_500, 31_000, 86_400_000]) {
        process.ahead = Nanos::new(u128::from(ahead_ms * MS));
    }
    world.run(BEGIN_MS, BEGIN_MS + 100_000);
    let used = world.percent(BEGIN_MS, BEGIN_MS + 100_000);
    world.show("clocks that differ by a day", &[used]);
    assert!(used >= 96.0, "{used}");
}

#[test]
fn after_all_processes_have_closed_those_that_follow_find_all_of_it() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        for seed in 0..5 {
            let mut world = World::new(setting, 4, seed * 10 + index as u64);
            let window_ms = setting.window_ms();
            let close = BEGIN_MS + window_ms * (3 + seed) + seed * 97;
            world.run(BEGIN_MS, close);
            let took_ms = world.close_all(close);
            let bound = window_ms
                + setting.late_max_ms
                + setting.slow_max_ms
                + 4 * setting.trip_max_ms
                + 20;
            assert!(took_ms <= bound, "closing took {took_ms} ms");
            assert!(
                world.server.buckets.iter().filter(|(_, left)| **left < setting.pace.count).count()
                    < 99
            );
            let again = close + took_ms;
            world.start(4);
            let end = again + window_ms.max(1_000);
            world.run(again, end);
            // All tokens at once, as in the first window.
            let range = at(again)..at(again + 150 + setting.late_max_ms + 10 * setting.trip_max_ms);
            let sent = world.arrived.iter().filter(|at| range.contains(at)).count();
            world.show(&format!("closed in {took_ms} ms, {setting:?}: {sent} at once"), &[]);
            assert_eq!(sent, setting.pace.count as usize);
        }
    }
}

#[test]
fn after_all_processes_were_killed_those_that_follow_are_at_full_speed_in_a_few_seconds() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        for seed in 0..10 {
            let mut world = World::new(setting, 4, seed * 10 + index as u64);
            let window_ms = setting.window_ms();
            let killed = BEGIN_MS + window_ms * 3 + seed * 397;
            world.run(BEGIN_MS, killed);
            world.kill(4);
            world.start(4);
            let full = killed + setting.missing_ms() + window_ms;
            let end = full + 10 * window_ms;
            world.run(killed, end);
            let (before, after) = (world.percent(killed, full), world.percent(full, end));
            world.show(&format!("killed, {setting:?}"), &[before, after]);
            assert!(after >= setting.usable_percent(), "{after} of {}", setting.usable_percent());
        }
    }
}

#[test]
fn what_one_of_four_held_when_it_was_killed_is_back_in_a_few_seconds() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        for seed in 0..10 {
            let mut world = World::new(setting, 4, seed * 10 + index as u64);
            let window_ms = setting.window_ms();
            let killed = BEGIN_MS + window_ms * 3 + seed * 397;
            world.run(BEGIN_MS, killed);
            world.kill(1);
            let full = killed + setting.missing_ms() + window_ms;
            let end = full + 10 * window_ms;
            world.run(killed, end);
            let (before, after) = (world.percent(killed, full), world.percent(full, end));
            world.show(&format!("one killed, {setting:?}"), &[before, after]);
            assert!(after >= setting.usable_percent(), "{after} of {}", setting.usable_percent());
        }
    }
}

/// Also where answers of the server take long, and clocks differ.
#[test]
fn what_killed_processes_sent_is_counted_if_it_arrives_within_a_second() {
    for seed in 0..30 {
        let setting = Setting { late_max_ms: 1_000, trip_max_ms: 10 * (seed % 5), ..DISCORD };
        let mut world = World::new(setting, 4 + usize::try_from(seed).unwrap(), seed);
        let mut now = BEGIN_MS;
        for turn in 0..15 {
            let rest = 1 + world.random.below(4_000);
            world.run(now, now + rest);
            now += rest;
            let killed = 1 + world.random.index(world.processes.len());
            world.kill(killed);
            world.start(killed);
            let ahead = world.random.below(100_000 * turn + 1);
            world.processes.last_mut().unwrap().ahead = Nanos::new((ahead * MS).into());
        }
        let used = world.percent(BEGIN_MS + 1_000, now);
        world.show("killed again and again", &[used]);
        assert!(used >= 10.0, "{used}");
    }
}

#[test]
fn when_the_server_goes_each_has_its_share_and_when_it_is_back_all_is_shared_again() {
    for seed in 0..20 {
        let mut world = World::new(Setting { late_max_ms: 15, ..DISCORD }, 4, seed);
        let from = BEGIN_MS;
        world.run(from, from + 5_000);
        world.server.is_there = false;
        let back = from + 15_000 + seed * 13;
        world.run(from + 5_000, back);
        // It has forgotten everything.
        world.server = Server::started(50, back - 40);
        world.run(back, from + 28_000);
        let alone = world.percent(from + 7_000, from + 15_000);
        let together = world.percent(back + 4_200, from + 28_000);
        world.show("away", &[alone, together]);
        assert!((88.0..=96.0).contains(&alone), "{alone}");
        assert!(together >= 92.0, "{together}");
        assert!(world.processes.iter().all(|process| !process.state.is_away()));
    }
}

/// It was killed and started again between two asks, so that none was in vain.
#[test]
fn a_server_that_forgot_everything_unnoticed_is_not_trusted_before_it_is_old_enough() {
    for seed in 0..40 {
        for (late_max_ms, waiting) in [(15, 5), (900, 5), (15, 1), (5_000, 3)] {
            let mut world = World::new(Setting { late_max_ms, ..DISCORD }, 4, seed);
            // Some are idle, and have all of it to send when it is back.
            for process in &mut world.processes {
                process.waiting = waiting;
            }
            let restart = BEGIN_MS + 5_000 + seed * 37;
            world.processes[3].waiting = 0;
            world.run(BEGIN_MS, restart);
            world.server = Server::started(50, restart);
            world.processes[3].waiting = 50;
            world.run(restart, restart + 12_000);
            let again = world.percent(restart + 5_700, restart + 12_000);
            world.show(&format!("forgotten, {late_max_ms} ms late"), &[again]);
            if late_max_ms == 15 {
                assert!(again >= 90.0, "{again}");
            }
        }
    }
}

/// What they held, and what they asked for and never heard of, is not missing afterwards.
#[test]
fn a_server_that_was_silent_for_a_moment_and_forgot_nothing_is_used_in_full_again() {
    for seed in 0..20 {
        let late_max_ms = 15 + seed * 20;
        let setting = Setting { late_max_ms, ..DISCORD };
        let mut world = World::new(setting, 4, seed);
        let from = BEGIN_MS;
        world.run(from, from + 5_000);
        world.server.is_there = false;
        let back = from + 5_600 + seed * 13;
        world.run(from + 5_000, back);
        world.server.go_on(at(back));
        world.run(back, from + 25_000);
        let mut twin = World::new(setting, 4, seed);
        twin.run(from, from + 25_000);
        let [again, never_silent] =
            [&world, &twin].map(|it| it.percent(from + 10_000, from + 22_000));
        world.show("silent for a moment", &[again, never_silent]);
        // They may go all at once, each second.
        assert!(again + 100.0 / 12.0 >= never_silent, "seed {seed}: {again} of {never_silent}");
    }
}

/// It comes back as it was a while ago, when most was free.
#[test]
fn a_server_that_remembers_only_what_it_had_saved_is_used_in_full_again() {
    for seed in 0..20 {
        let mut world = World::new(Setting { late_max_ms: 15, ..DISCORD }, 4, seed);
        let from = BEGIN_MS;
        world.run(from, from + 200 + seed * 30);
        let saved = world.server.buckets.clone();
        world.run(from + 200 + seed * 30, from + 5_000);
        world.server.is_there = false;
        world.run(from + 5_000, from + 7_000);
        let buckets = saved;
        world.server = Server { buckets, ..Server::started(50, from + 7_000) };
        world.run(from + 7_000, from + 16_000);
        let again = world.percent(from + 12_500, from + 16_000);
        world.show("saved a while ago", &[again]);
        assert!(again >= 92.0, "{again}");
    }
}

/// All that can happen, in any order, many times.
#[test]
fn whatever_happens_the_api_never_counts_too_many() {
    for seed in 0..100 {
        let setting = SETTINGS[seed % (SETTINGS.len() - 1)];
        let mut world = World::new(setting, 4, seed as u64);
        let mut now = BEGIN_MS;
        for _ in 0..25 {
            // Who begins while the server is away notices that before it is back.
            let least = if world.server.is_there { 1 } else { 1_000 };
            let rest = least + world.random.below(3 * setting.window_ms() + 2_000);
            world.run(now, now + rest);
            now += rest;
            match world.random.below(9) {
                0 => world.kill(4),
                1 => world.kill(1 + usize::from(seed % 2 == 0)),
                2 => now += world.close_all(now),
                3 | 4 => world.server.is_there = false,
                5 if world.server.is_there => {
                    world.server = Server::started(setting.pace.count, now);
                }
                _ if !world.server.is_there => {
                    world.server.go_on(at(now));
                    // Who begins in this time cannot know what others have sent without the server.
                    let all_know = now + setting.window_ms() + 1_100;
                    world.run(now, all_know);
                    now = all_know;
                }
                _ => {}
            }
            let missing = 4 - world.processes.len();
            world.start(missing);
            world.processes[0].waiting = world.random.index(9);
        }
        world.run(now, now + 1_000);
        now += 1_000;
        world.server.is_there = true;
        let full = now + setting.missing_ms() + 3 * setting.window_ms() + 2_000;
        let end = full + 10 * setting.window_ms();
        for process in &mut world.processes {
            process.waiting = 5;
        }
        world.run(now, end);
        let used = world.percent(full, end);
        world.show(&format!("whatever, {setting:?}"), &[used]);
        assert!(used >= setting.usable_percent(), "{used} of {}", setting.usable_percent());
    }
}
