//! Many overrides at once, all or nothing.

use std::fs;

use ratekeeper::{Clock, Nanos};

use super::{OverridesFixture, WHO, audit, hourly, left, put};
use crate::overrides::{
    AUDIT_LAST_MAX, NewOverride, OVERRIDES_PAGE_MAX, OverrideError, RUN_TIME_OVERRIDES_MAX,
};

/// How long 10,000 may take on a slow machine with a slow disk.
const IMPORT_TIME_MAX: Nanos = Nanos::from_secs(10);

fn many(count: usize) -> Vec<NewOverride> {
    (0..count).map(|number| hourly("Orders", &format!("id-{number}"), 100)).collect()
}

#[test]
fn ten_thousand_come_in_one_go_and_stay() {
    let fixture = OverridesFixture::new();
    // Between those of a large file, so that the two have to be merged.
    let line = |number| format!("Orders:id-{number}-x: {{burst: 9, count: 9, period: 1h}}\n");
    fixture.write("overrides.yaml", &(0..100_000).map(line).collect::<String>());
    let server = fixture.start();
    let clock = Clock::start();
    let began = clock.now();
    assert_eq!(server.put_overrides(many(10_000), WHO, false).unwrap().len(), 10_000);
    let took = clock.now().since(began);
    assert!(took < IMPORT_TIME_MAX, "{took}");
    assert_eq!(left(&server, "id-9999"), 100);
    assert_eq!(left(&server, "id-99999-x"), 9);
    assert_eq!(server.audit(usize::MAX).unwrap().len(), AUDIT_LAST_MAX);
    let server = fixture.restart(server);
    assert_eq!(left(&server, "id-0"), 100);
    assert_eq!(server.override_counts().at_run_time, 10_000);
    let page = server.overrides(None, None, usize::MAX);
    assert_eq!(page.overrides.len(), OVERRIDES_PAGE_MAX);
}

#[test]
fn if_one_of_many_is_wrong_none_is_made() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let spoiled = |at: usize, spoil: fn(&mut NewOverride)| {
        let mut new = many(10);
        spoil(&mut new[at]);
        server.put_overrides(new, WHO, false).unwrap_err()
    };
    let refused = spoiled(7, |new| new.burst = 0);
    assert_eq!((refused.at, refused.error.field()), (Some(7), Some("burst")));
    let refused = spoiled(9, |new| new.id = "id-3".into());
    assert!(matches!((refused.at, refused.error), (Some(9), OverrideError::Twice { .. })));
    let refused = spoiled(2, |new| new.burst = 1);
    assert!(matches!((refused.at, refused.error), (Some(2), OverrideError::WouldLower { .. })));
    assert!(audit(&server).is_empty());
    assert_eq!(server.override_counts().version, 0);
    assert!(server.put_overrides(Vec::new(), WHO, false).unwrap().is_empty());
}

#[test]
fn there_is_a_most_that_can_be_made() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let mut all = many(RUN_TIME_OVERRIDES_MAX + 1);
    let refused = server.put_overrides(all.clone(), WHO, false).unwrap_err();
    assert!(matches!(refused.error, OverrideError::TooMany { .. }), "{refused}");
    all.pop();
    server.put_overrides(all, WHO, false).unwrap();
    assert!(matches!(put(&server, "one more", 100), Err(OverrideError::TooMany { .. })));
    put(&server, "id-0", 200).unwrap();
    let server = fixture.restart(server);
    assert_eq!(left(&server, "id-0"), 200);
    assert_eq!(server.override_counts().at_run_time, RUN_TIME_OVERRIDES_MAX);
}

#[test]
fn reading_the_audit_reads_its_end_only() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    let path = fixture.state("audit.jsonl");
    let line = fs::read_to_string(&path).unwrap();
    // Lines that begin and end anywhere in the pieces that are read.
    let lines = (0..5_000).map(|number| line.replace("ada", &"a".repeat(number % 300 + 1)));
    fs::write(&path, lines.collect::<String>()).unwrap();
    for count in [0, 1, 2, 299, 1_000] {
        let ids: Vec<_> =
            server.audit(count).unwrap().into_iter().map(|record| record.id.len()).collect();
        let expected: Vec<_> = (5_000 - count..5_000).map(|number| number % 300 + 1).collect();
        assert_eq!(ids, expected, "the last {count}");
    }
    // A line without end is not read for ever.
    fs::write(&path, vec![b'x'; 40 << 20]).unwrap();
    assert!(audit(&server).is_empty());
}
