//! What requests and replies look like, and what holds for any stream of them.
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratekeeper::Moment;
use ratekeeper_testkit::random::Random;

use super::codec::{Bounds, Fault, Scan, Words, integer, parse};
use super::fuzz::door;
use super::{
    ARGUMENTS_MAX, Gatekeeper, LINE_BYTES_MAX, Pass, REQUEST_BYTES_MAX,
    STRANGER_ARGUMENT_BYTES_MAX, STRANGER_ARGUMENTS_MAX, Session, fuzz_one, reply,
};
use crate::{Counts, StreamDoor};

type Read<'a> = Result<Option<(Vec<&'a [u8]>, usize)>, Fault>;

fn read(bytes: &[u8]) -> Read<'_> {
    read_within(bytes, &Bounds::KNOWN)
}

fn read_within<'a>(bytes: &'a [u8], bounds: &Bounds) -> Read<'a> {
    let mut words = Words::new();
    Ok(parse(bytes, bounds, &mut words)?.map(|used| (words.to_vec(), used)))
}

/// Many words of one length, as an array.
fn array(words: usize, length: usize) -> Vec<u8> {
    let word = [format!("${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat();
    [format!("*{words}\r\n").as_bytes(), &word.repeat(words)].concat()
}

#[test]
fn an_array_of_bulk_strings_is_a_request() {
    let request = b"*2\r\n$4\r\nECHO\r\n$3\r\na\0b\r\nPING";
    let words: Vec<&[u8]> = vec![b"ECHO", b"a\0b"];
    assert_eq!(read(request), Ok(Some((words, request.len() - 4))));
    for end in 0..request.len() - 4 {
        assert_eq!(read(&request[..end]), Ok(None), "{end} bytes of it are none");
    }
    for empty in ["*0\r\n", "*-1\r\n", "*-9\r\n"] {
        assert_eq!(read(empty.as_bytes()), Ok(Some((vec![], empty.len()))));
    }
    assert_eq!(read(b"*1\r\n$0\r\n\r\n"), Ok(Some((vec![&b""[..]], 10))));
}

#[test]
fn a_line_of_words_is_a_request() {
    let cases: [(&[u8], &[&[u8]]); 8] = [
        (b"PING\r\n", &[b"PING"]),
        (b"PING\n", &[b"PING"]),
        (b"  a \t b\r\n", &[b"a", b"b"]),
        (b"ECHO 'a b' \"c'd\" \"\"\n", &[b"ECHO", b"a b", b"c'd", b""]),
        (b"a'b c\"\n", &[b"a'b", b"c\""]),
        (b"\xff\xfe\n", &[b"\xff\xfe"]),
        (b"\r\n", &[]),
        (b"\n", &[]),
    ];
    for (line, words) in cases {
        assert_eq!(read(line), Ok(Some((words.to_vec(), line.len()))), "{}", line.escape_ascii());
        assert_eq!(read(&line[..line.len() - 1]), Ok(None));
    }
    for line in ["'a\n", "\"a'\n", "'a'b\n", "'\n"] {
        assert_eq!(read(line.as_bytes()), Err(Fault::Quotes), "{line}");
    }
}

#[test]
fn what_is_no_request_is_refused_as_soon_as_that_is_known() {
    let cases: [(&[u8], Fault); 12] = [
        (b"*x\r\n", Fault::Count),
        (b"*\r\n", Fault::Count),
        (b"*1\n", Fault::Count),
        (b"*+1\r\n", Fault::Count),
        (b"*99999999999999999999\r\n", Fault::Count),
        (b"*00000000000000000000000000000001", Fault::Count),
        (b"*1\r\n:", Fault::Sign(b':')),
        (b"*1\r\n$-1\r\n", Fault::Length),
        (b"*1\r\n$x\r\n", Fault::Length),
        (b"*1\r\n$1048577\r\n", Fault::Length),
        (b"*1\r\n$1\r\nabc", Fault::End),
        (b"*1\r\n$1\r\na\n\n", Fault::End),
    ];
    for (bytes, fault) in cases {
        assert_eq!(read(bytes), Err(fault), "{}", bytes.escape_ascii());
        let (mut head, mut rest) = (vec![bytes[0]], &bytes[1..]);
        let filled = Scan::default().fill(&mut head, &mut rest, &Bounds::KNOWN);
        assert_eq!(filled, Err(fault), "{} in pieces", bytes.escape_ascii());
    }
}

#[test]
fn a_request_is_so_large_and_no_larger() {
    let known = |bytes: &[u8]| read_within(bytes, &Bounds::KNOWN).map(|it| it.is_some());
    let stranger = |bytes: &[u8]| read_within(bytes, &Bounds::STRANGER).map(|it| it.is_some());
    assert_eq!(known(&array(ARGUMENTS_MAX, 1)), Ok(true));
    assert_eq!(known(&array(ARGUMENTS_MAX + 1, 1)), Err(Fault::Count));
    let around = b"*1\r\n$1048559\r\n\r\n".len();
    assert_eq!(known(&array(1, REQUEST_BYTES_MAX - around)), Ok(true));
    assert_eq!(known(&array(1, REQUEST_BYTES_MAX - around + 1)), Err(Fault::Length));
    assert_eq!(known(&array(2, REQUEST_BYTES_MAX / 2)), Err(Fault::Length));
    let line = |length| [&vec![b'x'; length][..], b"\n"].concat();
    assert_eq!(known(&line(LINE_BYTES_MAX)), Ok(true));
    assert_eq!(known(&line(LINE_BYTES_MAX + 1)), Err(Fault::Line));
    assert_eq!(known(&vec![b'x'; LINE_BYTES_MAX]), Ok(false));
    assert_eq!(known(&vec![b'x'; LINE_BYTES_MAX + 1]), Err(Fault::Line));
    assert_eq!(known(&[&b"x ".repeat(ARGUMENTS_MAX)[..], b"\n"].concat()), Ok(true));
    assert_eq!(known(&[&b"x ".repeat(ARGUMENTS_MAX + 1)[..], b"\n"].concat()), Err(Fault::Count));

    let (words, bytes) = (STRANGER_ARGUMENTS_MAX, STRANGER_ARGUMENT_BYTES_MAX);
    assert_eq!(stranger(&array(words, bytes)), Ok(true));
    assert_eq!(stranger(&array(words + 1, 1)), Err(Fault::StrangerCount));
    assert_eq!(stranger(&array(1, bytes + 1)), Err(Fault::StrangerLength));
    assert_eq!(stranger(&line(bytes + 1)), Err(Fault::Line));
}

#[test]
fn a_request_in_pieces_is_taken_to_its_end_and_no_further() {
    let requests = [
        &b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$12\r\nabcdefghijkl\r\n"[..],
        b"*0\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING a b\r\n",
        b"\n",
    ];
    for request in requests {
        let stream = [request, b"*1\r\n$4\r\nQUIT\r\n"].concat();
        for begun in 1..request.len() {
            for piece in 1..stream.len() {
                let mut scan = Scan::default();
                let mut head = stream[..begun].to_vec();
                let mut behind = &stream[begun..];
                loop {
                    let (mut rest, later) = behind.split_at(piece.min(behind.len()));
                    behind = later;
                    let is_whole = scan.fill(&mut head, &mut rest, &Bounds::KNOWN).unwrap();
                    if is_whole {
                        assert_eq!(head, request, "{begun} and pieces of {piece}");
                        assert_eq!(head.len() + rest.len() + behind.len(), stream.len());
                        break;
                    }
                    assert!(rest.is_empty(), "a part leaves nothing behind");
                }
            }
        }
    }
}

#[test]
fn integers_are_read_and_written() {
    for (text, number) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("007", Some(7)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("", None),
        ("-", None),
        ("+1", None),
        ("1.0", None),
        (" 1", None),
    ] {
        assert_eq!(integer(text.as_bytes()), number, "{text}");
    }
    let mut random = Random::new(5);
    let powers = (0..19).flat_map(|power| [10_i64.pow(power), 10_i64.pow(power) - 1]);
    let others = [i64::MIN, i64::MAX, -1, -9, -10].into_iter();
    let random = (0..1_000).map(|_| random.bits().cast_signed() >> random.below(64));
    for number in powers.chain(others).chain(random) {
        let mut out = Vec::new();
        reply::integer(number, &mut out);
        assert_eq!(String::from_utf8(out), Ok(format!(":{number}\r\n")));
    }
}

/// Pieces of requests, right and wrong, that make up most of what is tried.
const PIECES: [&[u8]; 53] = [
    b"MULTI\n",
    b"*1\r\n$4\r\nEXEC\r\n",
    b"EXEC\n",
    b"discard\n",
    b"WATCH a\n",
    b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\n3\r\n$2\r\n60\r\n",
    b"*6\r\n$11\r\ncl.throttle\r\n$1\r\n\xff\r\n$1\r\n2\r\n$1\r\n3\r\n$2\r\n60\r\n$2\r\n-1\r\n",
    b"CL.THROTTLE a 5 3 60 2\n",
    b"CL.THROTTLE hex:ff 2 3 60 1\n",
    b"CL.THROTTLE a -1 3 60\n",
    b"CL.THROTTLE a 1 0 60\n",
    b"CL.RESET a\n",
    b"CL.RESET \xff\n",
    b"*3\r\n$8\r\nTHROTTLE\r\n$1\r\nL\r\n$1\r\na\r\n",
    b"*4\r\n$8\r\nthrottle\r\n$1\r\nL\r\n$1\r\nb\r\n$1\r\n2\r\n",
    b"*4\r\n$8\r\nTHROTTLE\r\n$1\r\nI\r\n$7\r\n1.2.3.4\r\n$2\r\n-1\r\n",
    b"*3\r\n$14\r\nTHROTTLE.RESET\r\n$1\r\nL\r\n$1\r\na\r\n",
    b"*7\r\n$20\r\nTHROTTLE.TRANSACTION\r\n$1\r\nL\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nL\r\n$1\r\nb\r\n$1\r\n1\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$20\r\nabcdefghijklmnopqrst\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*2\r\n$4\r\nAUTH\r\n$1\r\nd\r\n",
    b"AUTH x r\r\n",
    b"AUTH nobody\n",
    b"HELLO\n",
    b"HELLO 2\r\n",
    b"HELLO 3 AUTH x d SETNAME y\r\n",
    b"HELLO 4\n",
    b"RESET\n",
    b"THROTTLE L a\r\n",
    b"THROTTLE L a 3\r\n",
    b"THROTTLE L a 0\n",
    b"THROTTLE N a\n",
    b"THROTTLE I x\n",
    b"THROTTLE L \xff\n",
    b"THROTTLE L a x\n",
    b"THROTTLE.TRANSACTION L a 1\n",
    b"THROTTLE.TRANSACTION L a\n",
    b"THROTTLE.TRANSACTION L a 1 L b\n",
    b"THROTTLE.RESET N a\n",
    b"COMMAND\r\n",
    b"COMMAND DOCS\n",
    b"INFO\r\n",
    b"CLIENT ID\n",
    b"CLIENT GETNAME\n",
    b"CONFIG GET *\n",
    b"GET x\n",
    b"\r\n",
    b"QUIT\n",
    b"Host: x\n",
    b"*1\r\n$",
    b"'",
];

/// From here on they close the connection.
const ENDS: usize = 49;

fn stream(random: &mut Random, pieces: usize) -> Vec<u8> {
    let mut stream = vec![random.pick(&[0, 1])];
    if stream == [1] && random.chance(3, 4) {
        stream.extend_from_slice(b"AUTH d\n");
    }
    for _ in 0..pieces {
        // What closes the connection should not do so at once every time.
        let pieces = if random.chance(1, 100) { &PIECES } else { &PIECES[..ENDS] };
        stream.extend_from_slice(pieces[random.index(pieces.len())]);
    }
    stream
}

#[test]
fn cutting_a_stream_anywhere_changes_no_reply() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let pieces = 1 + random.index(300);
        fuzz_one(&stream(&mut random, pieces));
    }
}

