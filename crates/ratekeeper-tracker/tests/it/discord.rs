//! A virtual hour with a simulated Discord: no refusal, and nearly all that it permits.

use crate::world;

use ratekeeper_testkit::discord::{Discord, Kind, Network, Place, Tally};
use world::{Habit, SECOND, START, World};

const HOUR_SECS: u64 = 3_600;
const TASKS: usize = 50;
const ROUTES: usize = 200;
/// The names of buckets change six times in the hour.
const RENAMED_EVERY: u64 = 600 * SECOND;
const GLOBAL_PER_SEC: u64 = 50;

#[test]
fn where_the_global_limit_binds_it_is_used_and_kept() {
    let places = (0..ROUTES as u64).map(|n| match n % 4 {
        0 => Place::new(Kind::Free, n, u64::MAX, SECOND),
        1 => Place::new(Kind::Messages, n, 1_000, SECOND),
        2 => Place::new(Kind::Members, n, 5_000, 10 * SECOND),
        _ => Place::new(Kind::Webhook, n, 500, 5 * SECOND),
    });
    let tasks = vec![Habit::Waits((0..ROUTES).collect()); TASKS];
    let world = an_hour(places.collect(), tasks);
    assert_no_refusal(&world);
    assert_used("global limit", world.served.iter().sum(), GLOBAL_PER_SEC * HOUR_SECS, 95);
}

#[test]
fn where_each_route_is_limited_each_is_used_and_kept() {
    let places: Vec<_> = (0..ROUTES as u64).map(slow).collect();
    let permitted = permitted(&places);
    // Each task has four routes, and each route one task.
    let tasks = (0..TASKS).map(|task| Habit::Asks((4 * task..4 * task + 4).collect())).collect();
    let world = an_hour(places, tasks);
    assert_no_refusal(&world);
    assert_used("routes", world.served.iter().sum(), permitted, 95);
}

#[test]
fn where_tasks_want_the_same_routes_no_more_go_than_there_is() {
    const TOGETHER: usize = 2;
    const SHARED: usize = ROUTES * TOGETHER / TASKS;
    let places: Vec<_> = (0..ROUTES as u64).map(slow).collect();
    let permitted = permitted(&places);
    let tasks = (0..TASKS).map(|task| {
        let first = task / TOGETHER * SHARED;
        Habit::Asks((first..first + SHARED).collect())
    });
    let world = an_hour(places, tasks.collect());
    assert_no_refusal(&world);
    assert_used("routes of many", world.served.iter().sum(), permitted, 95);
}

#[test]
fn where_both_bind_the_slow_routes_have_their_share() {
    // Every other task waits for a slow route of its own, the rest for whatever is quick.
    let slow = TASKS / 2;
    let places = (0..ROUTES as u64).map(|n| match n {
        n if n < slow as u64 => Place::new(Kind::Messages, n, 10, 30 * SECOND),
        _ => Place::new(Kind::Members, n, 100, SECOND),
    });
    let tasks = (0..TASKS).map(|task| {
        if task < slow { Habit::Waits(vec![task]) } else { Habit::Waits((slow..ROUTES).collect()) }
    });
    let world = an_hour(places.collect(), tasks.collect());
    assert_no_refusal(&world);
    assert_used("global limit", world.served.iter().sum(), GLOBAL_PER_SEC * HOUR_SECS, 95);
    let of_slow = world.served[..slow].iter().sum();
    assert_used("slow routes", of_slow, slow as u64 * 10 * HOUR_SECS / 30, 95);
}

