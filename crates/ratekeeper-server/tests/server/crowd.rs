//! Many clients, and clients that behave badly: everybody else is served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, Stream, insert, settings, start, wait_until,
};

/// Half of 5,000 per door: both ends of each connection are files of this process.
const IDLE_PER_DOOR: usize = 2_500;

#[test]
fn thousands_of_idle_and_trickling_connections_disturb_nobody() {
    let settings = settings();
    let server = start(&settings, Arc::new(Clock::start()));
    let mut crowd = Vec::new();
    for index in 0..IDLE_PER_DOOR {
        for (door, part) in
            [("bucket", &b"get buck"[..]), ("throttr", &insert(9, 1, 60, "a", "b")[..20])]
        {
            let mut stream = Stream::connect(&server, door);
            // Every other one has sent a part of a request and is silent now.
            if index % 2 == 0 {
                stream.send(part);
            }
            crowd.push(stream);
        }
    }
    let (mut bucket, mut throttr) =
        (Stream::connect(&server, "bucket"), Stream::connect(&server, "throttr"));
    let udp = Datagrams::connect(&server);
    for round in 0..200 {
        bucket.send(b"get nobody\n");
        assert_eq!(bucket.read(17), b"BUCKET NOT FOUND\n");
        throttr.send(&insert(1000, 1, 60, "ada", "/"));
        assert_eq!(throttr.read(INSERT_ANSWER_BYTES)[0], 1);
        assert_eq!(udp.ask(b"ping"), b"pong");
        // The crowd trickles on, a byte at a time.
        crowd[round * 2 % IDLE_PER_DOOR].send(b"x");
    }
    let stats = server.stats();
    for door in ["bucket", "throttr"] {
        assert_eq!(stats.doors[door].counts.connections, IDLE_PER_DOOR as u64 + 1, "{door}");
    }
    // Their requests can still be finished.
    crowd[100].send(b"eta\n");
    let mut answer = Vec::new();
    (&crowd[100].0).take(16).read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"BUCKET NOT FOUND");
    drop(crowd);
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn a_client_that_never_reads_is_paused_and_then_dropped() {
    let mut settings = settings();
    settings.bucket.stream.output_bytes = 64 << 10;
    settings.bucket.stream.stall = Duration::from_millis(300);
    let server = start(&settings, Arc::new(Clock::start()));
    let mut greedy = TcpStream::connect(server.address("bucket").unwrap()).unwrap();
    greedy.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let lines = vec![b'\n'; 1 << 16];
    let mut sent: u64 = 0;
    // Each line causes 16 bytes of answers. At some point the server stops to read, so this stops
    // to be able to send, and then the connection ends.
    while let Ok(written) = greedy.write(&lines) {
        sent += written as u64;
        assert!(sent < 1 << 30, "the server reads on although nobody reads its answers");
    }
    let mut polite = Stream::connect(&server, "bucket");
    polite.send(b"quit\n");
    assert_eq!(polite.read_to_end(), b"BYE\n");
    let counts = || server.stats().doors["bucket"].counts;
    wait_until("nobody is connected", || counts().connections == 0);
    let counts = counts();
    assert_eq!(counts.dropped, 1);
    // What was decided but could not be delivered is within the bounds of both systems' buffers.
    assert!(counts.malformed < 2 << 20, "{} answers were made for nobody", counts.malformed);
    server.drain(settings.drain).unwrap();
}

#[test]
fn a_client_that_sends_without_a_pause_leaves_others_their_turn() {
    let mut settings = settings();
    settings.workers = std::num::NonZeroUsize::new(1);
    let server = start(&settings, Arc::new(Clock::start()));
    let mut busy = Stream::connect(&server, "bucket");
    let mut sender = busy.0.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let lines = b"get bucketc\n".repeat(10_000);
        while sender.write_all(&lines).is_ok() {}
    });
    let reading = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while busy.0.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
    let requests = || server.stats().doors["bucket"].counts.requests;
    wait_until("the busy client is answered", || requests() > 0);
    let udp = Datagrams::connect(&server);
    let before = requests();
    let pings = 300;
    for _ in 0..pings {
        assert_eq!(udp.ask(b"ping"), b"pong");
    }
    // One read is some thousand requests; a worker that let nobody else in would do millions.
    let meanwhile = (requests() - before) / pings;
    assert!(meanwhile < 50_000, "{meanwhile} requests of one client for each of another");
    server.drain(settings.drain).unwrap();
    sending.join().unwrap();
    reading.join().unwrap();
}