/// Clients ask the same for many ids in a row, and such asks are not read word by word.
fn runs_of_asks(random: &mut Random) -> Vec<Vec<u8>> {
    const ASKS: [&[&[u8]]; 8] = [
        &[b"THROTTLE", b"L", b"?"],
        &[b"throttle", b"L", b"?", b"2"],
        &[b"THROTTLE", b"L", b"?", b"-1"],
        &[b"THROTTLE", b"I", b"?"],
        &[b"THROTTLE", b"N", b"?"],
        &[b"CL.THROTTLE", b"?", b"2", b"3", b"60"],
        &[b"CL.THROTTLE", b"?", b"2", b"3", b"60", b"9"],
        &[b"CL.RESET", b"?"],
    ];
    let long = [b'x'; 100];
    let ids: [&[u8]; 9] =
        [b"", b"a", b"b", b"10.0.0.1", b"hex:ff", b"\xff", b"\xd0\xa0", &long[..99], &long];
    let mut requests = Vec::new();
    for _ in 0..random.index(20) {
        let ask = random.pick(&ASKS);
        for _ in 0..random.index(10) {
            let id = random.pick(&ids);
            let mut request = format!("*{}\r\n", ask.len()).into_bytes();
            for word in ask {
                let word = if *word == b"?" { id } else { *word };
                request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                request.extend_from_slice(&[word, b"\r\n"].concat());
            }
            requests.push(request);
        }
    }
    requests
}

