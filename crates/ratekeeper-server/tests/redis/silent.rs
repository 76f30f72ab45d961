//! Redis lives, and nothing is decided there: it pauses, it loads, or nobody gets through to it or
//! understands it.

use std::cell::RefCell;

use crate::away::{judge_outage, settings_at};
use crate::proxy::{Proxy, State, Way};
use crate::servers::Single;
use crate::start_ahead;
use crate::support::{Folder, Web};

/// For how long Redis pauses, which it cannot be talked out of: longer than an outage is judged.
const PAUSE_MS: &str = "3000";

/// Redis pauses commands of this kind.
fn judge_pause(what: &str, kind: &str) {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = settings_at(&redis.url(), &folder);
    let server = start_ahead(&settings, 0);
    let pause = || drop(redis.command(&["CLIENT", "PAUSE", PAUSE_MS, kind]));
    // It is answered when the pause is over.
    let wait = || drop(redis.command(&["SET", "paused", "no", "PX", "1"]));
    judge_outage(what, &server, pause, wait);
    let failures = server.stats().shared.unwrap().failures;
    assert!(failures.get("timeout").is_some_and(|&count| count > 0), "{failures:?}");
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn decisions_go_on_while_redis_pauses_all_clients() {
    judge_pause("CLIENT PAUSE ALL", "ALL");
}

#[test]
fn decisions_go_on_while_redis_pauses_writes() {
    judge_pause("CLIENT PAUSE WRITE", "WRITE");
}

#[test]
fn decisions_go_on_while_redis_reads_its_data() {
    // A key takes it two milliseconds, and it looks at its clients every few keys.
    let slowly = [
        "--save",
        "",
        "--key-load-delay",
        "2000",
        "--loading-process-events-interval-bytes",
        "1024",
        "--rdbcompression",
        "no",
    ];
    let (redis, folder) = (RefCell::new(Single::with(&slowly)), Folder::new());
    let settings = settings_at(&redis.borrow().url(), &folder);
    let server = start_ahead(&settings, 0);
    let away = || {
        let mut redis = redis.borrow_mut();
        redis.command(&[
            "EVAL",
            "for i = 1, 1500 do redis.call('SET', i, string.rep('x', 300)) end",
            "0",
        ]);
        redis.command(&["SAVE"]);
        redis.kill();
        redis.restart_at_once();
    };
    let is_loaded = || redis.borrow().says(&["INFO", "persistence"], "\r\nloading:0");
    judge_outage("LOADING", &server, away, || crate::servers::until("it has loaded", is_loaded));
    let failures = server.stats().shared.unwrap().failures;
    assert!(failures.get("loading").is_some_and(|&count| count > 0), "{failures:?}");
    assert!(server.drain(settings.drain).unwrap());
}

/// One server is cut off from Redis, or hears it wrong; another is not. Returns why asks failed.
fn judge_network(what: &str, ways: &[Way], state: State) -> Vec<String> {
    let (redis, folder) = (Single::start(), Folder::new());
    let proxy = Proxy::start(redis.port);
    let settings = settings_at(&proxy.url(), &folder);
    let cut_off = start_ahead(&settings, 0);
    let connected = start_ahead(&settings_at(&redis.url(), &folder), 0);
    let heal = || {
        let mut web = Web::connect(&connected);
        let answer = web.post("/v1/spend", r#"{"limit":"Allow","id":"who is not cut off"}"#).json();
        assert_eq!(answer["allowed"], true, "{answer}");
        let shared = connected.stats().shared.unwrap();
        assert!(shared.decided > 0 && shared.let_through == 0, "{shared:?}");
        proxy.heal();
    };
    judge_outage(what, &cut_off, || proxy.set(ways, state), heal);
    let failures = cut_off.stats().shared.unwrap().failures;
    for server in [cut_off, connected] {
        assert!(server.drain(settings.drain).unwrap());
    }
    failures.into_keys().collect()
}

#[test]
fn decisions_go_on_at_a_server_that_is_cut_off() {
    let why = judge_network("split network", &[Way::There, Way::Back], State::Held);
    assert!(why.iter().any(|it| it == "timeout"), "{why:?}");
}

#[test]
fn decisions_go_on_at_a_server_that_redis_does_not_hear() {
    let why = judge_network("nothing gets to Redis", &[Way::There], State::Held);
    assert!(why.iter().any(|it| it == "timeout"), "{why:?}");
}

#[test]
fn decisions_go_on_at_a_server_that_does_not_hear_redis() {
    let why = judge_network("nothing comes from Redis", &[Way::Back], State::Held);
    assert!(why.iter().any(|it| it == "timeout"), "{why:?}");
}

#[test]
fn decisions_go_on_at_a_server_that_hears_nonsense() {
    let why = judge_network("nonsense", &[Way::Back], State::Garbled);
    assert!(why.iter().any(|it| it == "nonsense"), "{why:?}");
}

#[test]
fn decisions_go_on_at_a_server_whose_replies_are_cut_short() {
    let why = judge_network("a reply cut short", &[Way::Back], State::CutShort);
    assert!(why.iter().any(|it| it == "unreachable"), "{why:?}");
}
