//! The Throttr door.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Keyed, Limiter, Nanos};
use ratekeeper_protocol::Counts;
use ratekeeper_protocol::throttr::{Door, Options};
use serde_json::Value;

use crate::transcript::{Connection, blocks, run, unhex};

const PAGE: &str = include_str!("../../src/throttr/README.md");
const RECORDED: &str = include_str!("../vectors/throttr.json");
const STATE_BYTES: usize = 18;

fn door(limits: &str, options: Options) -> Door {
    let limits = match limits {
        "" => Limits::new(),
        text => Limits::parse(&Source { name: "limits", text }, None).unwrap(),
    };
    let limiter = Limiter::with_memory(limits, 1 << 20).unwrap();
    Door::new(Arc::new(Keyed::new(1 << 20).unwrap()), Arc::new(limiter), options)
}

#[test]
fn the_transcripts_of_the_page_hold() {
    let transcripts = blocks(PAGE, "transcript");
    assert_eq!(transcripts.len(), 6);
    for transcript in transcripts {
        let settings: Vec<_> =
            transcript.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let is_set = |name| settings.contains(&name);
        let options = Options { strict: is_set("strict"), named_limits: is_set("named_limits") };
        let limit = settings.iter().find_map(|setting| setting.strip_prefix("limit "));
        run(&door(limit.unwrap_or_default(), options), transcript, unhex);
    }
}

/// An answer of 18 bytes.
fn state(can: u8, remaining: u64, unit: u8, ttl: i64) -> Vec<u8> {
    [&[can][..], &remaining.to_le_bytes(), &[unit], &ttl.to_le_bytes()].concat()
}

/// What is answered to each read of a case where the original did something else than the page
/// says; nothing if it did the same.
fn instead(case: &str) -> Option<Vec<Vec<u8>>> {
    let minute = |remaining| state(1, remaining, 2, 59);
    let (none, yes, no) = (state(0, 0, 1, 0), vec![1], vec![0]);
    let silence = Vec::new;
    Some(match case {
        // The original wrapped below zero.
        "insert_new_usage_gt_quota" => {
            vec![state(0, 0, 2, 59), state(0, 0, 2, 59), state(0, 3, 2, 59)]
        }
        "insert_ttl_type_invalid" => vec![minute(3), minute(3), minute(3), yes, minute(3)],
        "update_quota_increase_overflow" => vec![minute(4), yes, minute(u64::MAX)],
        // What has expired is gone.
        "update_expired_not_reaped" => {
            vec![state(1, 3, 1, 29), none.clone(), no.clone(), none.clone(), no, none]
        }
        "purge_expired" => vec![state(1, 4, 1, 29), no.clone(), no],
        // Pieces are put together, also those that the original took for whole requests.
        "short_header" => {
            vec![silence(), state(1, 1025, 0, 15361), silence(), silence(), none, silence()]
        }
        "short_payload" => vec![silence(), minute(4)],
        "partial_header_then_rest" | "partial_at_payload" => vec![silence(), minute(4), minute(4)],
        "byte_at_a_time_query" => {
            vec![silence(), silence(), silence(), silence(), silence(), none]
        }
        // Every request of a read is answered.
        "pipelined_two_in_one_segment" => {
            vec![[minute(4), minute(8)].concat(), minute(4), minute(8)]
        }
        "pipelined_mixed" => vec![[minute(4), minute(4), yes.clone(), yes].concat()],
        "pipelined_identical_x5" => {
            vec![(0..5).rev().flat_map(minute).collect(), minute(0)]
        }
        "big_segment_1024" => vec![none.repeat(100)],
        _ => return None,
    })
}

#[test]
fn the_recorded_exchanges_hold() {
    let data: Value = serde_json::from_str(RECORDED).unwrap();
    let cases = data["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 38);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let instead = instead(name);
        assert!(instead.is_none() || case["klass"] != "normative", "{name}");
        let mut instead = instead.map(Vec::into_iter);
        let door = door("", Options::default());
        let mut connection = Connection::new(&door);
        connection.now = ratekeeper::Moment::from_nanos(5_000_000_000);
        for step in case["steps"].as_array().unwrap() {
            connection
                .wait(Nanos::new(u128::from(step["sleep_ms"].as_u64().unwrap_or(0)) * 1_000_000));
            let chunks = step["chunks"].as_array().map_or(&[][..], Vec::as_slice);
            for read in chunks.iter().chain(step.get("send")).filter_map(Value::as_str) {
                let got = connection.send(&unhex(read));
                match &mut instead {
                    Some(answers) => assert_eq!(got, answers.next().unwrap(), "{name}: {step}"),
                    None => check(name, step, &got),
                }
                // A moment passes, as it did on the wire.
                connection.wait(Nanos::new(1_000));
            }
            if step["shutdown_wr"] == true {
                assert_eq!(connection.end(), b"", "{name}");
            }
            assert!(!connection.is_closed, "{name}");
        }
        assert!(instead.is_none_or(|mut answers| answers.next().is_none()), "{name}");
    }
}