#[test]
fn connections_are_bounded_per_door_and_per_source() {
    let mut settings = settings();
    settings.bucket.stream.connections_per_source = 3;
    settings.throttr.stream.connections = 2;
    let server = start(&settings, Arc::new(Clock::start()));
    for (door, most) in [("bucket", 3), ("throttr", 2)] {
        let ask =
            if door == "bucket" { b"get bucketc\n".to_vec() } else { insert(9, 0, 9, "a", "b") };
        let mut kept: Vec<_> = (0..most).map(|_| Stream::connect(&server, door)).collect();
        for stream in &mut kept {
            stream.send(&ask);
            stream.read(2);
        }
        let mut refused = Stream::connect(&server, door);
        let mut nothing = Vec::new();
        // Closed, or reset: in any case without a byte.
        let _ = refused.0.read_to_end(&mut nothing);
        assert_eq!(nothing, b"");
        assert_eq!(server.stats().doors[door].counts.refused, 1, "{door}");
    }
    server.drain(settings.drain).unwrap();
}

#[test]
fn who_is_not_on_the_list_is_not_served() {
    let mut settings = settings();
    let nobody_here = vec!["192.0.2.0/24".parse().unwrap()];
    settings.udp.allow.clone_from(&nobody_here);
    settings.bucket.stream.allow = nobody_here;
    settings.throttr.stream.allow = vec!["127.0.0.0/8".parse().unwrap()];
    let server = start(&settings, Arc::new(Clock::start()));
    Datagrams::connect(&server).send(b"ping");
    let mut bucket = Stream::connect(&server, "bucket");
    let mut nothing = Vec::new();
    let _ = bucket.0.read_to_end(&mut nothing);
    assert_eq!(nothing, b"");
    let mut throttr = Stream::connect(&server, "throttr");
    throttr.send(&insert(9, 1, 60, "a", "b"));
    assert_eq!(throttr.read(INSERT_ANSWER_BYTES)[0], 1);
    let ignored = || server.stats().doors["udp"].counts.ignored;
    wait_until("the datagram is ignored", || ignored() > 0);
    assert_eq!(server.stats().doors["udp"].counts.requests, 0);
    server.drain(settings.drain).unwrap();
}

#[test]
fn a_silent_connection_is_closed_after_the_idle_time() {
    let mut settings = settings();
    settings.bucket.stream.idle = Some(Duration::from_millis(50));
    let server = start(&settings, Arc::new(Clock::start()));
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get nobody\n");
    assert_eq!(bucket.read_to_end(), b"BUCKET NOT FOUND\n");
    server.drain(settings.drain).unwrap();
}

#[test]
fn who_reads_late_is_not_taken_for_silent() {
    let idle = Duration::from_millis(500);
    let mut settings = settings();
    settings.throttr.stream.idle = Some(idle);
    let server = start(&settings, Arc::new(Clock::start()));
    let mut client = Stream::connect(&server, "throttr").0;
    client.set_write_timeout(Some(2 * idle)).unwrap();
    // As much as both systems hold: for two idle times the server waits for the client to read.
    let query = [2, 1, 1, b'a', b'b'];
    let mut sent = 0;
    while let Ok(written) = client.write(&query.repeat(1000)) {
        sent += written;
    }
    let mut answers = vec![0; sent / query.len() * INSERT_ANSWER_BYTES];
    client.read_exact(&mut answers).unwrap();
    server.drain(settings.drain).unwrap();
}

#[test]
fn ipv6_works_at_every_door() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.udp.rules = Some(folder.write("rules.yaml", ""));
    settings.bucket.buckets = Some(folder.write("buckets.conf", "bucketa 1\n"));
    let loopback = Some("[::1]:0".parse().unwrap());
    settings.udp.listen = loopback;
    settings.bucket.stream.listen = loopback;
    // Both kinds of address through one socket.
    settings.throttr.stream.listen = Some("[::]:0".parse().unwrap());
    settings.throttr.stream.allow =
        vec!["127.0.0.1/32".parse().unwrap(), "::1/128".parse().unwrap()];
    let server = start(&settings, Arc::new(Clock::start()));
    let socket = std::net::UdpSocket::bind("[::1]:0").unwrap();
    socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    socket.send_to(b"1 over_limit x", server.address("udp").unwrap()).unwrap();
    let mut answer = [0; 100];
    let (length, _) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(&answer[..length], b"1 ok N 0.0 1.0 1");
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get bucketa\n");
    assert_eq!(bucket.read(2), b"1\n");
    let port = server.address("throttr").unwrap().port();
    for address in ["127.0.0.1", "::1"] {
        let mut throttr = Stream(TcpStream::connect((address, port)).unwrap());
        throttr.send(&insert(9, 1, 60, address, "b"));
        assert_eq!(throttr.read(INSERT_ANSWER_BYTES)[..2], [1, 8], "{address}");
    }
    server.drain(settings.drain).unwrap();
}
