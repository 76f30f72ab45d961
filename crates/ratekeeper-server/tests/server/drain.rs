//! Stopping: who was heard is answered, and nothing spent is forgotten.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;

use crate::support::{Folder, INSERT_ANSWER_BYTES, Stream, insert, settings, start, wait_until};

/// A client that sends as fast as it can until the server says that nothing more will come.
struct Sender {
    /// Requests that were sent whole.
    sent: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Vec<u8>>,
}

/// The server hears out what both systems may hold, so a client that sends one by one takes long.
const REQUESTS_PER_WRITE: usize = 100;

fn send_until_the_end(server: &Server, door: &str, request: Vec<u8>) -> Sender {
    let sent = Arc::new(AtomicUsize::new(0));
    let stream = Stream::connect(server, door).0;
    let (mut reader, mut writer) = (stream.try_clone().unwrap(), stream);
    let counter = Arc::clone(&sent);
    let is_over = Arc::new(AtomicBool::new(false));
    let seen_over = Arc::clone(&is_over);
    let writing = thread::spawn(move || {
        let requests = request.repeat(REQUESTS_PER_WRITE);
        while !seen_over.load(Ordering::Relaxed) && writer.write_all(&requests).is_ok() {
            counter.fetch_add(REQUESTS_PER_WRITE, Ordering::SeqCst);
        }
    });
    let thread = thread::spawn(move || {
        let mut answers = Vec::new();
        let end = reader.read_to_end(&mut answers);
        is_over.store(true, Ordering::Relaxed);
        // What was sent after the end makes the system reset the connection; the answers count.
        drop(end);
        // A writer that is stuck is freed by this.
        let _ = reader.shutdown(std::net::Shutdown::Both);
        writing.join().unwrap();
        answers
    });
    Sender { sent, thread }
}

#[test]
fn a_restart_under_load_answers_everybody_and_forgets_nothing() {
    const BUDGET: usize = 1_000_000_000;
    let folder = Folder::new();
    let mut settings = settings();
    settings.limits = Some(
        folder
            .write("limits.yaml", &format!("Budget: {{burst: {BUDGET}, count: 1, period: 8760h}}")),
    );
    settings.state = Some(folder.path("state"));
    let mut spent = 0;
    for _restart in 0..5 {
        let server = start(&settings, Arc::new(Clock::start()));
        let buckets: Vec<_> = (0..4)
            .map(|_| send_until_the_end(&server, "bucket", b"get Budget\n".to_vec()))
            .collect();
        let ask = insert(u64::MAX, 1, 3600, "ada", "/search");
        let quotas: Vec<_> =
            (0..4).map(|_| send_until_the_end(&server, "throttr", ask.clone())).collect();
        let all_busy =
            || buckets.iter().chain(&quotas).all(|it| it.sent.load(Ordering::SeqCst) > 1000);
        wait_until("everybody has sent a lot", all_busy);
        let count_sent = |senders: &[Sender]| -> Vec<usize> {
            senders.iter().map(|it| it.sent.load(Ordering::SeqCst)).collect()
        };
        let sent_before = [count_sent(&buckets), count_sent(&quotas)];
        assert!(server.drain(Duration::from_secs(20)).unwrap());
        for (sender, sent) in buckets.into_iter().zip(&sent_before[0]) {
            let answers = sender.thread.join().unwrap();
            assert!(answers.len() / 2 >= *sent, "{} answers to {sent}", answers.len() / 2);
            assert!(answers.chunks(2).all(|it| it == b"1\n"));
            spent += answers.len() / 2;
        }
        for (sender, sent) in quotas.into_iter().zip(&sent_before[1]) {
            let answers = sender.thread.join().unwrap();
            assert!(answers.len() / INSERT_ANSWER_BYTES >= *sent);
            assert_eq!(answers.len() % INSERT_ANSWER_BYTES, 0, "an answer was cut");
        }
    }
    let server = start(&settings, Arc::new(Clock::start()));
    // Whatever is left beyond what was spent was forgotten; one that cost too much is refused.
    let mut client = Stream::connect(&server, "bucket");
    client.send(format!("get Budget {}\n", BUDGET - spent + 1).as_bytes());
    assert_eq!(client.read(2), b"0\n", "more is left than was not spent");
    client.send(format!("get Budget {}\n", BUDGET - spent).as_bytes());
    assert_eq!(client.read(2), b"1\n", "less is left than was not spent");
    server.drain(settings.drain).unwrap();
}

#[test]
fn connections_that_were_not_accepted_yet_are_answered_too() {
    let mut settings = settings();
    settings.workers = std::num::NonZeroUsize::new(1);
    for _ in 0..5 {
        let server = start(&settings, Arc::new(Clock::start()));
        let mut clients: Vec<_> = (0..200).map(|_| Stream::connect(&server, "bucket")).collect();
        for client in &mut clients {
            client.send(b"get bucketc\nget nobody\nget half");
        }
        assert!(server.drain(settings.drain).unwrap());
        for client in &mut clients {
            // The last line was not whole, so it is not a request that was sent before the end.
            assert_eq!(client.read_to_end(), b"1\nBUCKET NOT FOUND\n");
        }
    }
}

#[test]
fn a_client_that_reads_slowly_gets_every_answer_before_the_end() {
    let settings = settings();
    let server = start(&settings, Arc::new(Clock::start()));
    let mut client = Stream::connect(&server, "throttr").0;
    let mut reader = client.try_clone().unwrap();
    client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // As much as both systems hold: the server stops to read because nobody reads its answers.
    let query = [2, 1, 1, b'a', b'b'];
    let mut sent = 0;
    while let Ok(written) = client.write(&query.repeat(1000)) {
        sent += written;
    }
    let draining = thread::spawn(move || server.drain(Duration::from_mins(1)).unwrap());
    let (_never, silence) = std::sync::mpsc::channel::<()>();
    let (mut answers, mut bytes) = (0, vec![0; 1 << 18]);
    loop {
        // For at least as long as the server waits for anybody, this is slow.
        let _ = silence.recv_timeout(Duration::from_millis(if answers < 8 << 20 { 50 } else { 0 }));
        match reader.read(&mut bytes).unwrap() {
            0 => break,
            read => answers += read,
        }
    }
    assert_eq!(answers / INSERT_ANSWER_BYTES, sent / query.len(), "answers to what was sent whole");
    assert_eq!(answers % INSERT_ANSWER_BYTES, 0, "an answer was cut");
    drop(client);
    drop(reader);
    assert!(draining.join().unwrap());
}

#[test]
fn datagrams_without_end_do_not_keep_the_server_from_stopping() {
    let mut settings = settings();
    settings.workers = std::num::NonZeroUsize::new(1);
    let server = start(&settings, Arc::new(Clock::start()));
    let is_over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let (over, address) = (Arc::clone(&is_over), server.address("udp").unwrap());
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // Once the server is gone this fails; so it is meant.
                    let _ = socket.send_to(b"over_limit ws global", address);
                }
            })
        })
        .collect();
    let mut bucket = Stream::connect(&server, "bucket");
    bucket.send(b"get nobody\n");
    assert_eq!(bucket.read(17), b"BUCKET NOT FOUND\n");
    bucket.send(b"get nobody\n");
    assert!(server.drain(Duration::from_mins(1)).unwrap(), "it ended by itself");
    assert_eq!(bucket.read_to_end(), b"BUCKET NOT FOUND\n");
    is_over.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().unwrap();
    }
}
