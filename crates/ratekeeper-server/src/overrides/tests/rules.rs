//! What is refused, and what is told of what is not.

use ratekeeper::limits::Origin;
use ratekeeper::{Moment, Nanos};
use serde_json::{Value, json};

use super::{OverridesFixture, START, WHO, audit, hourly, left, put, remove, spend};
use crate::overrides::{
    Action, BY_BYTES_MAX, Changed, NewOverride, OverrideError, WHY_BYTES_MAX, Who,
};
use crate::server::Server;

#[test]
fn what_was_spent_stays_spent_when_an_override_comes_and_goes() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    assert!(spend(&server, "ada", 4));
    put(&server, "ada", 100).unwrap();
    assert_eq!(left(&server, "ada"), 96);
    assert!(spend(&server, "ada", 1));
    put(&server, "ada", 200).unwrap();
    assert_eq!(left(&server, "ada"), 195);
    remove(&server, "ada").unwrap();
    assert_eq!(left(&server, "ada"), 0, "five of five are owed");
    assert_eq!(left(&server, "bob"), 5, "nobody else is affected");
}

#[test]
fn a_change_tells_what_it_does_in_the_shape_that_is_promised() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let mut new = hourly("Visits", "2001:0DB8::1", 10);
    new.until = Some(Moment::from_nanos((START + 60) * 1_000_000_000));
    let changed = server.put_override(new, WHO, false).unwrap();
    let expected = json!({
        "override": {
            "limit": "Visits", "id": "2001:db8::1",
            "burst": 10, "count": 10, "period": 3600, "period_ns": 3_600_000_000_000_u64,
            "terms": "10 per 1h", "source": "run-time", "why": "they asked", "by": "ops",
            "at": "2023-11-14T22:13:20Z", "until": "2023-11-14T22:14:20Z",
            "origin": null, "in_force": true, "reason": null,
        },
        "before": "5 per 1h",
        "after": "10 per 1h",
        "change": "Visits:2001:db8::1: override added, 5 per 1h becomes 10 per 1h",
        "lowers": false,
        "dry_run": false,
        "durable": true,
    });
    assert_eq!(serde_json::to_value(&changed).unwrap(), expected);
    let words = |changed: Changed| changed.change;
    assert_eq!(
        words(put(&server, "ada", 9).unwrap()),
        "Orders:ada: override added, 5 per 1h becomes 9 per 1h"
    );
    assert_eq!(words(put(&server, "ada", 10).unwrap()), "Orders:ada: 9 per 1h becomes 10 per 1h");
    let removed = remove(&server, "ada").unwrap();
    assert!(removed.lowers && !removed.over.in_force);
    assert_eq!(removed.over.why.as_deref(), Some("they asked"), "it is the one that was removed");
    assert_eq!(words(removed), "Orders:ada: override removed, 10 per 1h becomes 5 per 1h");
}

#[test]
fn every_change_has_a_record() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 10).unwrap();
    let who = Who { by: "lin", from: Some("192.0.2.7".parse().unwrap()) };
    server.put_overrides(vec![hourly("Orders", "bob", 20)], who, false).unwrap();
    remove(&server, "ada").unwrap();
    let records: Vec<Value> =
        audit(&server).iter().map(|record| serde_json::to_value(record).unwrap()).collect();
    let record = |by: &str, from: Value, action: &str, id: &str, terms: [&str; 2], why: &str| {
        json!({
            "at": "2023-11-14T22:13:20Z", "by": by, "from": from, "action": action,
            "limit": "Orders", "id": id, "before": terms[0], "after": terms[1],
            "why": why, "until": null,
        })
    };
    let expected = [
        record("ops", Value::Null, "put", "ada", ["5 per 1h", "10 per 1h"], "they asked"),
        record("lin", json!("192.0.2.7"), "import", "bob", ["5 per 1h", "20 per 1h"], "they asked"),
        record("ops", Value::Null, "delete", "ada", ["10 per 1h", "5 per 1h"], "no longer needed"),
    ];
    assert_eq!(records, expected);
    assert_eq!(server.audit(1).unwrap()[0].action, Action::Delete, "the last is the newest");
}

#[test]
fn a_dry_run_tells_the_same_and_changes_nothing() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let dry = server.put_override(hourly("Orders", "ada", 10), WHO, true).unwrap();
    assert!(dry.dry_run);
    assert_eq!(left(&server, "ada"), 5);
    assert!(audit(&server).is_empty() && !fixture.state("overrides.json").exists());
    let wet = put(&server, "ada", 10).unwrap();
    assert_eq!(wet.change, dry.change);
    let dry = server.remove_override("Orders", "ada", "why", WHO, true).unwrap();
    assert!(dry.lowers);
    assert_eq!(left(&server, "ada"), 10);
}

