//! `ratekeeper bench` at servers that go away, or are not what they should be.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::bench_load::{ONE, answer_lines, count, micros, report, serve};
use crate::program::{file, run};

#[test]
fn what_was_measured_is_told_also_if_the_server_is_gone_by_the_end() {
    let dies = |lines| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // Nobody else is let in.
            drop(listener);
            answer_lines(stream, lines, |it| it.shutdown(std::net::Shutdown::Both).unwrap());
        });
        address
    };
    let bench = |address: &str, args: &[&str]| {
        let args = [&ONE[..], &["--timeout", "20s", "--for", "10s"], args].concat();
        run(&[&["bench", "bucket", "--server", address], &args[..]].concat())
    };
    // One is tried first.
    let ran = bench(&dies(101), &["--format", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json().remove(0);
    assert_eq!((count(&report, "requests"), count(&report, "lost")), (100, 1), "{report}");
    assert_eq!(count(&report, "broken_connections"), 1, "{report}");
    assert!(report["first_failure"].as_str().unwrap().contains("closed the connection"));
    assert!(report["seconds"].as_f64() < Some(10.0), "it ended earlier: {report}");
    // What would have come due later was held up by nobody.
    let pid = std::process::id().to_string();
    let ran = bench(&dies(101), &["--format", "json", "--rate", "1000", "--pid", &pid]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report = ran.json().remove(0);
    assert!(count(&report, "requests") == 100 && count(&report, "unsent") < 5_000, "{report}");
    assert!(micros(&report, "p50") > 1.0, "{report}");
    // A second step finds nobody; the first is told.
    let ran = bench(&dies(101), &["--depth", "1,2"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stdout.contains("latency   p50 "), "{}", ran.stdout);
    assert!(ran.stderr.contains("error: connecting to "), "{}", ran.stderr);
    // To compare it with something, that is not enough.
    let contender = format!("bucket --server {} --connections 1 --keys 1 --name a", dies(101));
    let ran = run(&["bench", "--compare", &contender, &contender, "--for", "10s"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(ran.stderr.contains("closed the connection"), "{}", ran.stderr);
    assert_eq!(bench(&dies(1), &[]).code, Some(3), "nothing was measured");
}

#[test]
fn a_token_is_shown_again_on_a_connection_that_is_opened_again() {
    let address = serve(|mut stream| {
        let (mut bytes, mut is_known) = ([0; 256], false);
        for _ in 0..20 {
            let Ok(length @ 1..) = stream.read(&mut bytes) else { return };
            let asked = String::from_utf8_lossy(&bytes[..length]);
            is_known |= asked.contains("AUTH\r\n$7\r\ndefault\r\n$9\r\na{key}two\r\n");
            let answer = if is_known { "+OK\r\n" } else { "-NOAUTH\r\n" };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let token = file("bench-token", "a{key}two\n");
    let ping = ["--command", "PING", "--keys", "1", "--token-file", &token];
    let report = report("resp", &address, &ping);
    assert!(count(&report, "reconnects") > 0, "{report}");
    assert_eq!(count(&report, "errors"), 0, "{report}");
}

#[test]
fn a_rate_at_which_nothing_comes_due_is_told() {
    let address = serve(|stream| answer_lines(stream, usize::MAX, |_| ()));
    let args = ["--for", "100ms", "--warm-up", "50ms", "--rate", "1", "--connections", "1"];
    let more = ["--keys", "1", "--name", "a"];
    let ran = run(&[&["bench", "bucket", "--server", &address], &args[..], &more].concat());
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("no request comes due within 100ms"), "{}", ran.stderr);
}

#[test]
fn what_a_server_says_moves_no_cursor() {
    let address = serve(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"\x1b[2J\x07 BUCKET NOT FOUND\n");
    });
    let ran = run(&[&["bench", "bucket", "--server", &address], &ONE[..]].concat());
    assert_eq!((ran.code, &*ran.stdout), (Some(3), ""));
    assert!(!ran.stderr.contains(['\x1b', '\x07']), "{:?}", ran.stderr);
}
