//! Frames, as they were agreed on, and what keys do.
//!
//! After a change that is meant, `UPDATE_HELP=1 cargo test -p ratekeeper-cli` writes them anew.

use std::fs;

use ratekeeper_server::stats::Stats;
use serde_json::json;

use super::plain;
use super::view::{FILTER_CHARS_MAX, HISTORY, Key, Link, Pane, View};

/// Read when the tests are compiled, which cargo does again when it changes.
const UPDATE: Option<&str> = option_env!("UPDATE_HELP");

fn is_golden(name: &str, view: &View) {
    is_golden_at(name, view, (110, 32));
}

fn is_golden_at(name: &str, view: &View, (width, height): (u16, u16)) {
    let frame = plain(view, width, height);
    let path = format!("{}/tests/top/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if UPDATE.is_some() {
        fs::write(&path, &frame).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap();
    assert_eq!(frame, golden, "{path} differs from what is drawn");
}

/// The counters of a server after `seconds`, in which each limit was asked as often as its share.
fn stats(seconds: u64) -> Stats {
    let rulings = |allowed: u64, denied: u64, shadow: u64| json!({"allowed": allowed * seconds, "denied": denied * seconds, "shadow": shadow * seconds});
    let busy = |limit: &str, id: &str, count: u64, error: u64| json!({"limit": limit, "id": id, "count": count * seconds, "error": error});
    let door = |address: &str, requests: u64| {
        json!({"address": address, "requests": requests * seconds, "allowed": requests,
            "denied": seconds, "ignored": 0, "malformed": 0, "connections": 2, "accepted": 9,
            "refused": 0, "dropped": 0, "latency": {"p50_us": 20, "p99_us": 200, "max_us": 999}})
    };
    let store = json!({"keys": 12, "bytes": 512, "bytes_max": 1024, "evicted": 0,
        "tokens_forgiven": 0, "turned_away": 3});
    let text = json!({
        "version": "0.1.0", "at": 1_763_257_777.5 + f64::from(u32::try_from(seconds).unwrap()),
        "uptime_secs": 3600 + seconds,
        "doors": {"http": door("127.0.0.1:8080", 5), "udp": door("127.0.0.1:2000", 0)},
        "stores": {"limits": store, "quotas": store},
        "reloads": {"done": 1, "failed": 0}, "saves": {"done": 2, "failed": 0},
        "limits": {
            "LoginsPerUser": rulings(3, 1, 0),
            "SearchesPerIPAddress": rulings(20_000, 0, 0),
            "TriedPerUser": rulings(0, 0, 2),
            "Quiet": rulings(0, 0, 0),
        },
        "others": {"allowed": 0, "denied": 0, "shadow": 0},
        "busiest": [busy("SearchesPerIPAddress", "10.0.0.1", 15_000, 12), busy("LoginsPerUser", "ada", 4, 0)],
        "most_denied": [busy("LoginsPerUser", "ada\u{1b}[2J", 1, 0)],
        "configured": {"since": 1_763_257_000.5, "version": 3, "limits": 4, "overrides_in_files": 2,
            "overrides_at_run_time": 1, "durable": true, "state": "/var/lib/ratekeeper",
            "files": ["limits.yaml", "the starter rules"]},
        "ready": true,
    });
    serde_json::from_value(text).unwrap()
}

fn view() -> View {
    let mut view = View::new("http://127.0.0.1:8080".into(), Link::Live);
    for seconds in [1, 2, 3, 5] {
        view.take(stats(seconds));
    }
    view
}

/// A server with every door, and with as many limits and ids as one has that is used.
fn crowded() -> View {
    let mut view = View::new("http://127.0.0.1:8080".into(), Link::Live);
    for seconds in [1, 2, 3, 5] {
        let mut stats = stats(seconds);
        let http = stats.doors["http"].clone();
        for (name, port) in [("udp", 2000), ("bucket", 4444), ("resp", 6380), ("throttr", 9000)] {
            let mut door = http.clone();
            door.address = format!("127.0.0.1:{port}").parse().unwrap();
            stats.doors.insert(name.to_owned(), door);
        }
        let quotas = stats.stores["quotas"].clone();
        stats.stores.insert("averages".to_owned(), quotas);
        for (at, name) in
            (1..).zip(["NewRegistrationsPerIPv6Range", "OrdersPerShop", "MailsPerHost"])
        {
            let mut rulings = stats.limits["LoginsPerUser"];
            rulings.allowed += at * seconds;
            stats.limits.insert(name.to_owned(), rulings);
        }
        for at in 0..10 {
            let mut busy = stats.busiest[0].clone();
            busy.id = format!("2001:db8:0:{at}::1");
            stats.busiest.push(busy);
        }
        view.take(stats);
    }
    view
}

fn press(view: &mut View, keys: &str) {
    keys.chars().for_each(|c| view.press(Key::Char(c)));
}

#[test]
fn a_busy_server_is_drawn_as_it_was_agreed() {
    is_golden("busy", &view());
}

/// Names, doors and stores are all there, at the size that a terminal begins with too.
#[test]
fn a_crowded_server_is_drawn_at_the_sizes_that_terminals_have() {
    let mut view = crowded();
    for (name, size) in [("small", (80, 24)), ("large", (140, 42))] {
        is_golden_at(name, &view, size);
        let frame = plain(&view, size.0, size.1);
        for part in [
            "NewRegistrationsPerIPv6Rang",
            "SearchesPerIPAddress",
            "127.0.0.1:2000",
            "127.0.0.1:4444",
            "127.0.0.1:6380",
            "127.0.0.1:8080",
            "127.0.0.1:9000",
            "averages",
        ] {
            assert!(frame.contains(part), "{part} is not in\n{frame}");
        }
    }
    view.press(Key::Tab);
    view.press(Key::Tab);
    is_golden_at("small_denied", &view, (80, 24));
}

#[test]
fn what_goes_wrong_has_a_line_of_its_own() {
    let mut view = view();
    let mut stats = stats(6);
    let shared = json!({"address": "redis:6379", "up": false, "down_secs": 299, "why": "refused\n",
        "trips": 1, "decided": 1, "remembered": 0, "leased": 0, "local": 1, "let_through": 0,
        "turned_away": 0, "failures": {}});
    stats.shared = Some(serde_json::from_value(shared).unwrap());
    view.take(stats);
    for (width, height) in [(80, 24), (140, 42)] {
        let frame = plain(&view, width, height);
        assert_eq!(frame.lines().nth(3), Some("the shared store is away for 4m59s: refused\\n"));
    }
}

#[test]
fn nothing_yet_and_nobody_there_is_drawn_too() {
    let mut lost = View::new("/run/ratekeeper.sock".into(), Link::Polled);
    is_golden("empty", &lost);
    lost = view();
    lost.link = Link::Lost("no server answers at http://127.0.0.1:8080".into());
    is_golden("lost", &lost);
}

#[test]
fn a_limit_that_is_short_of_memory_has_a_line_while_it_is() {
    let mut view = view();
    let sentence =
        "memory is short for 1 limit: Flooded holds 9 keys (its share: 3), new ids are denied";
    let mut short = stats(6);
    short.pressure = Some(sentence.to_owned());
    view.take(short);
    assert_eq!(plain(&view, 110, 32).lines().nth(3), Some(sentence));
    let narrow = plain(&view, 80, 24);
    let lines: Vec<_> = narrow.lines().skip(3).take(2).collect();
    assert_eq!(lines.join(" "), sentence, "a terminal of 80 columns shows the end of it, too");
    assert!(narrow.contains("SearchesPerIPAddress") && plain(&view, 140, 42).contains(sentence));
    view.take(stats(7));
    assert!(!plain(&view, 110, 32).contains("memory is short"));
}

#[test]
fn the_help_is_drawn_over_the_rest_and_any_key_closes_it() {
    let mut view = view();
    press(&mut view, "?");
    is_golden("help", &view);
    press(&mut view, "q");
    assert!(!view.is_helping && !view.is_over);
}

#[test]
fn a_filter_leaves_the_limits_that_have_it_in_their_name() {
    let mut view = view();
    press(&mut view, "/peruser");
    is_golden("filter", &view);
    view.press(Key::Backspace);
    view.press(Key::Enter);
    assert_eq!((&*view.filter, view.is_typing, view.limits().len()), ("peruse", false, 2));
    view.press(Key::Escape);
    assert_eq!((view.limits().len(), view.is_over), (4, false));
}

#[test]
fn a_filter_does_not_grow_without_end() {
    let mut view = view();
    press(&mut view, &format!("/{}", "x".repeat(2 * FILTER_CHARS_MAX)));
    assert_eq!(view.filter.len(), FILTER_CHARS_MAX);
}

#[test]
fn limits_without_a_name_of_their_own_are_the_last_line() {
    let mut view = view();
    let mut more = stats(6);
    more.others.denied = 7;
    view.take(more);
    let last = view.limits().pop().unwrap();
    assert_eq!((last.name, last.total.denied), ("(others)", 7));
    assert_eq!(last.pace.unwrap().denied.to_bits(), 7.0_f64.to_bits());
    press(&mut view, "/o");
    assert!(view.limits().iter().all(|line| line.name != "(others)"));
}

#[test]
fn the_charts_show_the_whole_last_minute() {
    let mut view = View::new(String::new(), Link::Live);
    (1..).take(HISTORY + 1).for_each(|seconds| view.take(stats(seconds)));
    assert_eq!(view.whole.history.len(), HISTORY);
    let frame = plain(&view, 110, 32);
    assert!(frame.contains(&format!(" {}\n", "\u{2588}".repeat(20))), "{frame}");
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let mut view = view();
    for (width, height) in [(1, 1), (10, 3), (40, 12), (300, 100)] {
        view.is_helping = !view.is_helping;
        assert_eq!(plain(&view, width, height).lines().count(), usize::from(height));
    }
}

#[test]
fn the_eye_moves_within_a_box_and_from_box_to_box() {
    let mut view = view();
    press(&mut view, "jjjjjj");
    assert_eq!(view.line, 3);
    press(&mut view, "k");
    view.press(Key::Tab);
    assert_eq!((view.pane, view.line), (Pane::Busiest, 0));
    press(&mut view, "G");
    assert_eq!(view.line, 1);
    view.press(Key::Tab);
    view.press(Key::Tab);
    assert_eq!(view.pane, Pane::Limits);
    view.press(Key::BackTab);
    assert_eq!(view.pane, Pane::MostDenied);
    press(&mut view, "q");
    assert!(view.is_over);
}

#[test]
fn a_restart_begins_anew_and_is_no_negative_pace() {
    let mut view = view();
    assert!(view.whole.sum() > 0.0);
    let mut restarted = stats(1);
    restarted.at += 100.0;
    restarted.uptime_secs = 1;
    view.take(restarted);
    assert_eq!((view.whole.sum().to_bits(), view.whole.history.len()), (0, 0));
}

#[test]
fn only_the_last_minute_is_kept() {
    let mut view = View::new(String::new(), Link::Live);
    (1..200).for_each(|seconds| view.take(stats(seconds)));
    assert_eq!(view.whole.history.len(), HISTORY);
}
