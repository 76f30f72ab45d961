//! Servers that share a cluster of three primaries, each with a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ratekeeper_redis::{Kind, slot};
use ratekeeper_server::Server;

use crate::load::{LIMITS, TIMEOUT, judge_failover, until_decided};
use crate::servers::{Cluster, until};
use crate::shared::judge_rounds;
use crate::support::{Folder, Stream, Web};
use crate::{sharing_at, start_ahead};

const ROUNDS: usize = 30;
const PRIMARIES: usize = 3;
/// How many asks are decided between the end of replication and that of the primary.
const UNREPLICATED: u64 = 300;

fn slot_of(bucket: &str) -> u16 {
    slot(&Kind::Bucket.key(bucket.as_bytes()))
}

#[test]
fn four_servers_on_a_cluster_admit_exactly_the_burst_of_one_bucket_and_of_many() {
    const MANY: usize = 300;
    const BURST: usize = 7;
    let (cluster, folder) = (Cluster::start(), Folder::new());
    let limits = format!("{LIMITS}\nMany: {{burst: {BURST}, count: 1, period: 1h}}");
    let settings = sharing_at(&cluster.url(), &folder, &limits);
    let servers = [0; 4].map(|ahead| start_ahead(&settings, ahead));
    judge_rounds(&servers, 0..ROUNDS);
    let threads: Vec<_> = servers
        .iter()
        .map(|server| {
            let mut client = Stream::connect(server, "bucket");
            thread::spawn(move || {
                let mut passed = vec![0; MANY];
                for _ in 0..BURST {
                    ask_each(&mut client, &mut passed);
                }
                passed
            })
        })
        .collect();
    let passed: Vec<Vec<usize>> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    for id in 0..MANY {
        let all: usize = passed.iter().map(|client| client[id]).sum();
        assert_eq!(all, BURST, "of bucket {id}");
    }
    end(servers, &settings);
}

