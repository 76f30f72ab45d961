//! What is counted, as whole servers tell it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::Moment;
use ratekeeper_server::Time;
use ratekeeper_server::stats::{Latency, Rulings};

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, StandingTime, Stream, Web, insert, request, settings,
    start, wait_until,
};

const LIMITS: &str = "
Logins: {burst: 3, count: 1, period: 1h}
Watched: {burst: 1, count: 1, period: 1h, shadow: true}
";

/// What the control socket tells at most.
const STATS_BYTES_MAX: usize = 1 << 20;

#[test]
fn every_door_counts_under_the_limit_it_asked() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    settings.throttr.named_limits = true;
    let server = start(&settings, StandingTime::at_secs(1000));
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get Logins:ada 2\nget Logins:ada 2\nget Watched:bob\nget Watched:bob\n");
    assert_eq!(bucket.read(8), b"1\n0\n1\n1\n");
    let mut throttr = Stream::connect(&server, "throttr");
    throttr.send(&insert(9, 1, 60, "bob", "Logins"));
    throttr.read(INSERT_ANSWER_BYTES);

    let stats = server.stats();
    assert_eq!(stats.limits["Logins"], Rulings { allowed: 2, denied: 1, shadow: 0 });
    assert_eq!(stats.limits["Watched"], Rulings { allowed: 1, denied: 0, shadow: 1 });
    let busiest = |list: &[ratekeeper_server::stats::BusyOf]| -> Vec<(String, u64)> {
        list.iter().map(|it| (format!("{}:{}", it.limit, it.id), it.count)).collect()
    };
    let busy = busiest(&stats.busiest);
    assert_eq!(busy.len(), 3, "{busy:?}");
    assert!(busy[..2].contains(&("Logins:ada".into(), 2)), "{busy:?}");
    assert!(busy[..2].contains(&("Watched:bob".into(), 2)), "{busy:?}");
    assert_eq!(busy[2], ("Logins:bob".into(), 1));
    assert_eq!(busiest(&stats.most_denied).len(), 2);

    let text = server.metrics();
    for line in [
        r#"ratekeeper_decisions_total{limit="Logins",door="bucket",verdict="denied"} 1"#,
        r#"ratekeeper_decisions_total{limit="Logins",door="throttr",verdict="allowed"} 1"#,
        r#"ratekeeper_decisions_total{limit="Watched",door="bucket",verdict="shadow"} 1"#,
        r#"ratekeeper_requests_total{door="bucket"} 4"#,
        r#"ratekeeper_reloads_total{result="done"} 0"#,
        "ratekeeper_ready 1",
        r#"ratekeeper_build_info{version="0.1.0"} 1"#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn what_is_in_force_is_told_with_its_version() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", LIMITS));
    settings.overrides =
        Some(folder.write("overrides.yaml", "Logins:ada: {burst: 9, count: 9, period: 1h}\n"));
    settings.state = Some(folder.path("state"));
    let time = StandingTime::at_secs(1000);
    let server = start(&settings, time.clone());
    let configured = server.stats().configured;
    assert_eq!((configured.version, configured.overrides_in_files), (0, 1));
    assert!((configured.since - 1000.0).abs() < 1e-6);
    assert!(configured.durable && configured.state.is_some());
    assert_eq!(configured.files.len(), 2);

    time.set(Moment::from_nanos(2_000_000_000_000));
    folder.write("limits.yaml", "Logins: {burst: 3, count: 1, period: 1h}");
    server.reload().unwrap();
    let stats = server.stats();
    assert_eq!(stats.configured.version, 1);
    assert_eq!(stats.configured.limits, configured.limits - 1);
    assert!((stats.configured.since - 2000.0).abs() < 1e-6);
    assert!((stats.at - 2000.0).abs() < 1e-6);
    // What is gone was counted all the same.
    assert!(stats.limits.contains_key("Watched"));

    folder.write("limits.yaml", "nonsense");
    server.reload().unwrap_err();
    assert_eq!(server.stats().configured.version, 1);
}

/// A time that goes on by a millisecond whenever somebody looks.
struct SteppingTime(AtomicU64);

impl Time for SteppingTime {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.fetch_add(1_000_000, Ordering::SeqCst))
    }
}

#[test]
fn how_long_a_client_takes_to_send_its_body_is_not_counted() {
    let time = StandingTime::at_secs(1000);
    let server = start(&settings(), Arc::clone(&time) as Arc<dyn Time>);
    let mut web = Web::connect(&server);
    let body = r#"{"limit":"LoginsPerUser","id":"ada"}"#;
    let whole = request("POST", "/v1/check", "Expect: 100-continue\r\n", body);
    let (head, _) = whole.split_at(whole.len() - body.len());
    web.stream.send(head.as_bytes());
    assert_eq!(web.answer().status, 100, "it is waited for");
    time.set(Moment::from_nanos(1005 * 1_000_000_000));
    web.stream.send(body.as_bytes());
    assert_eq!(web.answer().status, 200);
    assert_eq!(server.stats().doors["http"].counts.requests, 1);
    assert_eq!(server.stats().doors["http"].latency, Latency::default());
}

#[test]
fn every_door_tells_how_long_its_answers_took() {
    let server = start(&settings(), Arc::new(SteppingTime(AtomicU64::new(1 << 40))));
    assert_eq!(server.stats().doors["bucket"].latency, Latency::default());
    assert_eq!(Datagrams::connect(&server).ask(b"7 ping"), b"7 pong");
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get bucketa\n");
    bucket.read(2);
    // It is written down after the answer, so that is waited for.
    for door in ["udp", "bucket"] {
        let longest = || server.stats().doors[door].latency.max_us;
        wait_until("the answer is written down", || longest() > 0);
        let Latency { p50_us, p99_us, max_us } = server.stats().doors[door].latency;
        assert!(max_us >= 1000 && p50_us <= p99_us && p99_us <= max_us, "{door}: {max_us}");
    }
    assert_eq!(server.stats().doors["throttr"].latency, Latency::default());
    let count = r#"ratekeeper_request_duration_seconds_count{door="bucket"} 1"#;
    assert!(server.metrics().lines().any(|line| line == count));
}

#[test]
fn counters_of_very_many_limits_are_told_in_bounds() {
    let folder = Folder::new();
    let mut text = String::new();
    for number in 0..5_000 {
        writeln!(text, "{number:x<128}: {{burst: 1, count: 1, period: 1h}}").unwrap();
    }
    let mut settings = settings();
    settings.limits = Some(folder.write("limits.yaml", &text));
    let server = start(&settings, StandingTime::at_secs(1000));
    let mut bucket = Stream::connect(&server, "bucket");
    for number in 0..5_000 {
        bucket.send(format!("get {number:x<128}:{number}\n").as_bytes());
        assert_eq!(bucket.read(2), b"1\n");
    }
    let stats = server.stats();
    assert_eq!(stats.limits.len(), 1_000);
    let named: u64 = stats.limits.values().map(|it| it.allowed).sum();
    assert_eq!((named, stats.others.allowed), (1_000, 4_000));
    assert!(serde_json::to_vec(&stats).unwrap().len() < STATS_BYTES_MAX);
    assert!(server.metrics().len() <= 200 << 10);
}
