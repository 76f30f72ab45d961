//! Overrides from run time, and files that change under them.

use super::{LIMITS, OverridesFixture, WHO, audit, hourly, left, put, remove, spend};
use crate::overrides::{ListedOverride, Source};
use crate::server::Server;

fn listed(server: &Server) -> Vec<ListedOverride> {
    server.overrides(None, None, 100).overrides
}

#[test]
fn a_reload_of_files_keeps_what_was_made_at_run_time() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    assert!(spend(&server, "ada", 10));
    fixture.write("limits.yaml", &LIMITS.replace("burst: 5, count: 5", "burst: 7, count: 7"));
    fixture.write("overrides.yaml", "Orders:ada: {burst: 8, count: 8, period: 1h}\n");
    server.reload().unwrap();
    assert_eq!((left(&server, "ada"), left(&server, "bob"), left(&server, "eve")), (90, 7, 7));
    remove(&server, "ada").unwrap();
    assert_eq!(left(&server, "ada"), 0, "ten are owed, and now the file's eight apply");
    // A file that is refused changes nothing, and what comes after it builds on the last good one.
    fixture.write("limits.yaml", "nonsense");
    assert!(server.reload().is_err());
    put(&server, "bob", 50).unwrap();
    assert_eq!((left(&server, "bob"), left(&server, "lin")), (50, 7));
}

#[test]
fn one_that_does_not_fit_sleeps_until_it_fits_again() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    put(&server, "192.0.2.1", 100).unwrap();
    fixture.write("overrides.yaml", "Visits:192.0.2.1: {burst: 8, count: 8, period: 1h}\n");
    let reasons = || {
        let made = listed(&server).into_iter().filter(|it| it.source == Source::RunTime);
        made.map(|it| (it.id, it.reason)).collect::<Vec<_>>()
    };
    // Only addresses are ids now.
    fixture
        .write("limits.yaml", &LIMITS.replace("period: 1h}\nV", "period: 1h, id: ipAddress}\nV"));
    server.reload().unwrap();
    let [(_, None), (ada, Some(reason))] = &reasons()[..] else { panic!("{:?}", reasons()) };
    assert_eq!(ada, "ada");
    assert!(reason.contains("is not an id of `Orders`: the id is not an IP address"), "{reason}");
    // The limit is gone.
    fixture.write("limits.yaml", "Visits: {burst: 5, count: 5, period: 1h, id: ipAddress}");
    server.reload().unwrap();
    assert!(reasons().iter().all(|(_, reason)| reason.is_some()), "{:?}", reasons());
    assert_eq!(server.override_of("Orders", "ada"), None);
    let server = fixture.restart(server);
    assert_eq!(listed(&server).iter().filter(|it| !it.in_force).count(), 2);
    // It is back.
    fixture.write("limits.yaml", LIMITS);
    server.reload().unwrap();
    assert!(listed(&server).iter().all(|it| it.in_force));
    assert_eq!(left(&server, "ada"), 100);
    assert_eq!(audit(&server).len(), 2, "nobody made a change");
}

#[test]
fn one_that_sleeps_can_be_removed_and_replaced() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    fixture.write("overrides.yaml", "Visits:192.0.2.1: {burst: 8, count: 8, period: 1h}\n");
    put(&server, "ada", 100).unwrap();
    fixture.write("limits.yaml", "Visits: {burst: 5, count: 5, period: 1h, id: ipAddress}");
    server.reload().unwrap();
    let removed = remove(&server, "ada").unwrap();
    assert_eq!((removed.before, removed.after, removed.lowers), (None, None, false));
    fixture.write("limits.yaml", LIMITS);
    server.reload().unwrap();
    assert_eq!(left(&server, "ada"), 5);
}

#[test]
fn pages_hold_every_override_once_and_in_order() {
    let fixture = OverridesFixture::new();
    let lines = (0..40).flat_map(|number| {
        let terms = "{burst: 9, count: 9, period: 1h}\n";
        [format!("Orders:file-{number}: {terms}"), format!("Visits:10.0.0.{number}: {terms}")]
    });
    fixture.write("overrides.yaml", &lines.collect::<String>());
    let server = fixture.start();
    let made = (0..40).map(|number| hourly("Orders", &format!("file-{}", number * 2), 50));
    let more = (0..40).map(|number| hourly("Visits", &format!("10.0.1.{number}"), 50));
    server.put_overrides(made.chain(more).collect(), WHO, false).unwrap();
    let all = listed_by(&server, None, 1000);
    assert_eq!(all.len(), 160);
    let key = |it: &ListedOverride| (it.limit.clone(), it.id.clone(), it.source == Source::File);
    assert!(all.is_sorted_by_key(key));
    let both: Vec<_> = all.iter().filter(|it| it.id == "file-2").collect();
    assert!(matches!(both[..], [made, file] if made.in_force && !file.in_force));
    for page in [1, 2, 3, 7, 50, 159] {
        assert_eq!(listed_by(&server, None, page), all, "{page} at a time");
        let of_visits = listed_by(&server, Some("Visits"), page);
        assert_eq!(of_visits[..], all[80..], "{page} at a time");
    }
    assert!(listed_by(&server, Some("Nothing"), 10).is_empty());
    let counts = server.override_counts();
    assert_eq!((counts.in_files, counts.at_run_time, counts.version), (80, 80, 1));
}

fn listed_by(server: &Server, limit: Option<&str>, page: usize) -> Vec<ListedOverride> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let found = server.overrides(limit, after.as_deref(), page);
        assert!(found.overrides.len() <= page + 1);
        all.extend(found.overrides);
        after = found.next;
        if after.is_none() {
            return all;
        }
    }
}
