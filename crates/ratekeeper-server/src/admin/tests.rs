//! Files that are read again while the disk of some of them hangs.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender, sync_channel};

use ratekeeper::Clock;
use ratekeeper_protocol::resp::Gatekeeper as _;

use super::*;
use crate::file_group::FileGroup;
use crate::reading::Unread;
use crate::server::Server;
use crate::settings::Settings;

const OLD: &str = "anna decide 0123456789abcdef0123456789abcdef\n";
const NEW: &str = "bert decide fedcba9876543210fedcba9876543210\n";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ratekeeper-admin-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn limits(&self, count: u64) -> PathBuf {
        self.write("limits.yaml", &format!("Logins:\n  burst: 5\n  count: {count}\n  period: 1h\n"))
    }

    fn start(&self) -> Server {
        let mut settings = Settings::default();
        settings.udp.listen = Some("127.0.0.1:0".parse().unwrap());
        settings.http.listen = None;
        settings.bucket.stream.listen = None;
        settings.throttr.stream.listen = None;
        settings.resp.listen = None;
        settings.memory = 16 << 20;
        settings.limits = Some(self.limits(5));
        settings.http.tokens = Some(self.write("tokens", OLD));
        Server::start(&settings, Arc::new(Clock::start())).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Has the disk of these files hang until what is returned is dropped.
fn hang(group: &FileGroup) -> SyncSender<()> {
    let (go_on, wait) = sync_channel::<()>(0);
    let hung = group.run(move |_| {
        let _ = wait.recv();
    });
    assert!(matches!(hung, Err(Unread::Late { .. })), "{hung:?}");
    go_on
}

fn is_in_force(server: &Server, line: &str) -> bool {
    let token = line.split_whitespace().last().unwrap();
    server.admin().keys.admit(token.as_bytes()).is_some()
}

fn count(server: &Server) -> u64 {
    let limits = Arc::clone(&server.engine().active_overrides.load().limits);
    limits.named("Logins").unwrap().default().unwrap().limit.count()
}

/// Until a thread that was let go has said so.
fn when_answering(group: &FileGroup) {
    while group.run(|_| ()).is_err() {
        thread::yield_now();
    }
}

#[test]
fn a_token_is_revoked_while_the_disk_of_the_limits_hangs() {
    let folder = Folder::new();
    let server = folder.start();
    let go_on = hang(&server.admin().file_groups.limits);
    folder.write("tokens", NEW);
    assert!(server.has_changed_files(), "also seen without a signal");
    let failed = server.reload().unwrap_err();
    assert!(matches!(failed, ReloadError::Unread(Unread::Late { .. })), "{failed}");
    assert!(is_in_force(&server, NEW) && !is_in_force(&server, OLD));
    drop(go_on);
}

#[test]
fn limits_are_reloaded_while_the_disk_of_the_tokens_hangs() {
    let folder = Folder::new();
    let server = folder.start();
    let go_on = hang(&server.admin().file_groups.tokens);
    folder.limits(7);
    let failed = server.reload().unwrap_err();
    assert!(matches!(failed, ReloadError::Tokens(KeysError::Unread(_))), "{failed}");
    assert_eq!(count(&server), 7);
    drop(go_on);
}

#[test]
fn a_file_that_changed_while_its_disk_hung_is_read_when_the_disk_answers() {
    let folder = Folder::new();
    let server = folder.start();
    let group = &server.admin().file_groups.limits;
    folder.limits(7);
    let go_on = hang(group);
    assert!(!server.has_changed_files(), "nobody can say");
    server.reload().unwrap_err();
    drop(go_on);
    when_answering(group);
    assert_eq!(count(&server), 5);
    assert!(server.has_changed_files());
    server.reload().unwrap();
    assert_eq!(count(&server), 7);
    assert!(!server.has_changed_files());
}

#[test]
fn a_file_that_could_not_be_read_is_tried_again_and_a_bad_one_is_not() {
    let folder = Folder::new();
    let server = folder.start();
    fs::remove_file(folder.0.join("limits.yaml")).unwrap();
    fs::create_dir(folder.0.join("limits.yaml")).unwrap();
    assert!(server.has_changed_files());
    server.reload().unwrap_err();
    assert!(server.has_changed_files(), "it was not read");
    fs::remove_dir(folder.0.join("limits.yaml")).unwrap();
    folder.write("limits.yaml", "Logins: 7\n");
    server.reload().unwrap_err();
    assert!(!server.has_changed_files(), "it was read");
}

#[test]
fn a_file_that_was_changed_within_its_size_and_time_is_seen_to_have_changed() {
    let folder = Folder::new();
    let server = folder.start();
    let path = folder.0.join("limits.yaml");
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    // In its place, as an editor or `cp --preserve` may do it.
    folder.limits(7);
    fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    assert!(server.has_changed_files());
}
