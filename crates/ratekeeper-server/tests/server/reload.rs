//! Files that change under load.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use ratekeeper::Clock;
use ratekeeper_server::settings::Settings;
use ratekeeper_server::{Server, with_causes};

use crate::support::{Datagrams, Folder, Stream, settings, start};

const RELOADS: usize = 10_000;
const BUDGET: u64 = 1_000_000_000;

/// The sets of files, in the order in which they are read: of two that are good each is followed by one
/// that is like it, but for a file that is bad.
const SETS: [&str; 4] = ["odd", "odd-with-bad-rules", "even", "even-with-bad-limits"];

fn write_sets(folder: &Folder) {
    for (set, is_odd) in SETS.into_iter().zip([true, true, false, false]) {
        std::fs::create_dir(folder.path(set)).unwrap();
        write(folder, set, is_odd);
    }
    folder.write(&format!("{}/rules.yaml", SETS[1]), "rules: [{match: '(', use: Nobody}]");
    folder.write(&format!("{}/limits.yaml", SETS[3]), "Budget: {burst: 0}");
}

/// Puts a set in the place where the server reads, all of it at once. Files that are written anew for
/// each of so many reloads take longer than these.
fn choose(folder: &Folder, set: &str) {
    std::os::unix::fs::symlink(folder.path(set), folder.path("new")).unwrap();
    std::fs::rename(folder.path("new"), folder.path("current")).unwrap();
}

/// Two sets of files that differ in everything but the budget. In each, the UDP rule uses a limit
/// that the other set does not have.
fn write(folder: &Folder, set: &str, is_odd: bool) {
    let (other, burst) = if is_odd { ("Odd", 7) } else { ("Even", 9) };
    folder.write(
        &format!("{set}/limits.yaml"),
        &format!(
            "Budget: {{burst: {BUDGET}, count: 1, period: 8760h}}\n\
             {other}: {{burst: {burst}, count: 1, period: 8760h}}\n"
        ),
    );
    folder.write(&format!("{set}/rules.yaml"), &format!("rules: [{{match: '^x$', use: {other}}}]"));
    folder.write(&format!("{set}/buckets.conf"), &format!("always 1000000000\n{other}Bucket 5\n"));
}

#[test]
fn ten_thousand_reloads_lose_nothing_and_answer_nothing_wrong() {
    let folder = Folder::new();
    let mut settings = settings();
    write_sets(&folder);
    choose(&folder, SETS[0]);
    settings.limits = Some(folder.path("current/limits.yaml"));
    settings.udp.rules = Some(folder.path("current/rules.yaml"));
    settings.bucket.buckets = Some(folder.path("current/buckets.conf"));
    let server = start(&settings, Arc::new(Clock::start()));
    let is_over = Arc::new(AtomicBool::new(false));

    let mut bucket = Stream::connect(&server, "bucket");
    let over = Arc::clone(&is_over);
    let spending = thread::spawn(move || {
        let mut spent = 0;
        while !over.load(Ordering::Relaxed) {
            bucket.send(&b"get Budget\nget always\n".repeat(10));
            assert_eq!(bucket.read(40), b"1\n".repeat(20));
            spent += 10;
        }
        spent
    });
    let udp = Datagrams::connect(&server);
    let over = Arc::clone(&is_over);
    let asking = thread::spawn(move || {
        let mut asked = 0;
        while !over.load(Ordering::Relaxed) {
            let answer = String::from_utf8(udp.ask(b"over_limit x")).unwrap();
            // The limit of one set or of the other; never the answer of a rule without its limit.
            assert!(
                answer.ends_with(" 7.0 31536000") || answer.ends_with(" 9.0 31536000"),
                "{answer}"
            );
            asked += 1;
        }
        asked
    });

    let mut refused = 0;
    for set in SETS.into_iter().cycle().take(RELOADS) {
        choose(&folder, set);
        refused += usize::from(server.reload().is_err());
    }
    is_over.store(true, Ordering::Relaxed);
    let (spent, questions): (u64, u64) = (spending.join().unwrap(), asking.join().unwrap());
    assert_eq!(refused, RELOADS / 2, "exactly the bad ones are refused");
    assert!(
        spent > 1000 && questions > 100,
        "there was no load: {spent} spends, {questions} questions"
    );
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(
        format!("get Budget {}\nget Budget {}\n", BUDGET - spent + 1, BUDGET - spent).as_bytes(),
    );
    assert_eq!(bucket.read(4), b"0\n1\n", "of {spent} spends some were lost, or some made up");
    assert_eq!(server.stats().reloads.done + server.stats().reloads.failed, RELOADS as u64);
    server.drain(settings.drain).unwrap();
}

