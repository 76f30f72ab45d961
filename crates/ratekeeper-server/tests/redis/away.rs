//! Redis is slow, gone, or not itself: decisions go on, each limit's own way, and it is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;

use crate::servers::{Single, until};
use crate::support::{Folder, Stream, Web};
use crate::{sharing_at, start_ahead};

/// One limit for each way, and one that is never denied.
const LIMITS: &str = "
Deny: {burst: 50, count: 50, period: 1s, on_store_failure: deny}
Local: {burst: 50, count: 50, period: 1s, on_store_failure: local}
Allow: {burst: 50, count: 50, period: 1s, on_store_failure: allow}
Watched: {burst: 1000000, count: 1000000, period: 1s}
";
/// How long a decision may take here, and what a busy machine may take besides for any one.
const TIMEOUT: Duration = Duration::from_millis(100);
const SLACK: Duration = Duration::from_millis(900);
/// How soon a store that is back must decide again.
const RECOVERY: Duration = Duration::from_secs(1);
/// For how long an outage is looked at.
const JUDGED: Nanos = Nanos::from_secs(1);

/// A client that asks one limit, one ask at a time, until it is told to stop.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<Asked>>,
}

/// One ask.
struct Asked {
    at: Moment,
    took: Duration,
    passed: bool,
}

impl Load {
    fn begin(server: &Server, limit: &'static str, clock: &Arc<Clock>) -> Self {
        let mut client = Stream::connect(server, "bucket");
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, clock) = (Arc::clone(&is_over), Arc::clone(clock));
        let thread = thread::spawn(move || {
            let mut answers = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let at = clock.now();
                client.send(format!("get {limit}:ada\n").as_bytes());
                let passed = client.read(2) == b"1\n";
                answers.push(Asked { at, took: clock.now().since(at).into(), passed });
            }
            answers
        });
        Self { is_over, thread }
    }

    fn end(self) -> Vec<Asked> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn settings(redis: &Single, folder: &Folder) -> Settings {
    settings_at(&redis.url(), folder)
}

pub(crate) fn settings_at(url: &str, folder: &Folder) -> Settings {
    let mut settings = sharing_at(url, folder, LIMITS);
    settings.store.timeout = TIMEOUT;
    settings
}