#[test]
fn refusals_that_others_cause_stop_only_the_route_and_are_obeyed() {
    let crowded = 24;
    let places = (0..ROUTES as u64).map(|n| {
        let place = slow(n);
        if n < crowded { place.crowded(10) } else { place }
    });
    let places: Vec<_> = places.collect();
    let quiet = usize::try_from(crowded).expect("a few");
    let permitted = permitted(&places[quiet..]);
    let tasks = (0..TASKS).map(|task| Habit::Asks((4 * task..4 * task + 4).collect())).collect();
    // In this world nothing is sent to a place before its last refusal is over.
    let world = an_hour(places, tasks);
    let Tally { refused_globally, refused_by_bucket, refused_as_shared, .. } = world.server.tally();
    assert_eq!((refused_globally, refused_by_bucket), (0, 0));
    assert!(refused_as_shared > 100, "{refused_as_shared}");
    assert_used("other routes", world.served[quiet..].iter().sum(), permitted, 95);
}

#[test]
fn refusals_that_others_cause_are_not_taken_for_our_own() {
    const BANNED_FROM: u64 = 10_000;
    const BAN_SECS: u64 = 600;
    let places = (0..ROUTES as u64).map(|n| Place::new(Kind::Members, n, 100, SECOND).crowded(60));
    let tasks = vec![Habit::Waits((0..ROUTES).collect()); 4 * TASKS];
    let server = Discord::new(places.collect(), RENAMED_EVERY, 1);
    let mut world = World::new(server, Network::usual(2), tasks, 3);
    world.run(BAN_SECS);
    let Tally { served, refused_as_shared, .. } = world.server.tally();
    assert!(refused_as_shared > BANNED_FROM, "{refused_as_shared} would have got nobody banned");
    world.run(BAN_SECS + 60);
    let since = world.server.tally().served - served;
    assert!(since > 500, "only {since} were served in the minute after");
}

/// What places permit in an hour. Pins and typing of a channel share a bucket, so its budget counts
/// once.
fn permitted(places: &[Place]) -> u64 {
    let permitted = |place: &Place| place.limit * HOUR_SECS * SECOND / place.window;
    let total: u64 = places.iter().map(permitted).sum();
    let shared: u64 = places.iter().skip(3).step_by(8).map(permitted).sum();
    total - shared
}

/// A route that is limited by itself; all of them together need less than the global limit.
fn slow(n: u64) -> Place {
    let channel = n / 8;
    match n % 8 {
        0 => Place::new(Kind::Messages, channel, 5, 20 * SECOND),
        1 => Place::new(Kind::Deletion, channel, 3, 15 * SECOND),
        2 => Place::new(Kind::Pins, channel, 10, 40 * SECOND),
        3 => Place::new(Kind::Typing, channel, 10, 40 * SECOND),
        4 => Place::new(Kind::Members, n, 1, 5 * SECOND),
        5 if n % 16 == 5 => Place::new(Kind::OldDeletion, channel, 2, 10 * SECOND),
        5 => Place::new(Kind::Webhook, n, 5, 25 * SECOND),
        6 => Place::new(Kind::Interaction, n, 4, 12 * SECOND),
        _ => Place::new(Kind::Members, n, 30, 120 * SECOND),
    }
}

/// An hour's traffic, after a minute in which everybody gets to know the place.
fn an_hour(places: Vec<Place>, tasks: Vec<Habit>) -> World {
    const WARM_UP_SECS: u64 = 60;
    let server = Discord::new(places, RENAMED_EVERY, 1);
    let mut world = World::new(server, Network::usual(2), tasks, 3);
    world.count_from = START + WARM_UP_SECS * SECOND;
    world.run(WARM_UP_SECS + HOUR_SECS);
    println!("{:?}", world.server.tally());
    world
}

fn assert_no_refusal(world: &World) {
    let Tally { refused_globally, refused_by_bucket, refused_as_shared, .. } = world.server.tally();
    assert_eq!((refused_globally, refused_by_bucket, refused_as_shared), (0, 0, 0));
}

#[track_caller]
fn assert_used(what: &str, used: u64, permitted: u64, percent: u64) {
    let per_mille = used * 1_000 / permitted;
    println!("{what}: {used} of {permitted}, {per_mille} per mille");
    assert!(used * 100 >= permitted * percent, "{what}: {used} of {permitted}");
}
