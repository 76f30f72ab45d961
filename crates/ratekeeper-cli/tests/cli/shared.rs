//! Processes that share a store.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;

use crate::program::{file, run};
use crate::server::Server;
use crate::servers::{Single, until};

const PROCESSES: usize = 4;
const ROUNDS: usize = 200;
const BUDGET: usize = 100;
/// Of each process: 2,000 in all.
const REQUESTS: usize = 500;

#[test]
fn four_processes_asked_at_once_admit_exactly_the_burst_and_say_where_it_is_counted() {
    let redis = Single::start();
    let limits = format!("Shared: {{burst: {BUDGET}, count: {BUDGET}, period: 24h}}\n");
    let (limits, url) = (file("processes.yaml", &limits), redis.url());
    // The machine may be busy with other tests.
    let args = ["--limits", &limits, "--store", &url, "--store-timeout", "10s"];
    let processes: Vec<_> = (0..PROCESSES).map(|_| Server::start(&args)).collect();
    let start_line = Barrier::new(PROCESSES);
    let passed: Vec<Vec<usize>> = thread::scope(|scope| {
        let clients: Vec<_> = processes
            .iter()
            .map(|process| {
                let (address, start_line) = (process.address("bucket"), &start_line);
                scope.spawn(move || {
                    let mut client = TcpStream::connect(address).unwrap();
                    let play = |round| {
                        start_line.wait();
                        play(&mut client, round)
                    };
                    (0..ROUNDS).map(play).collect()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for round in 0..ROUNDS {
        let by_process: Vec<usize> = passed.iter().map(|rounds| rounds[round]).collect();
        assert_eq!(by_process.iter().sum::<usize>(), BUDGET, "round {round}: {by_process:?}");
    }
    let stats = run(&["stats", "--url", &processes[0].url()]);
    assert_eq!(stats.code, Some(0), "{stats:?}");
    let expected = format!("shared store redis://127.0.0.1:{}: up", redis.port);
    assert!(stats.stdout.contains(&expected), "{}", stats.stdout);
    for process in processes {
        assert!(process.stop().success());
    }
}

/// How many asks of a round pass.
fn play(client: &mut TcpStream, round: usize) -> usize {
    client.write_all(format!("get Shared:{round}\n").repeat(REQUESTS).as_bytes()).unwrap();
    let mut answers = [0; 2 * REQUESTS];
    client.read_exact(&mut answers).unwrap();
    assert!(answers.chunks(2).all(|it| matches!(it, b"0\n" | b"1\n")));
    answers.chunks(2).filter(|it| it == b"1\n").count()
}

/// Asks until both commands say this of the store, and returns what they printed.
fn until_told(process: &Server, in_stats: &str, in_top: &str) -> [String; 2] {
    let url = process.url();
    let mut told = Default::default();
    until(in_stats, || {
        run(&["ask", "--url", &url, "Shared", "ada"]);
        told = [&["stats"][..], &["top", "--once"]].map(|command| {
            let ran = run(&[command, &["--url", &url]].concat());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            ran.stdout
        });
        let [stats, top] = &told;
        stats.contains(in_stats) && top.contains(in_top)
    });
    told
}

#[test]
fn stats_and_top_say_that_the_store_is_there_away_and_back() {
    let mut redis = Single::with(&["--requirepass", "sesame"]);
    let limits = file("told.yaml", "Shared: {burst: 9000, count: 1, period: 24h}\n");
    let url = format!("redis://:sesame@127.0.0.1:{}", redis.port);
    // The machine may be busy with other tests.
    let args = ["--limits", &limits, "--store", &url, "--store-timeout", "10s"];
    let process = Server::start(&args);
    let store = format!("shared store redis://127.0.0.1:{}", redis.port);
    let up = format!("{store}: up\n");
    let there = until_told(&process, &up, " stores, shared ");
    assert!(there[0].contains("0 decided here, 0 let through, 0 turned away"), "{}", there[0]);
    redis.kill();
    let away = until_told(&process, &format!("{store}: away for "), " the shared one is AWAY ");
    assert!(away[0].contains("Redis is unreachable"), "{}", away[0]);
    assert!(!away[0].contains(" 0 decided here"), "{}", away[0]);
    redis.restart();
    let back = until_told(&process, &up, " stores, shared ");
    assert!(!back[0].contains(" 0 decided here"), "what was is still told: {}", back[0]);
    for told in there.iter().chain(&away).chain(&back) {
        assert!(!told.contains("sesame"), "{told}");
    }
    assert!(process.stop().success());
}

#[test]
fn a_wrong_address_of_a_store_is_told_without_its_password() {
    let addresses = [
        "redis://:sesame@",
        "redis://ada:sesame@localhost:port",
        "http://ada:sesame@localhost",
        "redis+sentinel://:sesame@localhost",
        "ada:sesame@localhost",
        "redis://ada:sesame@localhost/x/y",
    ];
    for (index, address) in addresses.into_iter().enumerate() {
        let settings = format!("store:\n  address: '{address}'\n");
        let settings = file(&format!("wrong-store-{index}.yaml"), &settings);
        for (args, place) in [
            (&["serve", "--store", address][..], "--store"),
            (&["serve", "--config", &settings], "store.address"),
            (&["state", "export", "--store", address], "--store"),
        ] {
            let ran = run(args);
            assert_eq!(ran.code, Some(2), "{address}: {ran:?}");
            assert!(ran.stderr.contains(place), "{address}: {}", ran.stderr);
            assert!(ran.stderr.contains("redis://HOST"), "{address}: {}", ran.stderr);
            let said = ran.stdout + &ran.stderr;
            assert!(!said.contains("sesame"), "{said}");
        }
    }
}

#[test]
fn check_prints_what_a_lease_may_cost() {
    let limits = file(
        "leases.yaml",
        "Leased: {burst: 2000, count: 1000, period: 1s, lease: 50ms}\n\
         Slow: {burst: 20, count: 10, period: 1s, lease: 50ms}\n",
    );
    let ran = run(&["check", "--limits", &limits]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let bound = "lease 50ms: each server may pass 50 above the limit, and lose 50";
    assert!(ran.stdout.contains(bound), "{}", ran.stdout);
    let none = "lease 50ms: less than two tokens, so every ask is exact";
    assert!(ran.stdout.contains(none), "{}", ran.stdout);
}
