//! Clients that ask all the time, and what a failover costs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_server::Server;

use crate::servers::{until, within};
use crate::support::{Stream, Web};

/// One limit that only the store decides, and never gives back; one that memory takes over.
pub(crate) const LIMITS: &str = "
Shared: {burst: 100, count: 100, period: 24h}
Counted: {burst: 1000000, count: 1, period: 1h, on_store_failure: deny}
Local: {burst: 50, count: 50, period: 1s, on_store_failure: local}
";
const COUNTED: u64 = 1_000_000;
const LOCAL_BURST: f64 = 50.0;
const LOCAL_RATE: f64 = 50.0;
/// How long a decision may wait for the store here.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(100);
/// How long it takes at most until a store that is back decides again.
const RECOVERY: Duration = Duration::from_secs(1);
/// What a busy machine may take besides.
const SLACK: Duration = Duration::from_millis(900);
/// How long an answer of the old primary may take to be seen; a failover takes much longer.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// How long those who watch Redis may take to agree on a new primary, while the machine is busy
/// with these clients. If two stand for election at once they have to do it again seconds later.
const AGREEMENT: Duration = Duration::from_mins(2);
/// How many asks are decided before the primary is killed.
const WARM: u64 = 4_000;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Moment,
    took: Duration,
    passed: bool,
}

/// A client that asks for one bucket, one ask at a time, until it is told to stop.
struct Load {
    is_over: Arc<AtomicBool>,
    /// How many passed so far.
    passed: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Vec<Asked>>,
}

impl Load {
    fn begin(server: &Server, bucket: &str, clock: &Arc<Clock>) -> Self {
        let mut client = Stream::connect(server, "bucket");
        let is_over = Arc::new(AtomicBool::new(false));
        let passed = Arc::new(AtomicUsize::new(0));
        let (over, clock, count) = (Arc::clone(&is_over), Arc::clone(clock), Arc::clone(&passed));
        let line = format!("get {bucket}\n");
        let thread = thread::spawn(move || {
            let mut answers = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let began = clock.now();
                client.send(line.as_bytes());
                let passed = client.read(2) == b"1\n";
                let at = clock.now();
                count.fetch_add(usize::from(passed), Ordering::Relaxed);
                answers.push(Asked { at, took: at.since(began).into(), passed });
            }
            answers
        });
        Self { is_over, passed, thread }
    }

    fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    fn end(self) -> Vec<Asked> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// When what happened.
struct Times {
    began: Moment,
    killed: Moment,
    promoted: Moment,
    back: Moment,
    ended: Moment,
}

/// Kills the primary that has the buckets of `Counted` and `Local` with these ids while both are
/// asked for through every server, and judges what passed. Returns how many asks were acknowledged
/// and not replicated.
pub(crate) fn judge_failover(
    what: &str,
    servers: &[Server],
    ids: [&str; 2],
    kill: impl FnOnce(),
    is_promoted: impl FnMut() -> bool,
) -> usize {
    let clock = Arc::new(Clock::start());
    let began = clock.now();
    let start = |limit: &str, id: &str| {
        let bucket = format!("{limit}:{id}");
        servers.iter().map(|it| Load::begin(it, &bucket, &clock)).collect::<Vec<_>>()
    };
    let (counted, local) = (start("Counted", ids[0]), start("Local", ids[1]));
    until_decided(servers, WARM);
    kill();
    let killed = clock.now();
    // Answers that were on their way have come by then, and nobody is promoted that soon.
    until("they have come", || clock.now() >= killed.after(UNDER_WAY.into()));
    let gone: Vec<usize> = counted.iter().map(Load::passed).collect();
    assert!(within(AGREEMENT, is_promoted), "{what}: no replica was promoted within {AGREEMENT:?}");
    let promoted = clock.now();
    for (load, before) in counted.iter().zip(gone) {
        until("the new primary decides", || load.passed() > before);
    }
    let back = clock.now();
    let end = |loads: Vec<Load>| loads.into_iter().flat_map(Load::end).collect::<Vec<_>>();
    let (counted, local) = (end(counted), end(local));
    let times = Times { began, killed, promoted, back, ended: clock.now() };
    let spent = COUNTED - remaining(&servers[0], ids[0]);
    let (lost, window) = judge_counted(what, &counted, spent, servers.len(), &times);
    judge_local(what, &local, window, servers.len(), &times);
    for asked in counted.iter().chain(&local) {
        assert!(asked.took <= TIMEOUT + SLACK, "a decision took {:?}", asked.took);
    }
    lost
}

