use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ratekeeper::algorithm::Owner;
use ratekeeper::limits::{Limits, NAME_BYTES_MAX, NAMES_MAX, Source};
use ratekeeper::{Clock, Limiter, Moment};

use super::{METRICS_DECISIONS_BYTES_MAX, METRICS_HOLDERS_BYTES_MAX, Metrics, Scrape, Told};
use crate::observe::{ByDoor, ByLimit, Door, Rulings};
use crate::pressure::{Holder, Memory, Refused};
use crate::server::Server;
use crate::settings::Settings;

/// How long the text is at most, with every door open.
const METRICS_BYTES_MAX: usize = 200 << 10;

/// A server with every door on a free port.
fn server() -> Server {
    let mut settings = Settings::default();
    let free = Some("127.0.0.1:0".parse().unwrap());
    settings.http.listen = free;
    settings.udp.listen = free;
    settings.bucket.stream.listen = free;
    settings.throttr.stream.listen = free;
    settings.resp.listen = free;
    settings.memory = 64 << 20;
    Server::start(&settings, Arc::new(Clock::start())).unwrap()
}

/// Every sample of a text by its name and labels. Refuses whatever is not as the format has it.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").unwrap();
    let (mut samples, mut family) = (BTreeMap::new(), "");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram", "info"].contains(&kind), "{line}");
            family = name;
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(family) && is_series(series), "{line}");
            let value: f64 = value.parse().unwrap();
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

/// `name` or `name{label="value",..}`, with every quote and backslash in a value escaped.
fn is_series(series: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let Some((name, mut rest)) = series.split_once('{') else { return is_word(series) };
    loop {
        let Some((label, value)) = rest.split_once("=\"") else { return false };
        let Some(end) = value_end(value) else { return false };
        if !is_word(label) {
            return false;
        }
        rest = &value[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return is_word(name) && rest == "}",
        }
    }
}