/// Asks once of each limit, so that the server is connected.
fn warm(server: &Server) -> Web {
    let mut web = Web::connect(server);
    for limit in ["Deny", "Local", "Allow"] {
        let ask = format!(r#"{{"limit":"{limit}","id":"ada"}}"#);
        until("Redis answers", || {
            web.post("/v1/spend", &ask);
            server.stats().shared.is_some_and(|it| it.up && it.decided > 0)
        });
    }
    web
}

/// Asks of each limit while Redis is away, and judges what comes of it. `back` returns when it is
/// there again.
pub(crate) fn judge_outage(what: &str, server: &Server, away: impl FnOnce(), back: impl FnOnce()) {
    let mut web = warm(server);
    let clock = Arc::new(Clock::start());
    let watch = Load::begin(server, "Watched", &clock);
    away();
    let gone = clock.now();
    // What was under way when it went may have been decided.
    until("it is seen", || {
        web.post("/v1/spend", r#"{"limit":"Deny","id":"bob"}"#);
        !server.stats().shared.unwrap().up
    });
    judge_policies(server, &clock);
    let ready = web.get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.text().starts_with("ready, without the store: "), "{}", ready.text());
    assert!(server.metrics().contains("\nratekeeper_shared_store_up 0\n"));
    back();
    let returned = clock.now();
    let before = server.stats().shared.unwrap().decided;
    until("it decides", || server.stats().shared.unwrap().decided > before);
    let recovery = Duration::from(clock.now().since(returned));
    until("it is said to be back", || server.stats().shared.unwrap().up);
    let mut took: Vec<Duration> = watch
        .end()
        .into_iter()
        .filter(|it| (gone..returned).contains(&it.at))
        .map(|it| it.took)
        .collect();
    took.sort_unstable();
    let [p50, p99, most] =
        [took.len() / 2, took.len() * 99 / 100, took.len() - 1].map(|at| took[at]);
    eprintln!(
        "{what}: {} asks in {:?}, p50 {p50:?}, p99 {p99:?}, longest {most:?}; \
         decided again after {recovery:?}",
        took.len(),
        Duration::from(returned.since(gone)),
    );
    assert!(p99 <= TIMEOUT, "{what}: one in a hundred took {p99:?}");
    assert!(most <= TIMEOUT + SLACK, "{what}: a decision took {most:?}");
    assert!(recovery <= RECOVERY, "{what}: it was back for {recovery:?} before it decided");
    let answer = web.post("/v1/spend", r#"{"limit":"Deny","id":"zoe"}"#).json();
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(web.get("/readyz").text(), "ready");
    assert!(server.metrics().contains("\nratekeeper_shared_store_up 1\n"));
}

/// While Redis is away every limit does as it says.
fn judge_policies(server: &Server, clock: &Arc<Clock>) {
    let before = server.stats().shared.unwrap();
    let began = clock.now();
    let loads = ["Deny", "Local", "Allow"].map(|limit| Load::begin(server, limit, clock));
    until("a while of it", || clock.now().since(began) > JUDGED);
    let [deny, local, allow] = loads.map(Load::end);
    let secs = Duration::from(clock.now().since(began)).as_secs_f64();
    let after = server.stats().shared.unwrap();
    let passed = |answers: &[Asked]| answers.iter().filter(|it| it.passed).count();
    assert_eq!(passed(&deny), 0, "of those that are to be denied");
    assert!(passed(&local) as f64 <= 50.0 + 50.0 * secs, "{} in {secs} s", passed(&local));
    assert!(passed(&local) > 0, "the memory of the server decides");
    assert_eq!(passed(&allow), allow.len(), "of those that are to be let through");
    assert_eq!(after.let_through - before.let_through, allow.len() as u64, "it says how many");
    for Asked { took, .. } in deny.iter().chain(&local).chain(&allow) {
        assert!(*took <= TIMEOUT + SLACK, "a decision took {took:?}");
    }
}

#[test]
fn decisions_go_on_when_redis_is_killed_and_it_is_back_by_itself() {
    let (redis, folder) = (std::cell::RefCell::new(Single::start()), Folder::new());
    let settings = settings(&redis.borrow(), &folder);
    let server = start_ahead(&settings, 0);
    judge_outage("killed", &server, || redis.borrow_mut().kill(), || redis.borrow_mut().restart());
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn decisions_go_on_when_redis_hangs() {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = settings(&redis, &folder);
    let server = start_ahead(&settings, 0);
    judge_outage(
        "SIGSTOP",
        &server,
        || redis.signal(Signal::SIGSTOP),
        || redis.signal(Signal::SIGCONT),
    );
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn decisions_go_on_when_redis_has_no_memory_left() {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = settings(&redis, &folder);
    let server = start_ahead(&settings, 0);
    let set = |memory| drop(redis.command(&["CONFIG", "SET", "maxmemory", memory]));
    judge_outage("OOM", &server, || set("1"), || set("0"));
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn decisions_go_on_when_redis_becomes_a_replica() {
    let (redis, primary, folder) = (Single::start(), Single::start(), Folder::new());
    let settings = settings(&redis, &folder);
    let server = start_ahead(&settings, 0);
    let port = primary.port.to_string();
    let demote = || drop(redis.command(&["REPLICAOF", "127.0.0.1", &port]));
    judge_outage("READONLY", &server, demote, || drop(redis.command(&["REPLICAOF", "NO", "ONE"])));
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn a_server_starts_without_redis_and_finds_it_when_it_comes() {
    let (mut redis, folder) = (Single::start(), Folder::new());
    let settings = settings(&redis, &folder);
    redis.kill();
    let server = start_ahead(&settings, 0);
    let mut web = Web::connect(&server);
    assert_eq!(web.post("/v1/spend", r#"{"limit":"Local","id":"a"}"#).json()["allowed"], true);
    assert_eq!(web.post("/v1/spend", r#"{"limit":"Deny","id":"a"}"#).json()["allowed"], false);
    redis.restart();
    until("it is found", || {
        web.post("/v1/spend", r#"{"limit":"Local","id":"b"}"#);
        server.stats().shared.unwrap().up
    });
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn a_wrong_password_is_told_and_never_shown() {
    let (redis, folder) = (Single::with(&["--requirepass", "sesame"]), Folder::new());
    let mut settings = settings(&redis, &folder);
    let address = format!("redis://:open-it@127.0.0.1:{}", redis.port);
    settings.store.address = Some(address.parse().unwrap());
    let server = start_ahead(&settings, 0);
    let mut web = Web::connect(&server);
    web.post("/v1/spend", r#"{"limit":"Deny","id":"a"}"#);
    let shared = server.stats().shared.unwrap();
    let why = shared.why.clone().unwrap_or_default();
    assert!(why.contains("credentials"), "{why}");
    let told =
        format!("{shared:?} {settings:?} {} {}", server.metrics(), web.get("/readyz").text());
    assert!(!told.contains("open-it"), "{told}");
    assert!(server.drain(settings.drain).unwrap());
}
