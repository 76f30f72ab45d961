//! Four processes that share fifty requests a second through a server.
//!
//! The API is strict: it counts a request when it arrives, and refuses the fifty-first in any
//! second. The program starts itself again as each of the processes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod api;
mod network;
mod process;
mod scene;
mod wrong;

use scene::{Scene, Way};

type Test = (&'static str, fn());

const TESTS: [Test; 6] = [
    ("what_is_wrong_is_told_at_the_start", wrong::all),
    ("four_processes_share_fifty_a_second_of_which_those_after_them_find_all", share_and_close),
    ("four_processes_that_were_killed_are_followed_by_others_at_full_speed", killed),
    ("a_server_that_was_silent_for_a_moment_is_used_in_full_again", silent),
    ("while_the_server_is_away_each_has_its_share_and_then_all_is_shared_again", away),
    ("a_server_that_was_restarted_in_a_moment_is_not_trusted_too_early", restarted),
];

/// How much of fifty a second is used at least, on however busy a machine.
const PERCENT_MIN: f64 = 95.0;
/// A server is trusted when it is so old.
const OLD_ENOUGH_MS: u64 = 3_000;
/// How long what killed processes held is missing at most.
const MISSING_MAX_MS: u64 = 4_500;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == process::WORD) {
        return process::run(&arguments[1..]);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    for (name, test) in TESTS {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// Four processes, when the server is old enough.
fn begin(way: Way, alone: u32, secs: u64) -> Scene {
    let mut scene = Scene::start(way);
    scene.wait_until_ms(OLD_ENOUGH_MS);
    scene.start_processes(alone, secs);
    scene
}

fn share_and_close() {
    let mut scene = begin(Way::Direct, 12, 9);
    scene.wait_until_ms(11_500);
    let percent = scene.api.used_percent(5_000, 11_000);
    scene.join_processes();
    // All of it is there at once: they find all tokens, and then wait for the first.
    let again_ms = scene.api.elapsed_ms();
    scene.start_processes(12, 4);
    scene.wait_until_ms(again_ms + 1_500);
    let at_once = scene.api.accepted(again_ms, again_ms + 900);
    let refused = scene.end();
    println!("closed: {percent:.1} % used, then {at_once} at once, {refused} refused");
    assert_eq!(refused, 0);
    assert!(percent >= PERCENT_MIN, "{percent:.1} %");
    assert!(at_once >= 48, "{at_once} at once");
}

fn killed() {
    let mut scene = begin(Way::Direct, 12, 60);
    scene.wait_until_ms(6_500);
    scene.kill_processes();
    let killed_ms = scene.api.elapsed_ms();
    let full_ms = killed_ms + MISSING_MAX_MS + 500;
    scene.start_processes(12, 12);
    scene.wait_until_ms(full_ms + 5_500);
    let missing = scene.api.used_percent(killed_ms + 1_000, killed_ms + 4_000);
    let percent = scene.api.used_percent(full_ms + 1_000, full_ms + 5_000);
    let refused = scene.end();
    println!("killed: {missing:.1} % used, then {percent:.1} %, {refused} refused");
    assert_eq!(refused, 0);
    assert!(percent >= PERCENT_MIN, "{percent:.1} %");
}

fn silent() {
    let scene = begin(Way::Network, 5, 14);
    scene.wait_until_ms(6_500);
    let network = scene.network.as_ref().unwrap();
    network.stand_still(|| scene.wait_until_ms(7_300));
    scene.wait_until_ms(16_500);
    let percent = scene.api.used_percent(12_000, 16_000);
    let refused = scene.end();
    println!("after a silence: {percent:.1} % used, {refused} refused");
    assert_eq!(refused, 0);
    assert!(percent >= PERCENT_MIN, "{percent:.1} %");
}

fn away() {
    // Their own share is small, so that it can be told from what they share.
    let mut scene = begin(Way::Direct, 5, 15);
    scene.wait_until_ms(6_500);
    scene.stop_server();
    scene.wait_until_ms(10_300);
    scene.start_server();
    scene.wait_until_ms(17_400);
    let together = scene.api.accepted(3_800, 6_500);
    let alone = scene.api.accepted(8_300, 10_300);
    let again = scene.api.accepted(14_700, 17_400);
    let refused = scene.end();
    println!("{together} together, {alone} alone, {again} together again, {refused} refused");
    assert_eq!(refused, 0);
    // They may all go at once, each second.
    assert!(together >= 100, "{together} in 2.7 s");
    assert!((20..=40).contains(&alone), "{alone} in 2 s, of 4 * 5 in each");
    assert!(again >= 100, "{again} in 2.7 s");
}

fn restarted() {
    let mut scene = begin(Way::Direct, 12, 12);
    for restart_ms in [5_300, 5_700, 9_000] {
        scene.wait_until_ms(restart_ms);
        scene.stop_server();
        scene.wait_until_ms(restart_ms + 100);
        scene.start_server();
    }
    scene.wait_until_ms(14_500);
    let again = scene.api.accepted(12_600, 14_500);
    let refused = scene.end();
    println!("restarted: {again} used again in 1.9 s, {refused} refused");
    assert_eq!(refused, 0);
    assert!(again >= 50, "{again}");
}
