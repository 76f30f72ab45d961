//! Overrides that are made while clients are connected.

use ratekeeper::Nanos;
use ratekeeper_server::overrides::{NewOverride, Who};

use crate::support::{Datagrams, Folder, StandingTime, Stream, settings, start};

const NOW: u64 = 1_700_000_000;

#[test]
fn every_door_sees_an_override_at_once_and_after_a_restart() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.state = Some(folder.path("state"));
    settings.limits = Some(folder.write("limits.yaml", "Orders: {burst: 2, count: 2, period: 1h}"));
    settings.udp.rules =
        Some(folder.write("rules.yaml", "rules: [{match: '^(.+)$', use: Orders}]"));
    let server = start(&settings, StandingTime::at_secs(NOW));
    let (mut bucket, udp) = (Stream::connect(&server, "bucket"), Datagrams::connect(&server));
    bucket.send(b"get Orders:ada 2\nget Orders:ada\n");
    assert_eq!(bucket.read(4), b"1\n0\n");
    assert!(udp.ask(b"over_limit ada").starts_with(b"ok Y"));
    let new = NewOverride {
        limit: "Orders".into(),
        id: "ada".into(),
        burst: 10,
        count: 10,
        period: Nanos::from_secs(3600),
        why: "a large customer".into(),
        until: None,
        may_lower: false,
    };
    let who = Who { by: "ops", from: None };
    assert!(server.put_override(new, who, false).unwrap().durable);
    // Two are owed, so eight are left: one goes by the one door, and the rest by the other.
    assert!(udp.ask(b"over_limit ada").starts_with(b"ok N"));
    bucket.send(b"get Orders:ada 8\nget Orders:ada 6\nget Orders:bob 3\n");
    assert_eq!(bucket.read(6), b"0\n1\n0\n");
    drop(bucket);
    server.drain(settings.drain).unwrap();

    let server = start(&settings, StandingTime::at_secs(NOW));
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get Orders:ada 2\nget Orders:ada\n");
    assert_eq!(bucket.read(4), b"0\n1\n", "one of ten was left");
    let removed = server.remove_override("Orders", "ada", "no longer a customer", who, false);
    assert_eq!(removed.unwrap().change, "Orders:ada: override removed, 10 per 1h becomes 2 per 1h");
    server.drain(settings.drain).unwrap();
}
