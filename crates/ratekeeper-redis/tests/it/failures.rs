//! What happens when Redis is slow, gone, read-only, loading, full, or answers nonsense: the right
//! failure, in bounded time, and never a token spent twice.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use nix::sys::signal::Signal;
use ratekeeper::algorithm::book::Action;
use ratekeeper::algorithm::gcra::{self, Verdict};
use ratekeeper::{Clock, Moment, Nanos};
use ratekeeper_redis::{Answer, Ask, Failure, Rule, Visit};

use crate::servers::{Blocking, GENEROUS, Sentinel, Single, until};

const DEADLINE: Duration = Duration::from_millis(50);
/// How much later than the deadline an answer may come on a machine that is busy.
const GRACE: Duration = Duration::from_millis(500);
/// How soon after a recovery it must be seen; twice what is promised, as the machine is shared.
const RECOVERY: Duration = Duration::from_secs(2);

fn rule(burst: u64) -> Rule {
    Rule::new(&gcra::Rule::new(burst, 1, Nanos::from_secs(3_600)).unwrap()).unwrap()
}

fn spend<'a>(bucket: &'a [u8], rule: &'a Rule) -> Ask<'a> {
    let (since, action) = (Moment::EPOCH, Action::CheckAndSpend);
    Ask { bucket, rule, since, action, is_shadow: false, cost: 1, joined: false }
}

fn ask(link: &Blocking, bucket: &[u8], within: Duration) -> Result<Answer, Failure> {
    let rule = rule(100);
    let mut answers = Vec::new();
    link.wait(link.link.gcra(&[spend(bucket, &rule)], &Visit::within(within), &mut answers));
    answers.remove(0)
}

/// Asks once, and makes sure that it does not take much longer than it may.
fn timed(link: &Blocking) -> Result<Answer, Failure> {
    let clock = Clock::start();
    let start = clock.now();
    let answer = ask(link, b"a", DEADLINE);
    let took = Duration::from(clock.now().since(start));
    assert!(took < DEADLINE + GRACE, "{answer:?} took {took:?}");
    answer
}

fn until_answered(link: &Blocking) {
    let clock = Clock::start();
    let start = clock.now();
    until("an answer", || ask(link, b"b", DEADLINE).is_ok());
    let took = Duration::from(clock.now().since(start));
    assert!(took < RECOVERY, "recovery took {took:?}");
}

#[test]
fn a_script_that_was_flushed_is_sent_again_and_runs_once() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    let rule = rule(1_000);
    for round in 1..=5_u64 {
        let asks = vec![spend(b"a", &rule); 20];
        let answers = link.gcra(&asks, None);
        assert_eq!(answers[19].outcome.remaining, 1_000 - round * 20);
        server.command(&["SCRIPT", "FLUSH"]);
    }
}

#[test]
fn a_wrong_password_is_said_without_repeating_it() {
    let server = Single::with(&["--requirepass", "right"]);
    let link = Blocking::open(&format!("redis://:wrong@127.0.0.1:{}", server.port));
    let failure = ask(&link, b"a", GENEROUS).unwrap_err();
    assert!(matches!(failure, Failure::Auth(_)), "{failure:?}");
    assert!(!failure.to_string().contains("wrong@"), "{failure}");
    let link = Blocking::open(&format!("redis://:right@127.0.0.1:{}", server.port));
    assert!(ask(&link, b"a", GENEROUS).is_ok());
}

#[test]
fn a_missing_password_is_said() {
    let server = Single::with(&["--requirepass", "right"]);
    let link = Blocking::open(&server.url());
    let failure = ask(&link, b"a", GENEROUS).unwrap_err();
    assert!(matches!(failure, Failure::Auth(_)), "{failure:?}");
}

#[test]
fn a_replica_is_read_only_until_it_is_not() {
    let primary = Single::start();
    let replica = Single::with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    until("a replica that follows", || {
        replica.says(&["INFO", "replication"], "master_link_status:up")
    });
    let link = Blocking::open(&replica.url());
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap_err(), Failure::ReadOnly);
    assert_eq!(timed(&link).unwrap_err(), Failure::ReadOnly);
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    until_answered(&link);
}

#[test]
fn a_server_without_memory_says_so_and_decides_again_when_it_has_some() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    assert!(ask(&link, b"a", GENEROUS).is_ok());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap_err(), Failure::OutOfMemory);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap().outcome.remaining, 98);
}