#[test]
fn cutting_runs_of_asks_that_are_alike_changes_no_reply() {
    let mut random = Random::new(4);
    for _ in 0..2_000 {
        let stream = [vec![0], runs_of_asks(&mut random).concat()].concat();
        fuzz_one(&stream);
    }
}

#[test]
fn what_a_connection_asked_before_changes_no_reply() {
    let mut random = Random::new(6);
    for _ in 0..500 {
        let (old, new) = (door(false), door(false));
        let (mut session, mut counts) = (Session::default(), [Counts::default(); 2]);
        for request in runs_of_asks(&mut random) {
            let [mut replies, mut expected] = [Vec::new(), Vec::new()];
            let [seen, first_seen] = &mut counts;
            old.receive(&mut session, &request, Moment::EPOCH, &mut replies, seen);
            let stranger = &mut Session::default();
            new.receive(stranger, &request, Moment::EPOCH, &mut expected, first_seen);
            assert_eq!(replies, expected, "{:?}", String::from_utf8_lossy(&request));
        }
        assert_eq!(counts[0], counts[1]);
    }
}

/// Knows every token, which may decide until it may no longer.
#[derive(Default)]
struct Fading(AtomicBool);

impl Gatekeeper for Fading {
    fn admit(&self, _: &[u8]) -> Option<Pass> {
        let may_decide = !self.0.load(Ordering::Relaxed);
        Some(Pass { may_decide, mark: [0; 32], as_of: 0 })
    }