/// Whether the answer is the recorded one, but for the time that passed.
fn check(name: &str, step: &Value, got: &[u8]) {
    let recorded = unhex(step["recv"].as_str().unwrap());
    let is_huge = name.starts_with("insert_ttl_huge");
    if recorded.len() != STATE_BYTES {
        assert_eq!(got, recorded, "{name}: {step}");
        return;
    }
    assert_eq!(got.len(), STATE_BYTES, "{name}: {step}");
    let ttl = |state: &[u8]| i64::from_le_bytes(state[10..].try_into().unwrap());
    let unit: i64 = match got[9] {
        0 => 1,
        1 => 1_000_000,
        _ => 1_000_000_000,
    };
    if is_huge {
        // The original overflowed, and the quota was gone at once; here it lives for centuries.
        assert_eq!(got[..9], [1, 3, 0, 0, 0, 0, 0, 0, 0], "{name}: {step}");
        let century = 100 * 365 * 86_400 * (1_000_000_000 / unit);
        assert!(ttl(got) > 2 * century, "{name}: {step}: {}", ttl(got));
        return;
    }
    assert_eq!(got[..10], recorded[..10], "{name}: {step}");
    let (low, high) = match step["ttl_bounds"].as_array() {
        Some(bounds) => (bounds[0].as_i64().unwrap(), bounds[1].as_i64().unwrap()),
        None => (ttl(&recorded), ttl(&recorded) + 10_000_000 / unit),
    };
    assert!((low..=high).contains(&ttl(got)), "{name}: {step}: {}", ttl(got));
}

fn insert(quota: u64, usage: u64, unit: u8, ttl: u64, ids: [&[u8]; 2]) -> Vec<u8> {
    let lengths = ids.map(|id| u8::try_from(id.len()).unwrap());
    let [quota, usage, ttl] = [quota, usage, ttl].map(u64::to_le_bytes);
    [&[1], &quota[..], &usage, &[unit], &ttl, &lengths, ids[0], ids[1]].concat()
}

/// `02` query or `04` purge.
fn short(opcode: u8, ids: [&[u8]; 2]) -> Vec<u8> {
    let lengths = ids.map(|id| u8::try_from(id.len()).unwrap());
    [&[opcode], &lengths[..], ids[0], ids[1]].concat()
}

#[test]
fn an_id_that_is_too_long_costs_no_answer_but_its_own() {
    let door = door("", Options::default());
    let mut connection = Connection::new(&door);
    // 300 bytes, whose length a client writes as 44.
    let request = [&short(2, [&[b'A'; 44], b""])[..], &[b'A'; 256]].concat();
    assert_eq!(connection.send(&request), state(0, 0, 1, 0));
    assert_eq!(connection.send(&short(4, [b"", b""])), [0]);
    let counts = Counts { requests: 2, malformed: 1, ..Counts::default() };
    assert_eq!(connection.counts, counts);
}

#[test]
fn a_strict_door_closes_and_says_nothing() {
    let door = door("", Options { strict: true, ..Options::default() });
    let mut connection = Connection::new(&door);
    assert_eq!(connection.send(b"\0"), b"");
    assert!(connection.is_closed);
}

#[test]
fn a_long_read_is_answered_in_order() {
    let options = Options { named_limits: true, ..Options::default() };
    let door = door("L: {burst: 50, count: 50, period: 1s}", options);
    let mut connection = Connection::new(&door);
    let pair = [insert(100, 1, 2, 60, [b"c", b"r"]), insert(9, 1, 2, 60, [b"c", b"L"])].concat();
    let got = connection.send(&pair.repeat(150));
    let mut expected = Vec::new();
    for n in 0..150_u64 {
        expected.extend(state(u8::from(n < 100), 99_u64.saturating_sub(n), 2, 59));
        let spent = (n + 1).min(50);
        expected.extend(state(u8::from(n < 50), 50 - spent, 2, i64::from(spent == 50)));
    }
    assert_eq!(got, expected);
    let counts = Counts { requests: 300, allowed: 150, denied: 150, ..Counts::default() };
    assert_eq!(connection.counts, counts);
}

