//! `ratekeeper bench udp|bucket|throttr|http|resp|echo-udp|echo-tcp`, at real servers and at some that misbehave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::fake::nowhere;
use crate::program::{Ran, file, run};
use crate::server::Server;
use crate::servers::Single;

/// A run that is long enough for a busy machine to answer something.
const SHORT: [&str; 8] =
    ["--for", "300ms", "--warm-up", "50ms", "--timeout", "20s", "--connections", "3"];

/// One connection that looks for its answers by itself.
const ALONE: [&str; 3] = ["--connections", "1", "--spin"];

fn bench(door: &str, address: &impl ToString, args: &[&str]) -> Ran {
    let address = address.to_string();
    run(&[&["bench", door, "--server", &address], &SHORT[..], args].concat())
}

/// The report of a run that measured something, as JSON.
pub(crate) fn report(door: &str, address: &impl ToString, args: &[&str]) -> Value {
    let ran = bench(door, address, &[args, &["--format", "json"]].concat());
    assert_eq!(ran.code, Some(0), "{door} {args:?}: {}", ran.stderr);
    let [report] = &ran.json()[..] else { panic!("one line: {}", ran.stdout) };
    report.clone()
}

pub(crate) fn count(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} of {report}"))
}

pub(crate) fn micros(report: &Value, field: &str) -> f64 {
    report["latency_us"][field].as_f64().unwrap_or_else(|| panic!("{field} of {report}"))
}

/// Every request was answered and decided.
fn assert_sound(report: &Value) {
    assert!(count(report, "requests") > 0, "{report}");
    let decided = count(report, "allowed") + count(report, "denied");
    assert_eq!(count(report, "requests"), decided, "{report}");
    for field in ["errors", "lost", "reconnects", "broken_connections"] {
        assert_eq!(count(report, field), 0, "{field}: {report}");
    }
    let percentiles = ["p50", "p90", "p99", "p99.9", "max"].map(|name| micros(report, name));
    assert!(percentiles.is_sorted() && percentiles[0] > 0.0, "{report}");
}

#[test]
fn every_door_is_measured_in_a_closed_loop_and_at_a_rate() {
    let limits =
        "Few: {burst: 3, count: 1, period: 24h}\nMany: {burst: 1000000, count: 1, period: 1s}\n";
    let limits = file("bench-limits.yaml", limits);
    let rules = "rules: [{match: '^ws ip=', limit: 3, period: 3600, strict: true}]\n";
    let rules = file("bench-rules.yaml", rules);
    let server = Server::start(&["--limits", &limits, "--rules", &rules]);
    let doors: [(&str, &[&str]); 4] = [
        ("udp", &["--key", "ws ip=10.0.0.{key}"]),
        ("bucket", &["--name", "Few:{key}"]),
        ("throttr", &["--quota", "3", "--ttl", "1h"]),
        ("http", &["--limit", "Few", "--id", "user{key}"]),
    ];
    for (door, args) in doors {
        let few = [args, &["--keys", "2"]].concat();
        let closed = report(door, &server.address(door), &[&few[..], &["--depth", "4"]].concat());
        assert_sound(&closed);
        assert_eq!((&closed["loop"], &closed["depth"]), (&"closed".into(), &4.into()));
        assert!(count(&closed, "denied") > 0, "{door}: two keys are soon used up: {closed}");
        let open = report(door, &server.address(door), &[&few[..], &["--rate", "200"]].concat());
        assert_sound(&open);
        let all = count(&open, "requests") + count(&open, "unsent");
        assert_eq!((&open["loop"], all), (&"open".into(), 60), "{door}: 200 a second: {open}");
    }
    let many = ["--name", "Many:{key}", "--cost", "2"];
    let allowed = report("bucket", &server.address("bucket"), &many);
    assert_sound(&allowed);
    assert_eq!(count(&allowed, "tokens"), 2 * count(&allowed, "allowed"));
    assert!(server.stop().success());
}