#[test]
fn a_bad_file_is_refused_with_its_faults_and_the_old_one_goes_on() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.bucket.buckets = Some(folder.write("buckets.conf", "a 1\n"));
    let server = start(&settings, Arc::new(Clock::start()));
    let mut bucket = Stream::connect(&server, "bucket");
    folder.write("buckets.conf", "a 1\nb 0.0\n");
    let refused = server.reload().unwrap_err().to_string();
    assert!(
        refused.contains("buckets.conf:2:") && refused.contains("Invalid rate for bucket b: 0.0"),
        "{refused}"
    );
    bucket.send(b"get a\nget b\n");
    assert_eq!(bucket.read(19), b"1\nBUCKET NOT FOUND\n");
    folder.write("buckets.conf", "a 1\nb 5\n");
    server.reload().unwrap();
    bucket.send(b"get b\n");
    assert_eq!(bucket.read(2), b"1\n");
    server.drain(settings.drain).unwrap();
}

#[test]
fn a_file_that_is_none_is_refused_at_once_at_the_start_and_in_a_reload() {
    let folder = Folder::new();
    let mut settings = settings();
    let pipe = folder.path("limits.yaml");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    settings.limits = Some(pipe.clone());
    let refused = |error: &dyn std::error::Error| {
        let text = with_causes(error);
        assert!(text.contains("limits.yaml: it is no regular file"), "{text}");
    };
    refused(&Server::start(&settings, Arc::new(Clock::start())).err().unwrap());
    folder.write("limits.yaml", "A: {burst: 1, count: 1, period: 1h}");
    let server = start(&settings, Arc::new(Clock::start()));
    std::fs::remove_file(&pipe).unwrap();
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    refused(&server.reload().unwrap_err());
    std::fs::remove_file(&pipe).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &pipe).unwrap();
    refused(&server.reload().unwrap_err());
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get A:ada\n");
    assert_eq!(bucket.read(2), b"1\n", "the old ones stay in force");
    server.drain(settings.drain).unwrap();
}

#[test]
fn starters_stand_in_only_if_no_file_of_any_kind_was_given() {
    let folder = Folder::new();
    let limits = folder.write("limits.yaml", "A: {burst: 1, count: 1, period: 1h}");
    let buckets = folder.write("buckets.conf", "mine 1\n");
    let rules = folder.write("rules.yaml", "rules: [{match: '^x', limit: 7, period: 10}]");
    let given: [fn(&mut Settings, PathBuf); 3] = [
        |settings, path| settings.limits = Some(path),
        |settings, path| settings.bucket.buckets = Some(path),
        |settings, path| settings.udp.rules = Some(path),
    ];
    for (give, path) in given.into_iter().zip([limits, buckets, rules]) {
        let mut settings = settings();
        give(&mut settings, path.clone());
        let server = start(&settings, Arc::new(Clock::start()));
        let mut bucket = Stream::connect(&server, "bucket");
        bucket.send(b"get LoginsPerUser\nget bucketa\n");
        assert_eq!(bucket.read(34), b"BUCKET NOT FOUND\nBUCKET NOT FOUND\n", "{path:?}");
        assert_eq!(server.stats().configured.files, [path.display().to_string()]);
        server.drain(settings.drain).unwrap();
    }
    let mut settings_with = settings();
    settings_with.overrides = Some(folder.write("overrides.yaml", "A:ada: {burst: 2}"));
    let refused = Server::start(&settings_with, Arc::new(Clock::start())).err().unwrap();
    assert!(refused.to_string().contains("name it with --limits"), "{refused}");
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get LoginsPerUser\nget bucketa\n");
    assert_eq!(bucket.read(4), b"1\n1\n");
    server.drain(settings().drain).unwrap();
}