#[test]
fn limits_answer_only_where_they_are_asked_to() {
    let limits = "
L: {burst: 5, count: 5, period: 1s}
I: {burst: 5, count: 5, period: 1s, id: ipAddress}
";
    let off = door(limits, Options::default());
    let mut connection = Connection::new(&off);
    assert_eq!(connection.send(&insert(9, 1, 2, 60, [b"c", b"L"])), state(1, 8, 2, 59));

    let on = door(limits, Options { named_limits: true, ..Options::default() });
    let mut connection = Connection::new(&on);
    let mut ask = |request: Vec<u8>| connection.send(&request);
    assert_eq!(ask(insert(9, 2, 1, 60, [b"c", b"L"])), state(1, 3, 1, 400));
    assert_eq!(ask(insert(9, 0, 0, 60, [b"c", b"L"])), state(1, 3, 0, 400_000_000));
    assert_eq!(ask(insert(9, 4, 1, 60, [b"c", b"L"])), state(0, 3, 1, 400), "not enough");
    assert_eq!(ask(insert(9, 6, 1, 60, [b"c", b"L"])), state(0, 3, 1, 400), "never enough");
    assert_eq!(ask(insert(9, 5, 7, 60, [b"", b"L"])), state(1, 0, 2, 1), "everybody");
    assert_eq!(ask(short(2, [b"*", b"L"])), state(1, 0, 1, 1000), "everybody");
    assert_eq!(ask(short(2, [b"d", b"L"])), state(1, 5, 1, 0));
    assert_eq!(ask(short(4, [b"d", b"L"])), [0]);
    assert_eq!(ask(short(4, [b"c", b"L"])), [1]);
    assert_eq!(ask(short(2, [b"c", b"L"])), state(1, 5, 1, 0));
    for stranger in [&b"x"[..], b"", b"\xff"] {
        assert_eq!(ask(insert(9, 1, 2, 60, [stranger, b"I"])), state(0, 0, 2, 0));
        assert_eq!(ask(short(2, [stranger, b"I"])), state(0, 0, 1, 0));
        assert_eq!(ask(short(4, [stranger, b"I"])), [0]);
    }
    assert_eq!(ask(insert(9, 1, 2, 60, [b"10.0.0.1", b"I"])), state(1, 4, 2, 0));
    assert_eq!(ask(insert(9, 1, 2, 60, [b"c", b"elsewhere"])), state(1, 8, 2, 59));
    assert_eq!(ask(insert(9, 1, 2, 60, [b"c", b"\xff"])), state(1, 8, 2, 59));
}

#[test]
fn the_largest_ids_are_two_ids() {
    let door = door("", Options::default());
    let mut connection = Connection::new(&door);
    let (a, b) = ([b'a'; 255], [b'b'; 255]);
    let request = insert(2, 1, 2, 60, [&a, &b]);
    for byte in &request[..request.len() - 1] {
        assert_eq!(connection.send(&[*byte]), b"");
    }
    assert_eq!(connection.send(&request[request.len() - 1..]), state(1, 1, 2, 59));
    assert_eq!(connection.send(&short(2, [&b, &a])), state(0, 0, 1, 0));
}

#[test]
fn a_page_in_a_browser_changes_nothing() {
    let door = door("", Options::default());
    let ids = [&b"c"[..], b"r"];
    Connection::new(&door).send(&insert(9, 1, 2, 60, ids));
    for begin in [
        &b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:9000\r\n\r\n"[..],
        b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:9000\r\n\r\n",
        b"brew /pot?%04 HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    ] {
        let page = [begin, &short(4, ids)].concat();
        for cut in 0..begin.len() {
            for step in [1, page.len()] {
                let mut connection = Connection::new(&door);
                let reads = [&page[..cut]].into_iter().chain(page[cut..].chunks(step));
                for read in reads {
                    if !connection.is_closed {
                        connection.send(read);
                    }
                }
                assert!(connection.is_closed, "cut at {cut}: {}", page.escape_ascii());
                assert_eq!(connection.counts.requests, 0, "{}", page.escape_ascii());
            }
        }
    }
    assert_eq!(Connection::new(&door).send(&short(2, ids)), state(1, 8, 2, 59));
}

#[test]
fn junk_that_only_begins_like_a_browser_does_not_close() {
    let door = door("", Options::default());
    let mut connection = Connection::new(&door);
    for junk in [&b"P"[..], b"OST", b" ", b"GET /", b"\x16", b"\xff\x01\x02"] {
        assert_eq!(connection.send(junk), [0], "{}", junk.escape_ascii());
        assert_eq!(connection.send(&short(4, [b"", b""])), [0]);
    }
    let counts = Counts { requests: 6, malformed: 6, ..Counts::default() };
    assert_eq!(connection.counts, counts);
}