#[test]
fn redis_is_measured_with_any_command() {
    let redis = Single::start();
    let address = format!("127.0.0.1:{}", redis.port);
    let few = ["--command", "evalsha", "--burst", "3", "--period", "3600s", "--keys", "2"];
    let script = report("resp", &address, &[&few[..], &["--depth", "8"]].concat());
    assert_sound(&script);
    assert!(count(&script, "allowed") <= 6 && count(&script, "denied") > 0, "{script}");
    for command in ["get", "INCR n{key}", "SET '{key} x' y"] {
        let any = report("resp", &address, &["--command", command, "--depth", "8"]);
        assert_sound(&any);
        assert_eq!(count(&any, "denied"), 0, "{any}");
    }
    let ping = report("resp", &address, &["--command", "PING", "--keys", "1"]);
    assert_sound(&ping);
    // An answer of 0 says no where somebody says so.
    let no = ["--command", "EXISTS nobody{key}", "--denied", "0"];
    let no = report("resp", &address, &no);
    assert_eq!(count(&no, "denied"), count(&no, "requests"));
}

#[test]
fn a_command_that_a_server_does_not_know_is_told_at_once() {
    let redis = Single::start();
    let address = format!("127.0.0.1:{}", redis.port);
    let ran = run(&["bench", "resp", "--server", &address, "--for", "1h", "--timeout", "20s"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(ran.stderr.contains("ERR unknown command"), "{}", ran.stderr);
    assert!(ran.stderr.contains("CL.THROTTLE user{key} 99 100 60 1"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "nothing was promised: {}", ran.stderr);
}

#[test]
fn a_report_for_people_says_what_was_asked_and_what_came_of_it() {
    let server = Server::start(&[]);
    let pid = std::process::id().to_string();
    let ran = bench("bucket", &server.address("bucket"), &["--pid", &pid, "--spread", "zipf:0.9"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let names: Vec<_> = ran.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    let expected = [
        "target", "loop", "keys", "time", "requests", "allowed", "denied", "errors", "latency",
        "cpu",
    ];
    assert_eq!(names, expected, "{}", ran.stdout);
    let parts = [
        "get LoginsPerUser:user{key}",
        "closed: 3 connections, 1 request at once on each",
        "1000, spread zipf:0.9",
        "0.3 s, after 0.05 s of warm-up",
        "p99.9 ",
    ];
    for part in parts {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert_eq!(ran.stderr.lines().count(), 1, "no display where nobody looks: {}", ran.stderr);
}

#[test]
fn several_depths_or_rates_are_measured_in_one_go_and_drawn() {
    let server = Server::start(&[]);
    let folder = env!("CARGO_TARGET_TMPDIR");
    let chart = format!("{folder}/bench-sweep.svg");
    let depths = ["--depth", "1,8", "--chart", &chart];
    let ran = bench("bucket", &server.address("bucket"), &depths);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows: Vec<_> = ran.stdout.lines().skip_while(|line| !line.starts_with("depth")).collect();
    assert_eq!(rows.len(), 3, "{}", ran.stdout);
    assert!(rows[1].trim_start().starts_with('1') && rows[2].trim_start().starts_with('8'));
    let drawn = std::fs::read_to_string(&chart).unwrap();
    assert_eq!(drawn.matches("<circle").count(), 4, "two points for each depth");
    let rates = ["--rate", "100,200", "--format", "json"];
    let ran = bench("bucket", &server.address("bucket"), &rates);
    let wanted: Vec<_> = ran.json().iter().map(|run| count(run, "rate_wanted")).collect();
    assert_eq!(wanted, [100, 200]);
    let chart = format!("{folder}/bench-one.svg");
    let ran = bench("bucket", &server.address("bucket"), &["--chart", &chart]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(std::fs::read_to_string(&chart).unwrap().contains("class=\"bar\""));
    // What was measured is told, whatever becomes of its picture.
    let chart = format!("{folder}/bench-folder.svg");
    std::fs::create_dir_all(&chart).unwrap();
    let ran = bench("bucket", &server.address("bucket"), &["--chart", &chart]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("latency   p50 "), "{}", ran.stdout);
    assert!(ran.stderr.contains("error: writing the chart to "), "{}", ran.stderr);
    for (chart, error) in [("x.png", "ends in .svg"), ("/nowhere/x.svg", "no folder /nowhere")] {
        let ran = bench("bucket", &nowhere(), &["--chart", chart]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
        assert!(ran.stderr.contains(error), "{}", ran.stderr);
    }
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    for door in ["udp", "bucket", "throttr", "http", "resp"] {
        let ran = bench(door, &nowhere(), &[]);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{door}");
        assert!(ran.stderr.starts_with("error: connecting to "), "{door}: {}", ran.stderr);
    }
}

#[test]
fn a_connection_that_looks_by_itself_hears_every_answer_and_who_is_not_there() {
    let server = Server::start(&[]);
    let times = ["--for", "300ms", "--warm-up", "50ms", "--timeout", "20s", "--format", "json"];
    for door in ["udp", "throttr", "resp"] {
        for depth in ["1", "4"] {
            let pid = server.pid();
            let alone = [&times[..], &ALONE, &["--depth", depth, "--pid", &pid]].concat();
            let address = server.address(door).to_string();
            let ran = run(&[&["bench", door, "--server", &address], &alone[..]].concat());
            assert_eq!(ran.code, Some(0), "{door}: {}", ran.stderr);
            let run = &ran.json()[0];
            assert_sound(run);
            // Nothing that is asked over a socket takes less.
            assert!(run["cpu_us_per_request"].as_f64() > Some(0.3), "{run}");
        }
        let address = nowhere();
        let ran = run(&[&["bench", door, "--server", &address], &ALONE[..]].concat());
        assert_eq!(ran.code, Some(3), "{door}: {}", ran.stderr);
    }
    assert!(server.stop().success());
}

/// A token-bucket server that answers each connection as `answer` does.
pub(crate) fn serve(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

/// Answers lines until the client goes; before the line number `at`, what `then` does happens.
pub(crate) fn answer_lines(mut stream: TcpStream, at: usize, then: impl Fn(&mut TcpStream)) {
    stream.set_nodelay(true).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for (index, _line) in lines.map_while(Result::ok).enumerate() {
        if index == at {
            then(&mut stream);
        }
        if stream.write_all(b"1\n").is_err() {
            return;
        }
    }
}

pub(crate) const ONE: [&str; 8] =
    ["--connections", "1", "--keys", "1", "--warm-up", "0s", "--name", "a"];

#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    // Not a sleep of the test: it is what this server does wrong.
    let stall = Duration::from_millis(400);
    let address = || {
        serve(move |stream| {
            answer_lines(stream, 100, |_| thread::park_timeout(stall));
        })
    };
    let args = [&ONE[..], &["--for", "2s", "--timeout", "20s", "--format", "json"]].concat();
    let bench = |more: &[&str]| {
        let address = address();
        let ran = run(&[&["bench", "bucket", "--server", &address], &args[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.json().remove(0)
    };
    // Of 1,000 requests 200 come due while it stalls; the longest wait is the stall.
    let open = bench(&["--rate", "500"]);
    assert!(micros(&open, "p99") > 300_000.0, "{open}");
    assert!(micros(&open, "p90") > 100_000.0, "{open}");
    // Here the only connection waits, so a single request of thousands was slow.
    let closed = bench(&[]);
    assert!(micros(&closed, "max") > 300_000.0, "{closed}");
    assert!(micros(&closed, "p90") < 100_000.0, "{closed}");
}

#[test]
fn what_could_not_be_sent_by_the_end_is_told() {
    let address = serve(|stream| {
        answer_lines(
            stream,
            20,
            |stream| while stream.read(&mut [0; 64]).is_ok_and(|it| it > 0) {},
        );
    });
    let args = ["--for", "1s", "--timeout", "1100ms", "--rate", "1000", "--format", "json"];
    let ran = run(&[&["bench", "bucket", "--server", &address], &ONE[..], &args].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json().remove(0);
    // One was tried before it began.
    assert_eq!((count(&report, "requests"), count(&report, "lost")), (19, 1), "{report}");
    assert_eq!(count(&report, "unsent"), 980, "{report}");
    // They waited until the end, which came when nobody waited for the last answer any more.
    assert!(micros(&report, "p50") > 500_000.0, "{report}");
    assert!(report["first_failure"].as_str().unwrap().contains("did not answer within 1s100ms"));
}

#[test]
fn a_connection_that_is_closed_is_opened_again() {
    let address = serve(|stream| {
        answer_lines(stream, 50, |stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    });
    let args = ["--for", "500ms", "--timeout", "20s", "--format", "json"];
    let args = [&ONE[..], &args].concat();
    let ran = run(&[&["bench", "bucket", "--server", &address], &args[..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json().remove(0);
    assert!(count(&report, "reconnects") > 0, "{report}");
    assert!(count(&report, "lost") >= count(&report, "reconnects"), "{report}");
    assert_eq!(count(&report, "broken_connections"), 0, "{report}");
}

#[test]
fn lost_datagrams_are_counted_and_not_waited_for_for_ever() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 200];
        for index in 0_u64.. {
            let Ok((length, client)) = socket.recv_from(&mut bytes) else { return };
            let number = std::str::from_utf8(&bytes[..length]).unwrap().split(' ').next().unwrap();
            // Every tenth is lost, but not the one that is tried first.
            if index % 10 != 9 {
                let answer = format!("{number} ok N 0.0 1.0 1");
                socket.send_to(answer.as_bytes(), client).unwrap();
            }
        }
    });
    let address = address.to_string();
    let args = ["--for", "1s", "--timeout", "100ms", "--depth", "4", "--format", "json"];
    let several: [&[&str]; 2] = [&["--connections", "2"], &ALONE];
    for connections in several {
        let ran = run(&[&["bench", "udp", "--server", &address], &args[..], connections].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report = ran.json().remove(0);
        let (answered, lost) = (count(&report, "requests"), count(&report, "lost"));
        assert!(answered > 0 && lost > 0 && lost < answered, "{report}");
    }
}

#[test]
fn echoes_are_measured_as_doors_are() {
    let address = serve(|mut stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if stream.write_all(&line.as_bytes()[..4]).is_err() {
                return;
            }
        }
    });
    let few = ["--bytes", "20", "--answer-bytes", "4", "--depth", "8"];
    assert_sound(&report("echo-tcp", &address, &few));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 200];
        while let Ok((length, client)) = socket.recv_from(&mut bytes) {
            // A client may be gone.
            let _ = socket.send_to(&bytes[..length], client);
        }
    });
    // The echo sees single datagrams also where many are sent as one.
    for segments in ["1", "8"] {
        let few = ["--bytes", "30", "--depth", "8", "--segments", segments];
        let report = report("echo-udp", &address, &few);
        assert!(count(&report, "allowed") > 0, "{report}");
        assert_eq!((count(&report, "denied"), count(&report, "errors")), (0, 0), "{report}");
    }
}

#[test]
fn answers_that_are_all_errors_are_no_measurement() {
    let address = serve(|mut stream| {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for (index, _line) in lines.map_while(Result::ok).enumerate() {
            // The first is what is tried before it begins, on the only connection.
            let answer = if index == 0 { "1\n" } else { "OUT OF ORDER\n" };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let ran = run(&[
        &["bench", "bucket", "--server", &address],
        &ONE[..],
        &["--for", "100ms", "--timeout", "20s"],
    ]
    .concat());
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("requests with errors, the first `OUT OF ORDER`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn another_kind_of_server_is_told_as_such() {
    let address = serve(|mut stream| drop(stream.write_all(b"SSH-2.0-x\r\n")));
    for door in ["http", "resp"] {
        let ran = bench(door, &address, &[]);
        assert_eq!((ran.code, &*ran.stdout), (Some(3), ""), "{door}");
        assert!(ran.stderr.contains("is it another server?"), "{door}: {}", ran.stderr);
    }
}

#[test]
fn wrong_arguments_are_usage_mistakes() {
    let many = "1,".repeat(32) + "1";
    let wrong: [&[&str]; 20] = [
        &["bucket", "--depth", "1,2", "--rate", "1,2"],
        &["bucket", "--depth", &many],
        &["bucket", "--connections", "0"],
        &["bucket", "--depth", "0"],
        &["bucket", "--connections", "10000", "--depth", "10000"],
        &["bucket", "--rate", "0"],
        &["bucket", "--keys", "10000001"],
        &["bucket", "--spread", "zipf:0"],
        &["bucket", "--for", "2h"],
        &["bucket", "--for", "0s"],
        &["bucket", "--name", "same"],
        &["bucket", "--name", "a b"],
        &["udp", "--cost", "2"],
        &["resp", "--command", "clthrottle"],
        &["resp", "--command", "get", "--cost", "2"],
        &["resp", "--command", "GET {key}", "--burst", "2"],
        &["resp", "--period", "1500ms"],
        &["bucket", "--pid", "4294967295"],
        &["udp", "--segments", "2"],
        &["echo-udp", "--depth", "4,8", "--segments", "9"],
    ];
    for args in wrong {
        let ran = run(&[&["bench"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}
