//! Clients of the UDP door that send several datagrams as one, which the system cuts where it has to.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use ratekeeper_server::Server;
use ratekeeper_server::batch::{Receiver, join};

use crate::support::{Datagrams, PATIENCE, StandingTime, settings, start, wait_until};

/// As many as the system takes as one.
const MOST: usize = 64;

fn connect(server: &Server) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address("udp").unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends them as one; all but the last have the same length.
fn send_as_one(socket: &UdpSocket, requests: &[Vec<u8>]) {
    let each = u16::try_from(requests[0].len()).unwrap();
    let bytes = requests.concat();
    let told = [ControlMessage::UdpGsoSegments(&each)];
    let slices = [IoSlice::new(&bytes)];
    sendmsg::<()>(socket.as_raw_fd(), &slices, &told, MsgFlags::empty(), None).unwrap();
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

/// Requests of the same length, the last of which is shorter if there are others; every third key is
/// the same, so that answers depend on their order and have different lengths.
fn requests(count: usize) -> Vec<Vec<u8>> {
    let mut requests: Vec<Vec<u8>> = (0..count)
        .map(|number| {
            let key = if number % 3 == 0 { 0 } else { number };
            format!("{number:04} over_limit ws ip=10.0.0.{key:03}").into_bytes()
        })
        .collect();
    if count > 1 {
        requests[count - 1] = format!("{:04} ping", count - 1).into_bytes();
    }
    requests
}

#[test]
fn what_is_sent_as_one_is_answered_as_what_is_sent_one_by_one() {
    for count in [1, 2, 60, MOST] {
        let server = start(&settings(), StandingTime::at_secs(1000));
        let twin = start(&settings(), StandingTime::at_secs(1000));
        let (client, plain) = (connect(&server), Datagrams::connect(&twin));
        let requests = requests(count);
        send_as_one(&client, &requests);
        // Their numbers tell them apart, so they may come in another order.
        let mut answers: Vec<_> = requests.iter().map(|_| receive(&client)).collect();
        answers.sort();
        for (request, answer) in requests.iter().zip(&answers) {
            assert_eq!(
                *answer,
                plain.ask(request),
                "{count}: {}",
                String::from_utf8_lossy(request)
            );
        }
        assert_eq!(Datagrams::connect(&server).ask(b"7 ping"), b"7 pong");
        let (stats, expected) = (server.stats(), twin.stats());
        assert_eq!(stats.doors["udp"].counts.requests, expected.doors["udp"].counts.requests + 1);
        assert_eq!(stats.doors["udp"].counts.denied, expected.doors["udp"].counts.denied);
    }
}

#[test]
fn junk_and_what_is_too_long_are_ignored_and_those_beside_them_answered() {
    let server = start(&settings(), StandingTime::at_secs(1000));
    let client = connect(&server);
    send_as_one(&client, &[b"1 ping".into(), b"1 junk".into(), b"3 ping".into(), b"x".into()]);
    assert_eq!(receive(&client), b"1 pong");
    assert_eq!(receive(&client), b"3 pong");
    let longest = [b"4 over_limit ".to_vec(), vec![b'k'; 1187]].concat();
    send_as_one(&client, &[longest.clone(), longest.clone(), b"6 ping".into()]);
    for _ in 0..2 {
        assert_eq!(receive(&client), b"4 ok N 0.0 1.0 1");
    }
    assert_eq!(receive(&client), b"6 pong");
    let too_long = [longest, b"k".to_vec()].concat();
    send_as_one(&client, &[too_long.clone(), too_long, b"9 ping".into()]);
    assert_eq!(receive(&client), b"9 pong");
    client.send(b"").unwrap();
    client.send(b"10 ping").unwrap();
    assert_eq!(receive(&client), b"10 pong");
    wait_until("all are counted", || {
        let udp = server.stats().doors["udp"].counts;
        (udp.requests, udp.malformed, udp.ignored) == (7, 3, 2)
    });
}

#[test]
fn many_that_were_sent_as_one_wait_for_each_other_and_others_are_answered_between_them() {
    // The system holds some two hundred answers for a client that does not read them yet.
    const ROUNDS: usize = 3;
    let time = StandingTime::at_secs(1000);
    let server = start(&settings(), Arc::clone(&time) as _);
    let client = connect(&server);
    let plain = Datagrams::connect(&server);
    let pings = |round: usize| -> Vec<Vec<u8>> {
        (0..MOST).map(|at| format!("{:06} ping", round * MOST + at).into_bytes()).collect()
    };
    for round in 0..ROUNDS {
        send_as_one(&client, &pings(round));
        plain.send(b"1 ping");
    }
    for number in 0..ROUNDS * MOST {
        assert_eq!(receive(&client), format!("{number:06} pong").into_bytes());
    }
    for _ in 0..ROUNDS {
        assert_eq!(plain.receive(), b"1 pong");
    }
}

#[test]
fn answers_without_a_number_come_in_the_order_of_the_requests() {
    let server = start(&settings(), StandingTime::at_secs(1000));
    let client = connect(&server);
    // Of one key and of others in turns, so that answers have different lengths.
    let key = |at: usize| if at.is_multiple_of(3) { 0 } else { at };
    let requests: Vec<Vec<u8>> = (0..MOST)
        .map(|at| format!("over_limit ws ip=10.0.0.{:03}", key(at)).into_bytes())
        .collect();
    send_as_one(&client, &requests);
    for at in 0..MOST {
        let rate = if at.is_multiple_of(3) { at / 3 } else { 0 };
        let over = if rate >= 22 { "Y" } else { "N" };
        let expected = format!("ok {over} {rate}.0 22.0 20");
        assert_eq!(String::from_utf8(receive(&client)).unwrap(), expected, "{at}");
    }
}

#[test]
fn a_client_that_takes_answers_as_one_gets_each_once_and_most_as_one() {
    let server = start(&settings(), StandingTime::at_secs(1000));
    let client = connect(&server);
    join(&client).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut receiver = Receiver::joined();
    for round in 0..3 {
        let requests = requests(MOST);
        send_as_one(&client, &requests);
        let (mut numbers, mut calls) = (Vec::new(), 0);
        wait_until("all are answered", || {
            match receiver.receive(&client) {
                Ok(()) => calls += 1,
                Err(error) => assert_eq!(error, Errno::EAGAIN),
            }
            let answers = receiver.datagrams();
            numbers.extend(answers.map(|(it, _)| String::from_utf8_lossy(&it[..4]).into_owned()));
            numbers.len() >= MOST
        });
        numbers.sort();
        let expected: Vec<String> = (0..MOST).map(|number| format!("{number:04}")).collect();
        assert_eq!(numbers, expected, "round {round}");
        // Rates below ten and above, and the ping.
        assert!(calls <= 4, "{calls} calls: they came one by one");
    }
}