#[test]
fn transactions_of_one_batch_over_the_same_buckets_follow_each_other() {
    const BURST: usize = 60;
    let (cluster, folder) = (Cluster::start(), Folder::new());
    let limits = format!(
        "A: {{burst: {BURST}, count: 1, period: 1h}}\nB: {{burst: 100, count: 1, period: 1h}}"
    );
    let mut settings = sharing_at(&cluster.url(), &folder, &limits);
    settings.store.timeout = TIMEOUT;
    let server = start_ahead(&settings, 0);
    let mut client = Web::connect(&server);
    until("a cluster that decides", || {
        client.post("/v1/check", r#"{"limit":"B","id":"ada"}"#).json()["allowed"] == true
            && server.stats().shared.is_some_and(|shared| shared.decided > 0)
    });
    let both = r#"{"op":"spend","asks":[{"limit":"A","id":"ada"},{"limit":"B","id":"ada"}]}"#;
    let one = r#"{"op":"spend","limit":"A","id":"ada"}"#;
    // The last of A goes to the one by itself, which comes first.
    let transactions = [vec![one], vec![both; BURST]].concat().join(",");
    let answer =
        client.post("/v1/batch", &format!(r#"{{"transactions":[{transactions}]}}"#)).json();
    let allowed = answer["results"].as_array().unwrap().iter().map(|it| it["allowed"] == true);
    let expected: Vec<bool> = (0..=BURST).map(|place| place < BURST).collect();
    assert_eq!(allowed.collect::<Vec<_>>(), expected, "{answer}");
    let left = client.get("/v1/buckets/B/ada").json();
    assert_eq!(left["remaining"], 100 - (BURST - 1), "a denied one spends nothing: {left}");
    assert!(server.drain(settings.drain).unwrap());
}

/// Asks once for each of the buckets `Many:0`, `Many:1` .., and adds what passed.
fn ask_each(client: &mut Stream, passed: &mut [usize]) {
    let lines: Vec<String> = (0..passed.len()).map(|id| format!("get Many:{id}\n")).collect();
    client.send(lines.concat().as_bytes());
    let answers = client.read(2 * passed.len());
    for (passed, answer) in passed.iter_mut().zip(answers.chunks(2)) {
        assert!(matches!(answer, b"0\n" | b"1\n"), "{answer:?}");
        *passed += usize::from(answer == b"1\n");
    }
}

/// Every ask was answered by the store, and the servers stop in time.
fn end<const N: usize>(servers: [Server; N], settings: &ratekeeper_server::settings::Settings) {
    for server in servers {
        let shared = server.stats().shared.unwrap();
        assert!(shared.up && shared.failures.is_empty() && shared.local == 0, "{shared:?}");
        assert!(server.drain(settings.drain).unwrap());
    }
}

/// Moves a slot with all its keys, as `redis-cli --cluster reshard` does.
fn migrate(cluster: &Cluster, slot: u16, from: usize, to: usize) {
    let (number, port) = (slot.to_string(), cluster.servers[to].port.to_string());
    let (source, target) = (&cluster.servers[from], &cluster.servers[to]);
    let (source_id, target_id) = (cluster.id(from), cluster.id(to));
    target.command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &source_id]);
    source.command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &target_id]);
    until("all keys have moved", || {
        let keys = source.command(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
        let redis::Value::Array(keys) = keys else { panic!("{keys:?}") };
        for key in &keys {
            let redis::Value::BulkString(key) = key else { panic!("{key:?}") };
            let key = String::from_utf8(key.clone()).unwrap();
            source.command(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        }
        keys.is_empty()
    });
    for server in [target, source] {
        server.command(&["CLUSTER", "SETSLOT", &number, "NODE", &target_id]);
    }
}

#[test]
fn slots_that_migrate_under_load_lose_no_ask_and_spend_nothing_twice() {
    const MANY: usize = 60;
    const BURST: u64 = 1_000_000;
    /// How many slots move, one after the other.
    const MOVES: usize = 20;
    let (cluster, folder) = (Cluster::start(), Folder::new());
    let limits = format!("Many: {{burst: {BURST}, count: 1, period: 1h}}");
    let settings = sharing_at(&cluster.url(), &folder, &limits);
    let servers = [0; 4].map(|ahead| start_ahead(&settings, ahead));
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = servers
        .iter()
        .map(|server| {
            let mut client = Stream::connect(server, "bucket");
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                let (mut passed, mut asked) = (vec![0; MANY], 0);
                while !is_over.load(Ordering::Relaxed) {
                    ask_each(&mut client, &mut passed);
                    asked += 1;
                }
                (passed, asked)
            })
        })
        .collect();
    for id in 0..MOVES {
        // Not one of them before the load has gone on since the last.
        until_decided(&servers, (4 * MANY) as u64);
        let slot = slot_of(&format!("Many:{id}"));
        let from = Cluster::owner(slot);
        migrate(&cluster, slot, from, (from + 1) % PRIMARIES);
    }
    until_decided(&servers, (4 * MANY) as u64);
    is_over.store(true, Ordering::Relaxed);
    let counted: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    let asked: usize = counted.iter().map(|(_, asked)| asked).sum();
    let mut web = Web::connect(&servers[0]);
    for id in 0..MANY {
        let passed: usize = counted.iter().map(|(passed, _)| passed[id]).sum();
        assert_eq!(passed, asked, "bucket {id} has enough for everybody");
        let bucket = web.get(&format!("/v1/buckets/Many/{id}")).json();
        assert_eq!(bucket["remaining"], BURST - passed as u64, "bucket {id}: {bucket}");
    }
    eprintln!("cluster: {MOVES} slots moved under load, {} asks", asked * MANY);
    end(servers, &settings);
}

#[test]
fn a_primary_that_is_killed_under_load_costs_no_more_than_was_not_replicated() {
    let (mut cluster, folder) = (Cluster::start(), Folder::new());
    let mut settings = sharing_at(&cluster.url(), &folder, LIMITS);
    settings.store.timeout = TIMEOUT;
    let servers = [0; 2].map(|ahead| start_ahead(&settings, ahead));
    // Of the slots of two names with the same end one may never be where the other is.
    let ids = ["Counted", "Local"].map(|limit| {
        let mut ids = (0..1_000).map(|id| format!("n{id}"));
        ids.find(|id| Cluster::owner(slot_of(&format!("{limit}:{id}"))) == 0).unwrap()
    });
    let replica = cluster.servers.remove(PRIMARIES);
    let mut primary = cluster.servers.remove(0);
    let is_promoted = || {
        replica.says(&["INFO", "replication"], "role:master")
            && replica.says(&["CLUSTER", "INFO"], "cluster_state:ok")
    };
    let kill = || {
        // What is acknowledged from here on is not replicated.
        replica.command(&["CONFIG", "SET", "masterauth", "wrong"]);
        primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
        until_decided(&servers, UNREPLICATED);
        primary.kill();
    };
    let ids = [&*ids[0], &ids[1]];
    let lost = judge_failover("cluster", &servers, ids, kill, is_promoted);
    assert!(lost > 0, "the replica was cut off before the end of the primary");
    for server in servers {
        assert!(server.drain(settings.drain).unwrap());
    }
}
