//! What was spent survives a restart.

use std::fs;
use std::sync::Arc;

use ratekeeper::Moment;
use ratekeeper_server::Server;
use ratekeeper_server::settings::Settings;

use crate::support::{
    Datagrams, Folder, INSERT_ANSWER_BYTES, StandingTime, Stream, Web, insert, settings, start,
};

const NOW: u64 = 1_700_000_000;

fn with_state(folder: &Folder) -> Settings {
    let mut settings = settings();
    settings.state = Some(folder.path("state"));
    settings.limits = Some(folder.write("limits.yaml", "Orders: {burst: 5, count: 5, period: 1h}"));
    settings.udp.rules = Some(
        folder.write("rules.yaml", "rules: [{match: '.', limit: 3, period: 100, strict: true}]"),
    );
    settings
}

/// What every door answers.
fn answers(server: &Server) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut bucket = Stream::connect(server, "bucket");
    bucket.send(b"get Orders:ada\n");
    let mut throttr = Stream::connect(server, "throttr");
    throttr.send(&insert(9, 1, 3600, "ada", "/"));
    let udp = Datagrams::connect(server).ask(b"over_limit ada");
    (bucket.read(2), throttr.read(INSERT_ANSWER_BYTES), udp)
}

#[test]
fn every_door_goes_on_where_it_stopped() {
    let folder = Folder::new();
    let settings = with_state(&folder);
    let time = StandingTime::at_secs(NOW);
    let stopped: Vec<_> = (0..8)
        .map(|second| {
            time.set(Moment::from_nanos((NOW + second) * 1_000_000_000));
            let server = start(&settings, Arc::clone(&time) as _);
            let answers = answers(&server);
            assert!(server.drain(settings.drain).unwrap());
            answers
        })
        .collect();
    // The same without a restart.
    let folder = Folder::new();
    let settings = with_state(&folder);
    let time = StandingTime::at_secs(NOW);
    let server = start(&settings, Arc::clone(&time) as _);
    for (second, expected) in (0..).zip(stopped) {
        time.set(Moment::from_nanos((NOW + second) * 1_000_000_000));
        assert_eq!(answers(&server), expected, "second {second}");
    }
    server.drain(settings.drain).unwrap();
}

#[test]
fn a_damaged_file_is_set_aside_and_the_server_starts() {
    let folder = Folder::new();
    let settings = with_state(&folder);
    let server = start(&settings, StandingTime::at_secs(NOW));
    answers(&server);
    server.drain(settings.drain).unwrap();
    let file = folder.path("state/state");
    let whole = fs::read(&file).unwrap();
    for damaged in [&whole[..whole.len() - 1], &[], b"nonsense", &[whole.as_slice(), b"!"].concat()]
    {
        fs::write(&file, damaged).unwrap();
        let server = start(&settings, StandingTime::at_secs(NOW));
        assert!(!file.exists(), "it is set aside");
        assert!(folder.path(&format!("state/state.damaged-{NOW}")).exists());
        assert_eq!(answers(&server).2, b"ok N 0.0 3.0 100", "as if nothing had been spent");
        server.drain(settings.drain).unwrap();
    }
}

#[test]
fn buckets_with_the_longest_names_survive_too() {
    let folder = Folder::new();
    let mut settings = with_state(&folder);
    let name = "x".repeat(ratekeeper::limits::BUCKET_NAME_BYTES_MAX);
    settings.bucket.buckets = Some(folder.write("buckets.conf", &format!("{name} 1\n")));
    for expected in [b"1\n", b"0\n"] {
        let server = start(&settings, StandingTime::at_secs(NOW));
        let mut bucket = Stream::connect(&server, "bucket");
        bucket.send(format!("get {name}\n").as_bytes());
        assert_eq!(bucket.read(2), expected);
        drop(bucket);
        server.drain(settings.drain).unwrap();
    }
}