/// Where the quote is that ends a value.
fn value_end(value: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in value.char_indices() {
        match c {
            _ if is_escaped => {
                assert!(matches!(c, '\\' | '"' | 'n'), "{value}");
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn scrape(server: &Server, by_limit: ByLimit) -> Scrape {
    Scrape { by_limit, ..Scrape::new(server.admin()) }
}

fn by_limit(names: impl Iterator<Item = String>, count: u64) -> ByLimit {
    let counts =
        ByDoor([Rulings { allowed: count, denied: count, shadow: count }; Door::ALL.len()]);
    ByLimit { limits: names.map(|name| (name.into(), counts)).collect(), others: counts }
}

/// As many names as there can be, as long as they can be.
fn long_names() -> impl Iterator<Item = String> {
    (0..NAMES_MAX).map(|number| format!("{number:0>NAME_BYTES_MAX$}"))
}

/// A limit that holds more than anybody can, and lost as much.
fn holder(number: u32, name: String) -> Holder {
    let most = u64::MAX / NAMES_MAX as u64;
    let refused = Refused { evicted: most, turned_away: most, share_full: most };
    // All of them together fit in a gauge, which has a sign.
    let keys = usize::try_from(most / 4).unwrap();
    let owner = Owner::new(number);
    Holder {
        store: "limits",
        owner,
        name,
        on_full: None,
        keys,
        share: keys,
        refused,
        tokens_forgiven: 0,
    }
}

#[test]
fn limits_that_are_too_many_to_be_named_hold_their_keys_together_and_keep_their_names() {
    let mut told = Told::default();
    let memory = |refused: u64| {
        let holders = long_names().zip(0..).map(|(name, number)| {
            // Another one is the most refused every time.
            let evicted = if u64::from(number) == refused { 9 } else { 1 };
            let refused = Refused { evicted, ..Refused::default() };
            (Holder { keys: 2, refused, ..holder(number, name) }, true)
        });
        Memory { holders: holders.collect(), shorts: NAMES_MAX, sentence: None }
    };
    let mut names = |refused: u64| {
        let all = told.holdings(&memory(refused));
        assert_eq!(all.iter().map(|it| it.keys).sum::<usize>(), 2 * NAMES_MAX);
        assert_eq!(all.last().map(|it| it.limit.is_none()), Some(true));
        let mut names: Vec<_> = all.into_iter().filter_map(|it| it.limit).collect();
        names.sort();
        names
    };
    let first = names(NAMES_MAX as u64 - 1);
    assert!(first.len() > 30 && first.last().unwrap().ends_with("65535"), "{first:?}");
    assert_eq!(names(NAMES_MAX as u64 - 2), first);
}

fn decisions(samples: &BTreeMap<String, f64>) -> f64 {
    let decisions =
        samples.iter().filter(|(name, _)| name.starts_with("ratekeeper_decisions_total"));
    decisions.map(|(_, value)| value).sum()
}

#[test]
fn the_longest_text_stays_within_its_bound() {
    let server = server();
    let count = u64::MAX / NAMES_MAX as u64 / 2;
    let mut scrape = scrape(&server, by_limit(long_names(), count));
    let (_, mut counts, mut took) = scrape.doors[0];
    counts.requests = u64::MAX;
    took.buckets.fill(u64::MAX / 32);
    took.nanos = u64::MAX;
    scrape.doors = Door::ALL.map(|door| (door.name(), counts, took)).to_vec();
    scrape.memory.holders =
        long_names().zip(0..).map(|(name, it)| (holder(it, name), true)).collect();
    let text = Metrics::default().text(scrape);
    assert!(text.len() <= METRICS_BYTES_MAX, "{}", text.len());
    // Numbers are shorter than the longest there is, and so are the lines.
    let lines = |start: &str| -> usize {
        text.lines().filter(|line| line.starts_with(start)).map(|line| line.len() + 1).sum()
    };
    let (decisions, holders) = (lines("ratekeeper_decisions"), lines("ratekeeper_limit"));
    assert!(
        (METRICS_DECISIONS_BYTES_MAX * 9 / 10..METRICS_DECISIONS_BYTES_MAX).contains(&decisions)
    );
    assert!((METRICS_HOLDERS_BYTES_MAX * 9 / 10..METRICS_HOLDERS_BYTES_MAX).contains(&holders));
    parsed(&text);
}

#[test]
fn what_is_not_told_by_name_is_told_together() {
    let server = server();
    let all = (f64::from(u32::try_from(NAMES_MAX).unwrap()) + 1.0) * 15.0 * 7.0;
    let text = Metrics::default().text(scrape(&server, by_limit(long_names(), 7)));
    assert!((decisions(&parsed(&text)) - all).abs() < 0.5);
    assert!(text.contains("ratekeeper_decisions_total{limit=\"\",others=\"true\",door=\"udp\""));
}

#[test]
fn a_name_that_did_not_fit_never_does_and_one_that_did_always_does() {
    let mut told = Told::default();
    let names = |told: &mut Told, by_limit: &ByLimit| -> Vec<String> {
        told.decisions(by_limit).into_iter().filter_map(|it| it.limit).collect()
    };
    let mut half = by_limit(long_names(), 1);
    for (_, counts) in half.limits.iter_mut().step_by(2) {
        *counts = ByDoor::default();
    }
    let first = names(&mut told, &half);
    assert!(first.len() > 100);
    let second = names(&mut told, &by_limit(long_names(), u64::MAX / NAMES_MAX as u64 / 2));
    assert_eq!(first, second);
}

#[test]
fn the_values_of_labels_are_escaped() {
    let server = server();
    let name = "back\\slash \"quoted\"\nline é".to_owned();
    let text = Metrics::default().text(scrape(&server, by_limit([name].into_iter(), 1)));
    let line = r#"ratekeeper_decisions_total{limit="back\\slash \"quoted\"\nline é",door="udp",verdict="denied"} 1"#;
    assert!(text.lines().any(|it| it == line), "{text}");
    parsed(&text);
}

#[test]
fn a_million_ids_do_not_make_the_text_longer() {
    let server = server();
    let witness = server.admin().engine.observer.witness(Door::Udp);
    let source = Source { name: "limits.yaml", text: "A: {burst: 1, count: 1, period: 1h}" };
    let limiter = Limiter::new(Limits::parse(&source, None).unwrap()).unwrap().witnessed(witness);
    let mut id = String::new();
    for number in 0..1_000_000 {
        id.clear();
        write!(id, "{number}").unwrap();
        let _ = limiter.spend("A", &id, 1, Moment::EPOCH).unwrap();
    }
    let text = server.metrics();
    assert!(text.len() < 20 << 10, "{}", text.len());
    let name = r#"ratekeeper_decisions_total{limit="A",door="udp",verdict="allowed"}"#;
    assert!((parsed(&text)[name] - 1e6).abs() < 0.5);
    let stats = serde_json::to_string(&server.stats()).unwrap();
    assert!(stats.len() < 20 << 10, "{}", stats.len());
}

/// Counters and histograms; the others may go down.
fn is_counter(series: &str) -> bool {
    ["_total", "_bucket", "_count", "_sum"]
        .iter()
        .any(|end| series.ends_with(end) || series.contains(&format!("{end}{{")))
}

#[test]
fn no_counter_goes_down_while_requests_and_reloads_go_on() {
    const SCRAPES: usize = 60;
    let server = server();
    let is_done = AtomicBool::new(false);
    let engine = &server.admin().engine;
    thread::scope(|scope| {
        for door in [Door::Udp, Door::Http] {
            let (limiter, is_done) =
                (engine.stores.limiter.witnessed(engine.observer.witness(door)), &is_done);
            scope.spawn(move || {
                let mut number = 0_u64;
                while !is_done.load(Ordering::Relaxed) {
                    number += 1;
                    let _ = limiter.spend("LoginsPerUser", &number.to_string(), 1, Moment::EPOCH);
                    let _ = limiter.spend("bucketa", "*", 1, Moment::EPOCH);
                }
            });
        }
        let mut before = parsed(&server.metrics());
        for round in 0..SCRAPES {
            // Names come, and those that were there stay.
            let names: Vec<String> = (0..20).map(|name| format!("limit-{round}-{name}")).collect();
            engine.observer.expect(names.iter().map(String::as_str));
            server.reload().unwrap();
            let after = parsed(&server.metrics());
            for (series, value) in before.iter().filter(|(series, _)| is_counter(series)) {
                assert!(after[series] >= *value, "{series}: {value}, then {}", after[series]);
            }
            before = after;
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(decisions(&before) > 0.0);
    });
}
