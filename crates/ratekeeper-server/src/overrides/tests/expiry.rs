//! Overrides that end by themselves.

use std::fs;

use ratekeeper::{Moment, Nanos};

use super::{OverridesFixture, WHO, audit, hourly, left, put, spend};
use crate::overrides::{Action, NewOverride};
use crate::server::Server;

const MINUTE: Nanos = Nanos::from_secs(60);

fn until(server: &Server, id: &str, length: Nanos) -> Moment {
    let until = server.time().now().after(length);
    let new = NewOverride { until: Some(until), ..hourly("Orders", id, 100) };
    server.put_override(new, WHO, false).unwrap();
    until
}

#[test]
fn an_override_ends_when_it_was_said_and_not_before() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    assert_eq!(server.expire_overrides(server.time().now()), None);
    let (ada, bob) = (until(&server, "ada", MINUTE), until(&server, "bob", Nanos::from_secs(90)));
    put(&server, "lin", 100).unwrap();
    assert!(spend(&server, "ada", 3));
    assert_eq!(server.expire_overrides(ada.before(Nanos::new(1))), Some(ada));
    assert_eq!(left(&server, "ada"), 97);
    fixture.set(MINUTE);
    assert_eq!(server.expire_overrides(ada), Some(bob));
    // Three are owed, and in a minute under the override one and two thirds came back.
    assert_eq!(left(&server, "ada"), 3);
    assert_eq!(left(&server, "bob"), 100);
    let record = audit(&server).pop().unwrap();
    assert_eq!((record.action, &*record.by), (Action::Expire, "ratekeeper"));
    assert_eq!(record.before.as_deref(), Some("100 per 1h"));
    assert_eq!(record.after.as_deref(), Some("5 per 1h"));
    assert_eq!(record.until.map(|until| until.0), Some(ada));
    assert_eq!(server.expire_overrides(bob), None);
    assert_eq!(server.overrides(None, None, 9).overrides.len(), 2, "lin, and eve of the file");
}

#[test]
fn one_that_ended_while_the_server_was_down_never_applies() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    until(&server, "ada", MINUTE);
    fixture.set(MINUTE);
    let server = fixture.restart(server);
    assert_eq!(left(&server, "ada"), 5);
    let actions: Vec<_> = audit(&server).iter().map(|record| record.action).collect();
    assert_eq!(actions, [Action::Put, Action::Expire]);
    let server = fixture.restart(server);
    assert_eq!(audit(&server).len(), 2, "it ends once");
}

#[test]
fn one_that_has_ended_is_out_of_force_also_where_that_cannot_be_kept() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    until(&server, "ada", MINUTE);
    fixture.set(MINUTE);
    let now = server.time().now();
    let in_the_way = fixture.state("overrides.json.new");
    fs::create_dir(&in_the_way).unwrap();
    let retry = Some(now.after(Nanos::from_secs(1)));
    assert_eq!(server.expire_overrides(now), retry);
    assert_eq!(server.expire_overrides(now), retry);
    assert_eq!(left(&server, "ada"), 5);
    let listed = &server.overrides(None, None, 9).overrides[0];
    assert_eq!((&*listed.id, listed.in_force), ("ada", false));
    assert_eq!(listed.reason.as_deref(), Some("it has ended"));
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(server.expire_overrides(now), None);
    assert_eq!(audit(&server).len(), 2);
}

#[test]
fn putting_it_again_moves_the_end() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let first = until(&server, "ada", MINUTE);
    let second = until(&server, "ada", Nanos::from_secs(120));
    fixture.set(MINUTE);
    assert_eq!(server.expire_overrides(first), Some(second));
    put(&server, "ada", 100).unwrap();
    assert_eq!(server.expire_overrides(second), None);
    assert_eq!(left(&server, "ada"), 100);
}

#[test]
fn the_wall_clock_says_when_an_override_ends_and_buckets_do_not_follow_it() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    until(&server, "ada", MINUTE);
    assert!(spend(&server, "ada", 3));
    assert_eq!(left(&server, "ada"), 97);
    // The server was started an hour wrong, and now its clock is put right.
    let hour = Nanos::from_secs(3600);
    fixture.set_wall_ahead(hour);
    let wall = server.time().wall();
    assert_eq!(server.expire_overrides(wall), None);
    assert_eq!(left(&server, "ada"), 2, "three of five are owed, and no time has passed");
    let record = audit(&server).pop().unwrap();
    assert_eq!((record.action, record.at.0), (Action::Expire, wall));
    let past =
        NewOverride { until: Some(wall.before(Nanos::new(1))), ..hourly("Orders", "bob", 100) };
    let refused = server.put_override(past, WHO, false).unwrap_err();
    assert_eq!(refused.field(), Some("until"));
    put(&server, "lin", 100).unwrap();
    assert_eq!(server.override_of("Orders", "lin").unwrap().at, wall);
}