#[test]
fn a_door_that_is_closed_for_a_while_forgets_nothing() {
    const KEYS: usize = 60_000;
    let folder = Folder::new();
    let settings = with_state(&folder);
    let mut closed = settings.clone();
    closed.throttr.stream.listen = None;
    closed.resp.listen = None;
    let asks = |usage| -> Vec<u8> {
        (0..KEYS).flat_map(|key| insert(1, usage, 3600, &key.to_string(), "/")).collect()
    };
    for (settings, can) in [(&settings, Some(1)), (&closed, None), (&settings, Some(0))] {
        let server = start(settings, StandingTime::at_secs(NOW));
        if let Some(can) = can {
            let mut throttr = Stream::connect(&server, "throttr");
            let mut sender = throttr.0.try_clone().unwrap();
            let asks = asks(1);
            let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &asks));
            let answers = throttr.read(KEYS * INSERT_ANSWER_BYTES);
            sending.join().unwrap().unwrap();
            let allowed = answers.chunks(INSERT_ANSWER_BYTES).filter(|it| it[0] == 1).count();
            assert_eq!(allowed, KEYS * can, "of quotas that were all used up");
        }
        server.drain(settings.drain).unwrap();
    }
}

#[test]
fn a_directory_has_one_server() {
    let folder = Folder::new();
    let settings = with_state(&folder);
    let first = start(&settings, StandingTime::at_secs(NOW));
    let second = Server::start(&settings, StandingTime::at_secs(NOW)).err().unwrap().to_string();
    assert!(second.contains("another server uses the state directory"), "{second}");
    first.drain(settings.drain).unwrap();
    start(&settings, StandingTime::at_secs(NOW)).drain(settings.drain).unwrap();
}

#[test]
fn a_save_that_was_cut_short_leaves_the_one_before() {
    let folder = Folder::new();
    let settings = with_state(&folder);
    let server = start(&settings, StandingTime::at_secs(NOW));
    answers(&server);
    server.save().unwrap();
    assert_eq!(server.stats().saves.done, 1);
    // A process that is killed while it writes leaves this behind.
    fs::write(folder.path("state/state.new"), b"half").unwrap();
    drop(server);
    let server = start(&settings, StandingTime::at_secs(NOW));
    assert_eq!(answers(&server).2, b"ok N 1.0 3.0 100");
    server.drain(settings.drain).unwrap();
}

/// In how many seconds a bucket is full again from which all was spent at the first of these times,
/// by a server that is then started at each of them. Each is what buckets count and what the wall clock
/// says, in seconds.
fn reset_in(times: &[(u64, u64)]) -> Vec<u64> {
    let folder = Folder::new();
    let settings = with_state(&folder);
    let ask = |(now, wall), path, cost| {
        let server = start(&settings, StandingTime::with_wall(now, wall));
        let ask = format!(r#"{{"limit":"Orders","id":"ada","cost":{cost}}}"#);
        let answer = Web::connect(&server).post(path, &ask).json();
        assert!(server.drain(settings.drain).unwrap());
        answer["reset_in"].as_u64().unwrap()
    };
    let (first, others) = times.split_first().unwrap();
    ask(*first, "/v1/spend", 5);
    others.iter().map(|time| ask(*time, "/v1/check", 0)).collect()
}

#[test]
fn a_wall_clock_that_was_set_back_between_two_runs_denies_nobody_for_longer() {
    const DAY: u64 = 86_400;
    let same = |secs: u64| (secs, secs);
    let times = [same(NOW + DAY), same(NOW), same(NOW + 60), same(NOW + 600)];
    assert_eq!(reset_in(&times), [3600, 3540, 3000]);
    // Far ahead, too.
    let far = 235 * 365 * DAY;
    assert_eq!(reset_in(&[same(NOW + far), same(NOW), same(NOW + 60)]), [0, 0]);
}

#[test]
fn a_wall_clock_that_was_put_right_gives_nothing_back() {
    // Started long before its time, and put right while it ran; then restarted ten seconds later.
    let times = [(NOW - 360_000, NOW), (NOW + 10, NOW + 10), (NOW + 70, NOW + 70)];
    assert_eq!(reset_in(&times), [3590, 3530]);
}