#[test]
fn a_server_that_is_loading_says_so() {
    let mut server = Single::with(&[
        "--save",
        "",
        "--key-load-delay",
        "2000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let fill = "for i = 1, 1000 do redis.call('SET', i, i) end";
    server.command(&["EVAL", fill, "0"]);
    server.command(&["SAVE"]);
    let link = Blocking::open(&server.url());
    assert!(ask(&link, b"a", GENEROUS).is_ok());
    server.kill();
    server.restart_at_once();
    let mut seen = false;
    until("an answer after loading", || match ask(&link, b"a", DEADLINE) {
        Err(Failure::Loading) => {
            seen = true;
            false
        }
        answer => answer.is_ok(),
    });
    assert!(seen, "nobody said that the server was loading");
}

#[test]
fn a_pause_is_a_timeout_and_then_over() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    assert!(ask(&link, b"a", GENEROUS).is_ok());
    server.command(&["CLIENT", "PAUSE", "300", "ALL"]);
    assert_eq!(timed(&link).unwrap_err(), Failure::Timeout);
    until("an answer after the pause", || ask(&link, b"b", DEADLINE).is_ok());
    // The ask that nobody waited for may have been counted, once.
    let left = ask(&link, b"a", GENEROUS).unwrap().outcome.remaining;
    assert!((97..=98).contains(&left), "{left}");
}

#[test]
fn a_server_that_hangs_is_a_timeout_and_is_found_again() {
    let server = Single::start();
    let link = Blocking::open(&server.url());
    assert!(ask(&link, b"a", GENEROUS).is_ok());
    server.signal(Signal::SIGSTOP);
    let failure = timed(&link).unwrap_err();
    assert_eq!(failure, Failure::Timeout);
    // Long enough for the connection to be given up.
    until("a connection that is given up", || {
        !matches!(ask(&link, b"a", DEADLINE), Err(Failure::Timeout)) || {
            matches!(timed(&link), Err(Failure::Unreachable(_)))
        }
    });
    server.signal(Signal::SIGCONT);
    until_answered(&link);
}

#[test]
fn a_server_that_was_killed_is_unreachable_and_found_again_within_a_second() {
    let mut server = Single::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let link = Blocking::open(&server.url());
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap().outcome.remaining, 99);
    server.kill();
    until("a broken connection", || ask(&link, b"a", DEADLINE).is_err());
    let failure = timed(&link).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
    server.restart();
    until_answered(&link);
    let left = ask(&link, b"a", GENEROUS).unwrap().outcome.remaining;
    assert_eq!(left, 98, "what was spent before the crash is spent after it, and once");
}

#[test]
fn nobody_at_the_address_is_unreachable() {
    let link = Blocking::open(&format!("redis://127.0.0.1:{}", crate::servers::free_port()));
    let failure = ask(&link, b"a", GENEROUS).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}

/// A server that greets as Redis does and then answers every batch with these bytes.
fn fake(answer: &'static [u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let greetings = text.matches("SETINFO").count() + text.matches("PING").count();
                let mut reply = Vec::new();
                if text.contains("HELLO") {
                    reply.extend(b"%1\r\n+proto\r\n:3\r\n");
                }
                reply.extend(b"+OK\r\n".repeat(greetings));
                if text.contains("EVALSHA") {
                    reply.extend(answer);
                }
                if stream.write_all(&reply).is_err() {
                    break;
                }
                if answer.is_empty() && text.contains("EVALSHA") {
                    break;
                }
            }
        }
    });
    url
}

#[test]
fn nonsense_is_a_failure_and_not_a_crash() {
    let answers: [&'static [u8]; 8] = [
        b"$5\r\nhello\r\n",
        b"*0\r\n",
        b"*1\r\n:1\r\n",
        b"*2\r\n:-1\r\n:5\r\n",
        b"*2\r\n:1\r\n:-9000000000000000000\r\n",
        b"*2\r\n:1\r\n:9000000000000000000\r\n",
        b"*3\r\n:1\r\n:2\r\n:3\r\n",
        b"*2\r\n:1\r\n$1\r\n7\r\n",
    ];
    for answer in answers {
        let link = Blocking::open(&fake(answer));
        let failure = ask(&link, b"a", GENEROUS).unwrap_err();
        let shown = String::from_utf8_lossy(answer);
        assert!(matches!(failure, Failure::Nonsense(_)), "{shown}: {failure:?}");
    }
}

#[test]
fn a_server_that_does_not_speak_the_protocol_is_left() {
    let link = Blocking::open(&fake(b"?what is this\r\n"));
    let failure = ask(&link, b"a", GENEROUS).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_) | Failure::Nonsense(_)), "{failure:?}");
}

#[test]
fn half_an_answer_is_a_timeout_or_a_broken_connection() {
    let link = Blocking::open(&fake(b"*2\r\n:17"));
    assert_eq!(timed(&link).unwrap_err(), Failure::Timeout);
    let link = Blocking::open(&fake(b""));
    let failure = ask(&link, b"a", GENEROUS).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}

#[test]
fn a_primary_that_dies_is_replaced_by_the_one_that_the_sentinels_chose() {
    let mut servers = Sentinel::start();
    let link = Blocking::open(&servers.url());
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap().outcome.remaining, 99);
    for replica in &servers.servers[..2] {
        until("a replica that has it", || replica.says(&["DBSIZE"], "1"));
    }
    servers.servers.last_mut().unwrap().kill();
    until("an answer from the new primary", || ask(&link, b"b", DEADLINE).is_ok());
    let answer = ask(&link, b"a", GENEROUS).unwrap();
    assert_eq!(answer.outcome.verdict, Verdict::Allow);
    assert_eq!(answer.outcome.remaining, 98, "what the replica had is still spent");
}

#[test]
fn a_planned_failover_is_followed_and_spends_nothing_twice() {
    let servers = Sentinel::start();
    let link = Blocking::open(&servers.url());
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap().outcome.remaining, 99);
    for replica in &servers.servers[..2] {
        until("a replica that has it", || replica.says(&["DBSIZE"], "1"));
    }
    let old = servers.servers.last().unwrap();
    until("a failover", || servers.fail_over().is_ok());
    until("an old primary that follows", || old.says(&["INFO", "replication"], "role:slave"));
    until("an answer from the new primary", || ask(&link, b"b", DEADLINE).is_ok());
    assert_eq!(ask(&link, b"a", GENEROUS).unwrap().outcome.remaining, 98);
}
