//! Overrides that outlive the process, and what happens where they cannot.

use std::fs;

use ratekeeper::Nanos;

use super::{OverridesFixture, START, WHO, audit, hourly, left, put, remove, spend};
use crate::overrides::{AUDIT_KEPT, NewOverride, OverrideError};
use crate::server::Server;

#[test]
fn overrides_and_what_was_spent_survive_a_restart() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    put(&server, "bob", 100).unwrap();
    remove(&server, "bob").unwrap();
    assert!(spend(&server, "ada", 60));
    let before = server.overrides(None, None, 100);
    server.drain(fixture.settings.drain).unwrap();
    let server = fixture.start();
    assert_eq!(left(&server, "ada"), 40);
    assert_eq!(left(&server, "bob"), 5);
    assert_eq!(server.overrides(None, None, 100), before);
    assert_eq!(audit(&server).len(), 3);
    assert!(server.override_counts().durable);
}

#[test]
fn an_override_that_was_answered_survives_a_crash() {
    let fixture = OverridesFixture::new();
    let mut server = fixture.start();
    for round in 1..=20 {
        put(&server, "ada", 100 + round).unwrap();
        server = fixture.restart(server);
        assert_eq!(left(&server, "ada"), 100 + round);
        assert_eq!(audit(&server).len() as u64, round);
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    let odd = NewOverride {
        count: 7,
        period: Nanos::new(86_400_000_000_001),
        why: "\"quotes\", \\ and\nlines \u{1f600}".to_owned(),
        until: Some(server.time().now().after(Nanos::new(1))),
        may_lower: true,
        ..hourly("Orders", "a:b \u{0} \n\u{e9}", 3)
    };
    server.put_override(odd, WHO, false).unwrap();
    let before = server.overrides(None, None, 100);
    let text = fs::read_to_string(fixture.state("overrides.json")).unwrap();
    assert!(text.contains("\"period\":\"1d1ns\""), "{text}");
    let server = fixture.restart(server);
    assert_eq!(server.overrides(None, None, 100), before);
}

#[test]
fn a_document_from_before_there_were_sums_is_read_and_given_one() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    drop(server);
    let file = fixture.state("overrides.json");
    let whole = fs::read_to_string(&file).unwrap();
    let (body, _) = whole.split_once(",\n\"sum\"").unwrap();
    fs::write(&file, format!("{body}}}\n").replace("\"version\": 2", "\"version\": 1")).unwrap();
    let server = fixture.start();
    assert_eq!(left(&server, "ada"), 100);
    let again = fs::read_to_string(&file).unwrap();
    assert!(again.starts_with("{\"version\": 2,") && again.contains("\n\"sum\": \""), "{again}");
    let server = fixture.restart(server);
    assert_eq!(left(&server, "ada"), 100);
}

#[test]
fn only_the_owner_reads_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    for file in ["overrides.json", "audit.jsonl"] {
        let mode = fs::metadata(fixture.state(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_damaged_file_is_set_aside_and_the_server_starts() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    drop(server);
    let file = fixture.state("overrides.json");
    let whole = fs::read_to_string(&file).unwrap();
    let zero = whole.replace("\"burst\":100", "\"burst\":0");
    let timeless = whole.replace("\"1h\"", "\"1 hour\"");
    let strange = whole.replace("\"why\"", "\"wherefore\"");
    for damaged in ["", "nonsense", &whole[..whole.len() - 3], &zero, &timeless, &strange] {
        fs::write(&file, damaged).unwrap();
        let server = fixture.start();
        assert!(!file.exists(), "it is set aside");
        let aside = fixture.state(&format!("overrides.json.damaged-{START}"));
        assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
        assert_eq!(left(&server, "ada"), 5);
        put(&server, "ada", 200).unwrap();
        let server = fixture.restart(server);
        assert_eq!(left(&server, "ada"), 200);
    }
}

#[test]
fn a_file_of_another_version_is_left_alone() {
    let fixture = OverridesFixture::new();
    drop(fixture.start());
    let text = "{\"version\": 3, \"something\": \"else\"}";
    fs::write(fixture.state("overrides.json"), text).unwrap();
    let refused = Server::start(&fixture.settings, fixture.time.clone()).err().unwrap().to_string();
    assert!(refused.contains("is of version 3"), "{refused}");
    assert_eq!(fs::read_to_string(fixture.state("overrides.json")).unwrap(), text);
}

#[test]
fn where_nothing_can_be_written_nothing_changes() {
    let fixture = OverridesFixture::new();
    let server = fixture.start();
    put(&server, "ada", 100).unwrap();
    // A folder in the place of a file cannot be written to, not even by root.
    for file in ["overrides.json.new", "audit.jsonl", "overrides.json"] {
        let path = fixture.state(file);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.join("in the way")).unwrap();
        let refused = [put(&server, "ada", 200), put(&server, "bob", 200), remove(&server, "ada")];
        for refused in refused {
            assert!(matches!(refused, Err(OverrideError::Storage(_))), "{file}");
        }
        assert_eq!((left(&server, "ada"), left(&server, "bob")), (100, 5), "{file}");
        fs::remove_dir_all(&path).unwrap();
        if let Some(kept) = kept {
            fs::write(&path, kept).unwrap();
        }
        assert_eq!(audit(&server).len(), 1, "{file}: what was not done is not told");
    }
    let server = fixture.restart(server);
    assert_eq!((left(&server, "ada"), left(&server, "bob")), (100, 5));
    put(&server, "ada", 300).unwrap();
    assert_eq!(audit(&server).len(), 2);
}

#[test]
fn without_a_state_directory_overrides_live_as_long_as_the_server() {
    let fixture = OverridesFixture::forgetful();
    let server = fixture.start();
    assert!(!put(&server, "ada", 100).unwrap().durable);
    assert_eq!(left(&server, "ada"), 100);
    for burst in 101..=(101 + AUDIT_KEPT as u64) {
        put(&server, "ada", burst).unwrap();
    }
    let records = audit(&server);
    assert_eq!(records.len(), AUDIT_KEPT);
    let newest = format!("{} per 1h", 101 + AUDIT_KEPT);
    assert_eq!(records.last().unwrap().after.as_deref(), Some(&*newest));
    let server = fixture.restart(server);
    assert_eq!(left(&server, "ada"), 5);
    assert!(audit(&server).is_empty());
}
