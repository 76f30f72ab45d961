//! Four processes that share fifty requests a second through a server.
//!
//! The API is strict: it counts a request when it arrives, and refuses the fifty-first in any
//! second. The program starts itself again as each of the processes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod api;
mod network;
mod process;
mod scene;

use scene::{Door, Scene};

type Test = (&'static str, fn());

const TESTS: [Test; 5] = [
    ("four_processes_share_fifty_a_second_over_http", over_http),
    ("four_processes_share_fifty_a_second_across_the_end_of_a_term", across_terms),
    ("four_processes_share_fifty_a_second_over_udp", over_udp),
    ("a_server_that_was_silent_for_a_moment_is_used_in_full_again", silent),
    ("while_the_server_is_away_each_has_its_share_and_then_all_is_shared_again", away),
];

/// How much of fifty a second is used at least, on however busy a machine.
const PERCENT_MIN: f64 = 95.0;

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

fn over_http() {
    share(Door::Http);
}

fn across_terms() {
    // Around it, for five seconds, tokens are taken of both terms.
    share(Door::Far { term_ends_in_secs: 5 });
}

fn over_udp() {
    share(Door::Udp);
}

fn share(door: Door) {
    let scene = Scene::start(door, 12, 10);
    scene.wait_until_ms(9_500);
    let percent = scene.api.used_percent(2_500, 9_500);
    let refused = scene.end();
    println!("{door:?}: {percent:.1} % used, {refused} refused");
    assert_eq!(refused, 0, "{door:?}");
    assert!(percent >= PERCENT_MIN, "{door:?}: {percent:.1} %");
}

fn silent() {
    // No term ends that would bring back what is missing.
    let scene = Scene::start(Door::Far { term_ends_in_secs: 40 }, 5, 14);
    scene.wait_until_ms(3_500);
    let network = scene.network.as_ref().unwrap();
    network.stand_still(|| scene.wait_until_ms(4_300));
    scene.wait_until_ms(13_000);
    let percent = scene.api.used_percent(8_000, 13_000);
    let refused = scene.end();
    println!("after a silence: {percent:.1} % used, {refused} refused");
    assert_eq!(refused, 0);
    assert!(percent >= PERCENT_MIN, "{percent:.1} %");
}

fn away() {
    // Their own share is small, so that it can be told from what they share.
    let mut scene = Scene::start(Door::Http, 5, 13);
    scene.wait_until_ms(3_500);
    scene.stop_server();
    scene.wait_until_ms(7_300);
    scene.start_server();
    scene.wait_until_ms(12_400);
    let together = scene.api.accepted(800, 3_500);
    let alone = scene.api.accepted(5_300, 7_300);
    let again = scene.api.accepted(9_700, 12_400);
    let refused = scene.end();
    println!("{together} together, {alone} alone, {again} together again, {refused} refused");
    assert_eq!(refused, 0);
    // They may all go at once, each second.
    assert!(together >= 100, "{together} in 2.7 s");
    assert!((20..=40).contains(&alone), "{alone} in 2 s, of 4 * 5 in each");
    assert!(again >= 100, "{again} in 2.7 s");
}
