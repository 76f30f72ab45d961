//! A full memory, as a whole server tells it.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper::{Moment, Nanos};
use ratekeeper_server::Server;
use ratekeeper_server::settings::{SecretText, Settings};
use ratekeeper_server::stats::{LimitMemory, Stats};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, StandingTime, Stream, Web, insert, settings, start,
};

const LIMITS: &str = "
Flooded: {burst: 1, count: 1, period: 1h}
Others: {burst: 5, count: 5, period: 1h, share: 3}
";
/// The least that settings allow; half of it is for named limits.
const MEMORY: usize = 4 << 20;
/// More ids than it holds.
const FLOOD: usize = 70_000;
/// So many asks are sent before their answers are read.
const CHUNK: usize = 2_000;
/// When the server's time begins.
const START_SECS: u64 = 1_000_000;

/// What is written to the log by this thread, while it is there.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        // While there has been one log only, whether a line is wanted is decided by the thread that
        // comes to it first, and that may be another test's.
        let _second = tracing::Dispatch::new(tracing_subscriber::fmt().finish());
        let log = tracing_subscriber::fmt().with_writer(self.clone()).with_ansi(false);
        tracing::subscriber::set_default(log.finish())
    }

    /// The lines about memory that are new.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap();
        text.lines().filter(|line| line.contains("memory is")).map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn with_little_memory(folder: &Folder) -> Settings {
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    settings.memory = MEMORY;
    settings
}

/// Asks the token-bucket door once for each of so many ids.
fn flood(server: &Server, limit: &str, ids: std::ops::Range<usize>) {
    let mut door = Stream::connect(server, "bucket");
    let ids: Vec<usize> = ids.collect();
    for chunk in ids.chunks(CHUNK) {
        let mut lines = String::new();
        for id in chunk {
            writeln!(lines, "get {limit}:{id}").unwrap();
        }
        door.send(lines.as_bytes());
        door.read("1\n".len() * chunk.len());
    }
}

fn of(stats: &Stats, store: &str, limit: &str) -> LimitMemory {
    let by_limit = &stats.stores[store].by_limit;
    by_limit.iter().find(|it| it.limit == limit).unwrap_or_else(|| panic!("{by_limit:?}")).clone()
}

fn later(time: &StandingTime, secs: u64) {
    time.set(Moment::EPOCH.after(Nanos::from_secs(START_SECS + secs)));
}

#[test]
fn a_flood_of_one_limit_is_told_while_it_lasts_and_once_in_the_log() {
    let folder = Folder::new();
    let (log, time) = (Log::default(), StandingTime::at_secs(START_SECS));
    let _logging = log.start();
    let server = start(&with_little_memory(&folder), time.clone());
    let mut web = Web::connect(&server);
    flood(&server, "Others", 0..100);
    assert_eq!((server.stats().pressure, web.get("/readyz").text()), (None, "ready"));

    flood(&server, "Flooded", 0..FLOOD);
    let stats = server.stats();
    let sentence = stats.pressure.clone().unwrap();
    assert!(sentence.starts_with("memory is short for 1 limit: Flooded holds "), "{sentence}");
    assert!(sentence.ends_with(", new ids are denied"), "{sentence}");
    let (flooded, others) = (of(&stats, "limits", "Flooded"), of(&stats, "limits", "Others"));
    assert!(flooded.under_pressure && flooded.turned_away > 0, "{flooded:?}");
    assert_eq!((others.keys, others.turned_away, others.under_pressure), (100, 0, false));
    assert_eq!(others.share, flooded.share * 3, "by weight");
    assert_eq!(stats.stores["limits"].by_limit[0], flooded, "who is short comes first");
    // Anybody may ask, so it has no names.
    let ready = web.get("/readyz");
    assert_eq!((ready.status, ready.text()), (200, "ready, but memory is short for 1 limit"));
    assert_eq!(web.get("/v1/stats").json()["pressure"], *sentence);
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let advice = "memory is short for Flooded: new ids are denied; raise `memory`, or give the \
                  limit a larger `share` or `on_full: forget` in its file";
    assert!(lines[0].contains(" WARN ") && lines[0].contains(advice), "{lines:?}");

    // It goes on, and nothing more is to be said about it.
    later(&time, 9);
    flood(&server, "Flooded", FLOOD..FLOOD + 10);
    assert!(server.stats().pressure.is_some());
    later(&time, 18);
    assert!(server.stats().pressure.is_some());
    assert_eq!(log.take(), [""; 0]);
    later(&time, 19);
    let stats = server.stats();
    assert_eq!(stats.pressure, None);
    assert!(!of(&stats, "limits", "Flooded").under_pressure);
    assert_eq!(web.get("/readyz").text(), "ready");
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let turned_away = of(&stats, "limits", "Flooded").turned_away;
    for part in [" INFO ", "is enough again for Flooded", "lasted=19s"] {
        assert!(lines[0].contains(part), "{part} is not in {lines:?}");
    }
    assert!(lines[0].contains(&format!("turned_away={turned_away}")), "{lines:?}");
}

