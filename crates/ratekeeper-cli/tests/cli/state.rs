//! What was spent, moved from memory to Redis and back.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::program::{Ran, file, run, run_with};
use crate::server::Server;
use crate::servers::Single;

const LIMITS: &str = "\
Orders: {burst: 20, count: 10, period: 1h}
Logins: {burst: 1000, count: 7, period: 24h}
";
const OVERRIDES: &str = "Orders:vip: {burst: 100, count: 10, period: 1h}\n";
const BUCKETS: &str = "slow 0.001 50\n";
/// What is left of each bucket after what the first server was asked.
const LEFT: [(&str, &str, u64); 4] =
    [("Orders", "ada", 15), ("Orders", "vip", 40), ("Logins", "ada", 300), ("slow", "*", 43)];

/// Files under names that no other test uses.
struct Files {
    limits: String,
    overrides: String,
    buckets: String,
    folder: PathBuf,
}

impl Files {
    fn new(test: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        Self {
            limits: file(&format!("{test}-limits.yaml"), LIMITS),
            overrides: file(&format!("{test}-overrides.yaml"), OVERRIDES),
            buckets: file(&format!("{test}-buckets.conf"), BUCKETS),
            folder,
        }
    }

    fn state(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let Self { limits, overrides, buckets, .. } = self;
        [more, &["--limits", limits, "--overrides", overrides, "--buckets", buckets]].concat()
    }

    fn serve(&self, more: &[&str]) -> Server {
        Server::start(&self.args(more))
    }
}

fn left(server: &Server, limit: &str, id: &str) -> u64 {
    let url = format!("{}/v1/buckets/{limit}/{id}", server.url());
    let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
    let bucket: Value = serde_json::from_str(&text).unwrap();
    bucket["remaining"].as_u64().unwrap_or_else(|| panic!("{bucket}"))
}

fn assert_left(server: &Server) {
    for (limit, id, expected) in LEFT {
        assert_eq!(left(server, limit, id), expected, "{limit} {id}");
    }
}

/// The microsecond at which each exported bucket is full, by name.
fn full_at(ran: &Ran) -> Vec<(String, u64)> {
    let full = |line: Value| {
        let words: Vec<&str> = line["value"].as_str().unwrap().split([' ', '/']).collect();
        let [at, debt, _, rate, _] = words[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let full = number(at) + number(debt).div_ceil(number(rate));
        (line["bucket"].as_str().unwrap().to_owned(), full)
    };
    let mut all: Vec<_> = ran.json().into_iter().map(full).collect();
    all.sort();
    all
}

#[test]
fn what_was_spent_in_memory_is_spent_in_redis_and_in_memory_again() {
    let (redis, files) = (Single::start(), Files::new("moved"));
    let (first, second, url) = (files.state("first"), files.state("second"), redis.url());
    let server = files.serve(&["--state", &first]);
    let mut client = server.bucket();
    for ask in ["Orders:ada 5", "Orders:vip 60", "Logins:ada 700", "slow 7", "Orders:bob 3"] {
        assert_eq!(client.ask(&format!("get {ask}")).as_deref(), Some("1"), "{ask}");
    }
    assert_left(&server);
    let export = files.args(&["state", "export", "--state", &first]);
    let ran = run(&export);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("another server uses the state directory"), "{}", ran.stderr);
    let import = files.args(&["state", "import", "--state", &first]);
    assert_eq!(run(&import).code, Some(2));
    assert!(server.stop().success());

    let ids = b"Orders:ada\nLogins:ada\n\nOrders:vip\nOrders:nobody\n";
    let exported = run_with(&[&export[..], &["--ids", "-"]].concat(), ids);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert!(exported.stderr.contains("note: 1 bucket of 5 have no name"), "{}", exported.stderr);
    let names: Vec<String> = full_at(&exported).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Logins:ada", "Orders:ada", "Orders:vip", "bucket slow:*"]);

    let import = |said: &str| {
        let args = ["state", "import", "--store", &url];
        let ran = run_with(&args, exported.stdout.as_bytes());
        assert_eq!((ran.code, &*ran.stderr), (Some(0), said), "{ran:?}");
    };
    import("4 buckets imported; 0 owed as much already, 0 owed nothing any more\n");
    import("0 buckets imported; 4 owed as much already, 0 owed nothing any more\n");
    let server = files.serve(&["--store", &url, "--store-timeout", "10s"]);
    assert_left(&server);
    assert!(server.stop().success());

    let from_redis = run(&["state", "export", "--store", &url]);
    assert_eq!((from_redis.code, &*from_redis.stderr), (Some(0), ""), "{from_redis:?}");
    let args = files.args(&["state", "import", "--state", &second]);
    let ran = run_with(&args, from_redis.stdout.as_bytes());
    let said = "4 buckets imported; 0 owed as much already, 0 owed nothing any more\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(0), said), "{ran:?}");
    let export = files.args(&["state", "export", "--ids", "-", "--state", &second]);
    let again = run_with(&export, ids);
    assert_eq!((again.code, &*again.stderr), (Some(0), ""), "{again:?}");
    for ((name, before), (same, after)) in full_at(&exported).into_iter().zip(full_at(&again)) {
        assert_eq!(name, same);
        assert!((before..=before + 3).contains(&after), "{name}: full at {before}, then {after}");
    }
    let server = files.serve(&["--state", &second]);
    assert_left(&server);
    assert!(server.stop().success());
}