/// Waits until the store has decided so many more asks.
pub(crate) fn until_decided(servers: &[Server], more: u64) {
    let decided = || servers.iter().map(|it| it.stats().shared.unwrap().decided).sum::<u64>();
    let before = decided();
    until("some asks", || decided() > before + more);
}

fn remaining(server: &Server, id: &str) -> u64 {
    let bucket = Web::connect(server).get(&format!("/v1/buckets/Counted/{id}")).json();
    bucket["remaining"].as_u64().unwrap_or_else(|| panic!("{bucket}"))
}

/// Compares what passed with what the new primary knows of: the difference was not replicated.
/// Returns how many, and how long before the end of the old one the first of them was.
fn judge_counted(
    what: &str,
    asked: &[Asked],
    spent: u64,
    clients: usize,
    times: &Times,
) -> (usize, Nanos) {
    let passed = asked.iter().filter(|it| it.passed).count() as u64;
    // What was under way when the connection broke may have been counted, and was not answered.
    let under_way = clients as u64 * 2;
    assert!(spent <= passed + under_way, "{spent} spent, {passed} passed");
    let lost = usize::try_from(passed.saturating_sub(spent)).unwrap();
    let gone = times.killed.after(UNDER_WAY.into());
    let mut old: Vec<Moment> =
        asked.iter().filter(|it| it.passed && it.at <= gone).map(|it| it.at).collect();
    old.sort_unstable();
    assert!(lost <= old.len(), "{lost} lost of {} that the old primary decided", old.len());
    let end = old.last().copied().unwrap();
    let window = match lost {
        0 => Nanos::ZERO,
        _ => end.since(old[(old.len() - lost).saturating_sub(1)]),
    };
    let recovery = Duration::from(times.back.since(times.promoted));
    eprintln!(
        "{what}: {lost} of {} acknowledged were not replicated, the last {:?}; away for {:?}, \
         decided again {recovery:?} after the replica was promoted",
        old.len(),
        Duration::from(window),
        Duration::from(times.back.since(times.killed)),
    );
    assert!(recovery <= RECOVERY + SLACK, "it took {recovery:?}");
    (lost, window)
}

/// The limit that memory takes over passes no more than its rule, and once more per server for the
/// time without a store, and what the failover lost.
#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn judge_local(what: &str, asked: &[Asked], window: Nanos, servers: usize, times: &Times) {
    let passed: Vec<Moment> = asked.iter().filter(|it| it.passed).map(|it| it.at).collect();
    let secs = |length: Nanos| Duration::from(length).as_secs_f64();
    let unknown = times.killed.before(window);
    let lost = passed.iter().filter(|&&at| at >= unknown && at <= times.killed).count();
    let outage = secs(times.back.since(times.killed));
    let most = LOCAL_BURST
        + LOCAL_RATE * secs(times.ended.since(times.began))
        + servers as f64 * (LOCAL_BURST + LOCAL_RATE * outage)
        + lost as f64;
    eprintln!("{what}: {} passed by the local policy, at most {most:.0} may", passed.len());
    assert!(passed.len() as f64 <= most, "{} passed, at most {most} may", passed.len());
    let meanwhile = passed.iter().filter(|&&at| at > times.killed && at < times.promoted).count();
    assert!(meanwhile > 0, "nobody passed while there was no primary");
}