    fn renew(&self, _: Pass) -> Option<Pass> {
        self.admit(b"")
    }
}

#[test]
fn asking_again_needs_a_token_that_is_still_good() {
    let keeper = Arc::new(Fading::default());
    let door = door(false).with_keeper(keeper.clone());
    let (mut session, mut counts) = (Session::default(), Counts::default());
    let mut say = |stream: &[u8]| {
        let mut replies = Vec::new();
        door.receive(&mut session, stream, Moment::EPOCH, &mut replies, &mut counts);
        String::from_utf8_lossy(&replies).into_owned()
    };
    let ask = b"*3\r\n$8\r\nTHROTTLE\r\n$1\r\nL\r\n$1\r\na\r\n";
    assert!(say(ask).starts_with("-NOAUTH "));
    assert_eq!(say(b"AUTH x\n"), "+OK\r\n");
    assert!(say(ask).starts_with("*5\r\n:0\r\n"));
    assert!(say(ask).starts_with("*5\r\n:0\r\n"));
    keeper.0.store(true, Ordering::Relaxed);
    assert!(say(&ask.repeat(2)).starts_with("-NOPERM "));
}

/// Ten million bytes: most are right, and some are not.
#[test]
fn ten_million_mutated_bytes_do_no_harm() {
    let mut random = Random::new(2);
    let mut tried = 0;
    while tried < 10_000_000 {
        let mut stream = stream(&mut random, 200);
        for _ in 0..random.below(4) {
            let at = random.index(stream.len());
            stream[at] = u8::try_from(random.below(256)).unwrap();
        }
        tried += stream.len();
        fuzz_one(&stream);
    }
}

#[test]
fn ten_million_random_bytes_do_no_harm() {
    let mut random = Random::new(3);
    let signs = b"*$\r\n\n\n0123 \"'";
    for _ in 0..10_000_000 / 1_000 {
        let common = random.chance(3, 4);
        let mut byte = || match random.below(256) {
            // A stream of random bytes has few requests that do not end it.
            bits if common && bits < 200 => signs[random.index(signs.len())],
            bits => u8::try_from(bits).unwrap(),
        };
        let stream: Vec<u8> = (0..1_000).map(|_| byte()).collect();
        fuzz_one(&stream);
    }
}
