//! A process that dies between the steps of a change leaves files, and these are those files.

use std::fs;

use super::{OverridesFixture, audit, left, put};
use crate::overrides::Record;
use crate::server::Server;

/// The files before and after a change of ada from 100 to 200.
struct Files {
    fixture: OverridesFixture,
    old_document: Vec<u8>,
    new_document: Vec<u8>,
    old_audit: Vec<u8>,
    new_audit: Vec<u8>,
}

impl Files {
    fn new() -> Self {
        let fixture = OverridesFixture::new();
        let server = fixture.start();
        let read = |file: &str| fs::read(fixture.state(file)).unwrap();
        put(&server, "ada", 100).unwrap();
        let (old_document, old_audit) = (read("overrides.json"), read("audit.jsonl"));
        put(&server, "ada", 200).unwrap();
        let (new_document, new_audit) = (read("overrides.json"), read("audit.jsonl"));
        drop(server);
        Self { fixture, old_document, new_document, old_audit, new_audit }
    }

    /// Starts on what a crash leaves.
    fn start(&self, document: &[u8], beside: Option<&[u8]>, audit: &[u8]) -> Server {
        fs::write(self.fixture.state("overrides.json"), document).unwrap();
        if let Some(beside) = beside {
            fs::write(self.fixture.state("overrides.json.new"), beside).unwrap();
        }
        fs::write(self.fixture.state("audit.jsonl"), audit).unwrap();
        let server = self.fixture.start();
        assert!(!self.fixture.state("overrides.json.new").exists(), "what was half done is done");
        server
    }
}

/// What is in force for ada, which has to be what the audit tells last and what the file says.
fn agreed(files: &Files, server: Server) -> u64 {
    let burst = left(&server, "ada");
    let told = audit(&server).last().and_then(|last: &Record| last.after.clone());
    assert_eq!(told, Some(format!("{burst} per 1h")));
    let server = files.fixture.restart(server);
    assert_eq!(left(&server, "ada"), burst, "a second start changes nothing");
    burst
}

#[test]
fn wherever_a_crash_comes_the_files_and_what_is_in_force_agree() {
    let files = Files::new();
    let Files { old_document, new_document, old_audit, new_audit, .. } = &files;
    // While the document is written.
    for length in [0, 1, new_document.len() / 2, new_document.len() - 1] {
        let server = files.start(old_document, Some(&new_document[..length]), old_audit);
        assert_eq!(agreed(&files, server), 100);
    }
    // Once it is written, and while the record is.
    for length in old_audit.len()..new_audit.len() {
        let server = files.start(old_document, Some(new_document), &new_audit[..length]);
        assert_eq!(audit(&server).len(), 1);
        assert_eq!(agreed(&files, server), 100, "{length} bytes of the audit");
    }
    // Once the record is written, and once the document has its name.
    let server = files.start(old_document, Some(new_document), new_audit);
    assert_eq!(agreed(&files, server), 200);
    let server = files.start(new_document, None, new_audit);
    assert_eq!(agreed(&files, server), 200);
}

#[test]
fn a_torn_line_spoils_neither_what_was_before_nor_what_comes_after() {
    let files = Files::new();
    for torn in [&b"{\"at\":\"2023-11-14T2"[..], b"{", b"\xff\xfe\0", b"\n\n\n{"] {
        let text = [&files.new_audit, torn].concat();
        let server = files.start(&files.new_document, None, &text);
        assert_eq!(audit(&server).len(), 2);
        put(&server, "bob", 300).unwrap();
        put(&server, "bob", 400).unwrap();
        let told: Vec<_> = audit(&server).into_iter().filter_map(|record| record.after).collect();
        assert_eq!(told, ["100 per 1h", "200 per 1h", "300 per 1h", "400 per 1h"]);
        let written = fs::read(files.fixture.state("audit.jsonl")).unwrap();
        assert!(written.starts_with(&text), "what was there stays");
        assert!(written.ends_with(b"}\n"));
    }
}

#[test]
fn an_audit_that_was_moved_away_begins_anew() {
    let files = Files::new();
    let server = files.start(&files.new_document, None, &files.new_audit);
    fs::rename(files.fixture.state("audit.jsonl"), files.fixture.state("audit.1")).unwrap();
    assert!(audit(&server).is_empty());
    put(&server, "ada", 300).unwrap();
    assert_eq!(audit(&server).len(), 1);
    assert_eq!(agreed(&files, server), 300);
}