#[test]
fn lowering_has_to_be_meant() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    for is_dry_run in [false, true] {
        let refused = server.put_override(hourly("Orders", "ada", 4), WHO, is_dry_run).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`Orders:ada` is allowed 5 per 1h now, and 4 per 1h is lower: say that it may be \
             lowered, if it is meant"
        );
        assert_eq!(refused.field(), Some("lower"));
    }
    let lower = NewOverride { may_lower: true, ..hourly("Orders", "ada", 4) };
    assert!(server.put_override(lower, WHO, false).unwrap().lowers);
    assert_eq!(left(&server, "ada"), 4);
    // A larger burst that fills more slowly is lower too.
    let slower = NewOverride { burst: 99, count: 3, ..hourly("Orders", "ada", 4) };
    assert!(matches!(
        server.put_override(slower, WHO, false),
        Err(OverrideError::WouldLower { .. })
    ));
    // The file allows eve 2 at once, and that is what counts.
    assert!(!put(&server, "eve", 5).unwrap().lowers);
}

/// Which field is wrong with a change of what would be right.
fn refused(
    server: &Server,
    spoil: impl FnOnce(&mut NewOverride),
) -> (Option<&'static str>, String) {
    let mut new = hourly("Orders", "ada", 10);
    spoil(&mut new);
    let error = server.put_override(new, WHO, false).unwrap_err();
    assert!(error.rule().is_some(), "{error}");
    (error.field(), error.to_string())
}

#[test]
fn what_cannot_be_is_refused_by_field() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    for (field, words, spoil) in [
        ("why", "has no reason", (|new| new.why = " \n".into()) as fn(&mut NewOverride)),
        ("why", "1025 bytes", |new| new.why = "x".repeat(WHY_BYTES_MAX + 1)),
        ("until", "2023-11-14T22:13:20Z, which is over", |new| {
            new.until = Some(Moment::from_nanos(START * 1_000_000_000));
        }),
        ("limit", "did you mean `Orders`?", |new| new.limit = "Order".into()),
        ("limit", "is a bucket", |new| new.limit = "bucketa".into()),
        ("id", "is not an id of `Visits`", |new| new.limit = "Visits".into()),
        ("id", "the id is empty", |new| new.id = String::new()),
        ("burst", "burst must be", |new| new.burst = 0),
        ("count", "count must be", |new| new.count = 0),
        ("period", "period must be", |new| new.period = Nanos::ZERO),
    ] {
        let (found, error) = refused(&server, spoil);
        assert_eq!(found, Some(field), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let long = "x".repeat(BY_BYTES_MAX + 1);
    let who = Who { by: &long, from: None };
    let error = server.put_override(hourly("Orders", "ada", 10), who, false).unwrap_err();
    assert_eq!(error.field(), Some("by"));
    assert!(audit(&server).is_empty());
}

#[test]
fn only_what_was_made_at_run_time_is_removed() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    match remove(&server, "eve").unwrap_err() {
        OverrideError::OnlyInFile { origin, .. } => assert_eq!(origin.line(), 1, "{origin}"),
        error => panic!("{error}"),
    }
    assert!(matches!(remove(&server, "ada"), Err(OverrideError::NotFound { .. })));
    let no_reason = server.remove_override("Orders", "ada", "", WHO, false).unwrap_err();
    assert_eq!(no_reason.field(), Some("why"));
    // One in a file comes back when the one on top of it goes.
    put(&server, "eve", 50).unwrap();
    assert_eq!(left(&server, "eve"), 50);
    assert_eq!(
        remove(&server, "eve").unwrap().change,
        "Orders:eve: 50 per 1h becomes 5 per 1h, burst 2"
    );
    assert_eq!(left(&server, "eve"), 2);
}

#[test]
fn an_explanation_says_who_and_why() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 10).unwrap();
    let explained =
        server.engine().stores.limiter.explain("Orders", "ada", 1, server.time().now()).unwrap();
    assert_eq!(explained.origin, Some(Origin::named("at run time by ops")));
    assert_eq!(explained.comment.as_deref(), Some("they asked"));
    assert_eq!(&*server.override_of("Orders", "ada").unwrap().by, "ops");
    assert_eq!(server.override_of("Orders", "eve"), None, "it is from a file");
}
