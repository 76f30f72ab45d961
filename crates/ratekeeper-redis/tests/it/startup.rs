//! What is said about a server before it is relied on.

use crate::servers::{Blocking, GENEROUS, Single};

fn warnings(url: &str) -> String {
    let link = Blocking::open(url);
    let warnings = link.wait(link.link.check(GENEROUS)).unwrap();
    warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_server_that_keeps_everything_needs_no_warning() {
    let server = Single::with(&["--appendonly", "yes"]);
    assert_eq!(warnings(&server.url()), "");
}

#[test]
fn throwing_buckets_away_and_keeping_nothing_are_warned_about() {
    let server = Single::with(&["--maxmemory-policy", "allkeys-lru"]);
    let said = warnings(&server.url());
    assert!(said.contains("maxmemory-policy is allkeys-lru"), "{said}");
    assert!(said.contains("nothing on disk"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn what_may_not_be_looked_at_is_said_and_what_may_not_be_done_too() {
    let server = Single::with(&["--appendonly", "yes"]);
    let create = |name, rights: &[&str]| {
        let words = [&["ACL", "SETUSER", name, "on", ">pw"], rights].concat();
        server.command(&words);
    };
    create("shy", &["~*", "&*", "+@all", "-config", "-info"]);
    create("weak", &["~other:*", "&*", "+@all"]);
    let said = warnings(&format!("redis://shy:pw@127.0.0.1:{}", server.port));
    assert!(said.contains("INFO is not allowed"), "{said}");
    assert!(said.contains("CONFIG is not allowed"), "{said}");
    let said = warnings(&format!("redis://weak:pw@127.0.0.1:{}", server.port));
    assert!(said.contains("~ratekeeper:*"), "{said}");
}