#[test]
fn a_line_that_is_wrong_is_told_by_its_number_and_nothing_is_written() {
    let (redis, files) = (Single::start(), Files::new("wrong-lines"));
    let (state, url) = (files.state("state"), redis.url());
    let good = r#"{"bucket":"Orders:ada","value":"1763273645123456 7200000000 360000000/1 20"}"#;
    for (line, expected) in [
        ("Orders:ada", "expected a JSON object such as {\"bucket\":\"6:ada\""),
        (r#"{"bucket":"Orders:ada","value":"5"}"#, "expected `AT DEBT STEP/RATE BURST"),
        (r#"{"bucket":"","value":"1 1 1/1 1"}"#, "expected the name of a bucket"),
    ] {
        let input = format!("{good}\n\n{line}\n");
        for place in [vec!["--store", &url], files.args(&["--state", &state])] {
            let ran = run_with(&[&["state", "import"], &place[..]].concat(), input.as_bytes());
            assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
            assert!(ran.stderr.starts_with("error: line 3 of standard input: "), "{}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        }
    }
    let unknown = format!("{good}\n{}\n", good.replace("Orders", "Other"));
    let args = files.args(&["state", "import", "--state", &state]);
    let ran = run_with(&args, unknown.as_bytes());
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("line 2 of standard input: expected a bucket of a limit"),
        "{ran:?}"
    );
    assert_eq!(redis.text(&["DBSIZE"]), "0");
    assert!(!PathBuf::from(&state).join("state").exists());

    let args = files.args(&["state", "export", "--state", &state]);
    let ran = run(&args);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("nothing is saved in"), "{}", ran.stderr);
}

#[test]
fn ids_that_no_limit_has_are_told_by_their_line() {
    let files = Files::new("wrong-ids");
    let state = files.state("state");
    let server = files.serve(&["--state", &state]);
    assert_eq!(server.bucket().ask("get Orders:ada 5").as_deref(), Some("1"));
    assert!(server.stop().success());
    let args = files.args(&["state", "export", "--ids", "-", "--state", &state]);
    for (ids, expected) in [
        ("Orders:ada\nOrders\n", "line 2 of -: expected LIMIT:ID"),
        ("Order:ada\n", "line 1 of -: "),
    ] {
        let ran = run_with(&args, ids.as_bytes());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn a_store_that_is_not_there_is_told_as_such() {
    let port = crate::servers::free_port();
    let url = format!("redis://:sesame@127.0.0.1:{port}");
    for command in ["export", "import"] {
        let line = br#"{"bucket":"Orders:ada","value":"1763273645123456 7 3600000000/1 20"}"#;
        let ran = run_with(&["state", command, "--store", &url], line);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{ran:?}");
        assert!(ran.stderr.contains("Redis is unreachable"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("sesame"), "{}", ran.stderr);
    }
    for args in [
        &["state"][..],
        &["state", "export"],
        &["state", "export", "--state", "x"],
        &["state", "import", "--store", "redis://localhost", "--state", "x", "--limits", "y"],
        &["state", "export", "--store", "redis://localhost", "--ids", "x"],
    ] {
        let ran = run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("Usage:"), "{}", ran.stderr);
    }
    let ran = run(&["state", "export", "--store", "memory"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--store is `memory`"), "{}", ran.stderr);
}