#[test]
fn prometheus_is_told_who_holds_how_much_and_is_short_of_it() {
    let folder = Folder::new();
    let server = start(&with_little_memory(&folder), StandingTime::at_secs(START_SECS));
    flood(&server, "Others", 0..10);
    flood(&server, "Flooded", 0..FLOOD);
    let (text, flooded) = (server.metrics(), of(&server.stats(), "limits", "Flooded"));
    let labels = r#"{store="limits",limit="Flooded"}"#;
    for line in [
        "ratekeeper_limits_under_pressure 1".to_owned(),
        format!("ratekeeper_limit_keys{labels} {}", flooded.keys),
        format!("ratekeeper_limit_share_keys{labels} {}", flooded.share),
        format!("ratekeeper_limit_evictions_total{labels} 0"),
        format!("ratekeeper_limit_turned_away_total{labels} {}", flooded.turned_away),
        r#"ratekeeper_limit_keys{store="limits",limit="Others"} 10"#.to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn whoever_asks_for_readiness_is_not_told_which_limits_there_are() {
    let folder = Folder::new();
    let mut settings = with_little_memory(&folder);
    settings.http.tokens_text = Some(SecretText("ops admin a-token-that-may-do-all".into()));
    let server = start(&settings, StandingTime::at_secs(START_SECS));
    flood(&server, "Flooded", 0..FLOOD);
    assert!(server.stats().pressure.is_some());
    let ready = Web::connect(&server).get("/readyz");
    assert_eq!((ready.status, ready.text()), (200, "ready, but memory is short for 1 limit"));
}

#[test]
fn averages_are_told_by_their_rules_and_quotas_together() {
    let folder = Folder::new();
    let mut settings = with_little_memory(&folder);
    let rules = "count: [{match: '^a', key: counted}]\n\
                 rules: [{match: ^never, over_limit: false}, {match: '^a (.*)', limit: 9, period: 9}]\n";
    settings.udp.rules = Some(folder.write("rules.yaml", rules));
    let server = start(&settings, StandingTime::at_secs(START_SECS));
    let datagrams = Datagrams::connect(&server);
    datagrams.ask(b"1 over_limit a b");
    datagrams.ask(b"2 over_limit a c");
    let mut throttr = Stream::connect(&server, "throttr");
    throttr.send(&insert(9, 1, 60, "ada", "/"));
    throttr.read(INSERT_ANSWER_BYTES);
    let stats = server.stats();
    let keys = |store: &str, limit| of(&stats, store, limit).keys;
    assert_eq!(keys("averages", "rule 2, ^a (.*)"), 2);
    assert_eq!(keys("averages", "count 1, ^a"), 1);
    assert_eq!(keys("quotas", "(all quotas)"), 1);
}
