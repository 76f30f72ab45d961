//! What one read brings is one trip, through whole servers.

use ratekeeper_server::Server;

use crate::servers::Single;
use crate::support::{Folder, INSERT_ANSWER_BYTES, Stream, insert};
use crate::{sharing, start_ahead};

const QUERY: u8 = 2;
const PURGE: u8 = 4;

fn trips(server: &Server) -> u64 {
    server.stats().shared.unwrap().trips
}

#[test]
fn a_pipeline_of_quotas_and_named_limits_takes_a_few_trips() {
    const PAIRS: usize = 1_000;
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = sharing(&redis, &folder, "Orders: {burst: 5000, count: 1, period: 1h}");
    let server = start_ahead(&settings, 0);
    let mut client = Stream::connect(&server, "throttr");
    let pair = [insert(5_000, 1, 60, "ada", "/"), insert(1, 1, 1, "ada", "Orders")].concat();
    client.send(&pair);
    client.read(2 * INSERT_ANSWER_BYTES);
    let before = trips(&server);
    client.send(&pair.repeat(PAIRS));
    let answers = client.read(2 * PAIRS * INSERT_ANSWER_BYTES);
    // Every pair sees what those before it took.
    for (place, answer) in answers.chunks(INSERT_ANSWER_BYTES).enumerate() {
        let remaining = u64::from_le_bytes(answer[1..9].try_into().unwrap());
        assert_eq!((answer[0], remaining), (1, 5_000 - 2 - (place / 2) as u64), "answer {place}");
    }
    let trips = trips(&server) - before;
    eprintln!("{} asks in {trips} trips", 2 * PAIRS);
    assert!(trips <= 2 * PAIRS as u64 / 20, "{trips} trips for {} asks", 2 * PAIRS);
    assert!(server.drain(settings.drain).unwrap());
}

#[test]
fn what_comes_behind_a_purge_in_one_read_sees_what_it_gave() {
    let (redis, folder) = (Single::start(), Folder::new());
    let settings = sharing(&redis, &folder, "Orders: {burst: 2, count: 1, period: 1h}");
    let server = start_ahead(&settings, 0);
    let mut client = Stream::connect(&server, "throttr");
    let spend = insert(1, 1, 1, "ada", "Orders");
    let ids = b"\x03\x06adaOrders";
    let [query, purge] = [QUERY, PURGE].map(|opcode| [&[opcode], &ids[..]].concat());
    // From the second time on it is remembered that the bucket is empty.
    for _ in 0..3 {
        client
            .send(&[&spend.repeat(3)[..], &purge, &purge, &spend, &query, &spend, &spend].concat());
        let mut can = |bytes: usize| client.read(bytes)[0];
        let state = INSERT_ANSWER_BYTES;
        let passed = [can(state), can(state), can(state)];
        assert!(passed == [1, 1, 0] || passed == [0, 0, 0], "{passed:?}");
        assert_eq!([can(1), can(1)], [1, 0], "the second has nothing to purge");
        assert_eq!(can(state), 1, "it is full again");
        let left = client.read(state);
        assert_eq!(left[1], 1, "one of two is left");
        let passed = [client.read(state)[0], client.read(state)[0]];
        assert_eq!(passed, [1, 0]);
    }
    assert!(server.drain(settings.drain).unwrap());
}
