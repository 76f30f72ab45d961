//! What holds for every wire: cutting what is received anywhere changes nothing, and junk is
//! waited for or refused.

use ratekeeper_client::throttr::{ThrottrRequest, ThrottrUnit};

use super::bucket::BucketWire;
use super::echo::EchoWire;
use super::http::{HttpWire, Spend};
use super::resp::RespWire;
use super::template::Template;
use super::throttr::ThrottrWire;
use super::udp::UdpWire;
use super::*;
use crate::load::input::Input;
use crate::load::random::Random;

/// An answer that outlives the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Allowed,
    Denied,
    Error(String),
}

impl From<Answer<'_>> for Said {
    fn from(answer: Answer<'_>) -> Self {
        match answer {
            Answer::Allowed => Self::Allowed,
            Answer::Denied => Self::Denied,
            Answer::Error(words) => Self::Error(String::from_utf8_lossy(words).into_owned()),
        }
    }
}

fn error(words: &str) -> Said {
    Said::Error(words.into())
}

fn keys() -> Template {
    Template::new(1_000)
}

fn throttr() -> ThrottrWire {
    let insert = ThrottrRequest::Insert { quota: 5, usage: 2, unit: ThrottrUnit::Seconds, ttl: 60 };
    ThrottrWire::new(keys(), &insert, "c{key}", "/r").unwrap()
}

fn http() -> HttpWire {
    let spend = Spend { host: "h:1", limit: "L\"", id: "i{key}", cost: 3, token: Some("t") };
    HttpWire::new(keys(), &spend)
}

fn resp() -> RespWire {
    let words = ["CL.THROTTLE", "k{key}", "9"].map(str::to_owned);
    RespWire::new(keys(), &words, Some(1))
}

fn asked(wire: &dyn Wire) -> String {
    let mut out = Vec::new();
    wire.ask(42, &mut out);
    out.escape_ascii().to_string()
}

#[test]
fn requests_are_what_the_servers_expect() {
    let bucket = BucketWire::new(keys(), "a:{key}", None);
    assert_eq!(asked(&bucket), r"get a:042\r\n");
    assert_eq!(asked(&BucketWire::new(keys(), "a", Some(7))), r"get a 7\r\n");
    let number = |number: &str| number.to_owned() + &r"\x00".repeat(7);
    let head = [r"\x01", &number(r"\x05"), &number(r"\x02"), r"\x02", &number("<")].concat();
    assert_eq!(asked(&throttr()), head + r"\x04\x02c042/r");
    let mut out = Vec::new();
    http().ask(42, &mut out);
    let head = "POST /v1/spend HTTP/1.1\r\nhost: h:1\r\nauthorization: Bearer t\r\n\
                content-type: application/json\r\ncontent-length: 36\r\n\r\n";
    let body = r#"{"limit":"L\"","id":"i042","cost":3}"#;
    assert_eq!(String::from_utf8(out).unwrap(), [head, body].concat());
    let words = r"*3\r\n$11\r\nCL.THROTTLE\r\n$4\r\nk042\r\n$1\r\n9\r\n";
    assert_eq!(asked(&resp()), words);
    let mut out = Vec::new();
    UdpWire::new(keys(), "ws {key}").ask(7, 42, &mut out);
    assert_eq!(out, b"000000000007 over_limit ws 042");
}

#[test]
fn an_id_that_is_too_long_for_throttr_is_refused() {
    let insert = ThrottrRequest::Insert { quota: 5, usage: 2, unit: ThrottrUnit::Seconds, ttl: 60 };
    assert!(ThrottrWire::new(keys(), &insert, &"a".repeat(256), "").is_err());
    // With three digits for five letters it is one byte too long, and then just short enough.
    let text = format!("{}{{key}}", "a".repeat(253));
    assert!(ThrottrWire::new(keys(), &insert, &text, "").is_err());
    assert!(ThrottrWire::new(keys(), &insert, &text[1..], "").is_ok());
}

#[test]
fn a_datagram_says_which_request_it_answers() {
    let wire = UdpWire::new(keys(), "ws {key}");
    let answer = |datagram: &'static [u8]| wire.answer(datagram);
    assert_eq!(answer(b"000000000007 ok N 0.0 1.0 1"), Some((7, Answer::Allowed)));
    assert_eq!(answer(b"000000000008 ok Y 9.0 1.0 1"), Some((8, Answer::Denied)));
    assert_eq!(answer(b"000000000009 pong"), Some((9, Answer::Error(b"pong"))));
    for strange in [&b""[..], b"7 ok N 0.0 1.0 1", b"000000000007", b"00000000000x ok N 0"] {
        assert_eq!(answer(strange), None);
    }
}

#[test]
fn an_echo_of_a_datagram_is_the_datagram() {
    let wire = UdpWire::echo(keys(), 16);
    let mut out = Vec::new();
    wire.ask(7, 42, &mut out);
    assert_eq!(out, b"000000000007....");
    assert_eq!(wire.answer(&out), Some((7, Answer::Allowed)));
    assert_eq!(wire.answer(&out[..15]), Some((7, Answer::Error(&out[..15]))));
    let other = b"000000000007...x";
    assert_eq!(wire.answer(other), Some((7, Answer::Error(other))));
    assert_eq!(wire.answer(b"pong"), None);
}

#[test]
fn an_echo_has_as_many_bytes_as_were_agreed_whatever_they_are() {
    assert_eq!(asked(&EchoWire::new(keys(), 4, 2)), r"...\n");
    assert_eq!(asked(&EchoWire::new(keys(), 1, 2)), r"\n");
    let mut random = Random::new(7);
    let mut number = |max: u64| usize::try_from(1 + random.below(max)).unwrap();
    for _ in 0..1_000 {
        let (bytes, count) = (number(40), number(20));
        let wire = EchoWire::new(keys(), 40, bytes);
        let (mut waiting, mut left, mut answers) = (Vec::new(), bytes * count, 0);
        while left > 0 {
            let read = number(60).min(left);
            left -= read;
            waiting.extend(std::iter::repeat_n(b'x', read));
            while let Some((answer, length)) = wire.answer(&waiting).unwrap() {
                assert_eq!((answer, length), (Answer::Allowed, bytes));
                waiting.drain(..length);
                answers += 1;
            }
        }
        assert_eq!((answers, waiting.len()), (count, 0));
    }
}

/// A wire, and answers it may receive with what they say.
type Transcript = (&'static str, Box<dyn Wire>, Vec<(Vec<u8>, Said)>);

fn transcripts() -> Vec<Transcript> {
    let bucket = [
        ("1\n", Said::Allowed),
        ("0\r\n", Said::Denied),
        ("BUCKET NOT FOUND\n", error("BUCKET NOT FOUND")),
    ];
    let state = |can: u8| [&[can][..], &[4; 8], &[2], &[9; 8]].concat();
    let throttr_says = vec![(state(1), Said::Allowed), (state(0), Said::Denied)];
    let http_says = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 16\r\nx: y\r\n\r\n{\"allowed\":true}", Said::Allowed),
        ("HTTP/1.1 200 OK\r\ncontent-length:17\r\n\r\n{\"allowed\":false}", Said::Denied),
        ("HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", Said::Denied),
        ("HTTP/1.1 404 No\r\ncontent-length: 4\r\n\r\nnone", error("none")),
        ("HTTP/1.1 204 No Content\r\n\r\n", error("HTTP/1.1 204 No Content")),
    ];
    let resp_says = [
        ("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", Said::Allowed),
        ("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", Said::Denied),
        (":1\r\n", Said::Denied),
        (":10\r\n", Said::Allowed),
        ("+OK\r\n", Said::Allowed),
        ("$-1\r\n", Said::Allowed),
        ("$7\r\na\r\nb\r\nc\r\n", Said::Allowed),
        ("$0\r\n\r\n", Said::Allowed),
        ("*-1\r\n", Said::Allowed),
        ("*0\r\n", Said::Allowed),
        ("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", Said::Denied),
        ("-ERR unknown command 'x'\r\n", error("ERR unknown command 'x'")),
        ("*1\r\n-ERR inside\r\n", error("ERR inside")),
        // Version 3.
        ("_\r\n", Said::Allowed),
        ("#t\r\n", Said::Denied),
        ("#f\r\n", Said::Allowed),
        (",1.5\r\n", Said::Allowed),
        ("(123456789012345678901234567890\r\n", Said::Allowed),
        ("=7\r\ntxt:abc\r\n", Said::Allowed),
        ("!7\r\nERR why\r\n", error("ERR why")),
        ("~2\r\n:1\r\n:2\r\n", Said::Denied),
        ("%2\r\n+a\r\n:1\r\n+b\r\n*0\r\n", Said::Allowed),
    ];
    let bytes = |says: &[(&str, Said)]| -> Vec<(Vec<u8>, Said)> {
        says.iter().map(|(text, said)| (text.as_bytes().to_vec(), said.clone())).collect()
    };
    vec![
        ("bucket", Box::new(BucketWire::new(keys(), "a", None)), bytes(&bucket)),
        ("throttr", Box::new(throttr()), throttr_says),
        ("http", Box::new(http()), bytes(&http_says)),
        ("resp", Box::new(resp()), bytes(&resp_says)),
    ]
}

/// What is read if `stream` comes in pieces of these lengths.
fn read(wire: &dyn Wire, stream: &[u8], mut length: impl FnMut() -> usize) -> Vec<Said> {
    let (mut input, mut said, mut rest) = (Input::default(), Vec::new(), stream);
    while !rest.is_empty() {
        let room = input.room().unwrap();
        let (piece, behind) = rest.split_at(length().clamp(1, rest.len()).min(room.len()));
        room[..piece.len()].copy_from_slice(piece);
        input.grow(piece.len());
        while let Some((answer, length)) = wire.answer(input.bytes()).unwrap() {
            said.push(answer.into());
            input.skip(length);
        }
        rest = behind;
    }
    assert!(input.bytes().is_empty(), "nothing is left over");
    said
}

#[test]
fn every_way_to_cut_the_answers_gives_the_same_answers() {
    for (name, wire, answers) in transcripts() {
        let mut random = Random::new(3);
        for round in 0..500 {
            let pick = |_| usize::try_from(random.below(answers.len() as u64)).unwrap();
            let picked: Vec<_> = (0..20).map(pick).map(|index| &answers[index]).collect();
            let stream: Vec<u8> = picked.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let expected: Vec<Said> = picked.into_iter().map(|(_, said)| said.clone()).collect();
            let most = [1, 2, 7, 64, 1 << 20][round % 5];
            let cut = || usize::try_from(random.below(most)).unwrap() + 1;
            assert_eq!(read(&*wire, &stream, cut), expected, "{name}");
        }
    }
}

#[test]
fn a_part_of_an_answer_is_waited_for() {
    for (name, wire, answers) in transcripts() {
        for (bytes, said) in answers {
            for end in 0..bytes.len() {
                assert_eq!(wire.answer(&bytes[..end]), Ok(None), "{name} {said:?} {end}");
            }
        }
    }
}

#[test]
fn what_no_such_server_says_is_refused() {
    let strange: [(Box<dyn Wire>, &[u8]); 11] = [
        (Box::new(throttr()), &[7; 18]),
        (Box::new(http()), b"SSH-2.0\r\n"),
        (Box::new(http()), b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        (Box::new(http()), b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
        (Box::new(resp()), b"HTTP/1.1 400 Bad ThrottrRequest\r\n"),
        (Box::new(resp()), b"\r\n"),
        (Box::new(resp()), b"$3\r\nabcd\r\n"),
        (Box::new(resp()), b"*99999999\r\n"),
        (Box::new(resp()), b"%9223372036854775807\r\n"),
        (Box::new(resp()), b">1\r\n:1\r\n"),
        (Box::new(resp()), b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"),
    ];
    for (wire, bytes) in strange {
        assert_eq!(wire.answer(bytes), Err(Strange), "{}", bytes.escape_ascii());
    }
}

#[test]
fn junk_is_never_the_end_of_us() {
    let mut random = Random::new(5);
    let letters = b"*$:-+0159\r\n\rHTTP/1.1 200 content-length: {}\x00\x01\xff";
    for (_, wire, _) in transcripts() {
        for _ in 0..20_000 {
            let length = random.below(40);
            let letter = |_| letters[usize::try_from(random.below(letters.len() as u64)).unwrap()];
            let junk: Vec<u8> = (0..length).map(letter).collect();
            if let Ok(Some((_, length))) = wire.answer(&junk) {
                assert!((1..=junk.len()).contains(&length));
            }
        }
    }
}

#[test]
fn keys_in_an_address_count_addresses_up() {
    let spend = Spend { host: "h:1", limit: "L", id: "10.0.0.{key}", cost: 1, token: None };
    let wire = HttpWire::new(keys(), &spend);
    let body = |key| {
        let mut out = Vec::new();
        wire.ask(key, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head} {body}");
        body.to_owned()
    };
    for (key, address) in
        [(0, "10.0.0.0"), (7, "10.0.0.7"), (255, "10.0.0.255"), (300, "10.0.1.44")]
    {
        let expected = format!(r#"{{"limit":"L","id":"{address}","cost":1}}"#);
        assert_eq!(body(key).trim_end(), expected);
    }
    let spend = Spend { id: "x10.0.0.{key}", ..spend };
    let mut out = Vec::new();
    HttpWire::new(keys(), &spend).ask(7, &mut out);
    assert!(String::from_utf8(out).unwrap().contains("x10.0.0.0"), "no address: digits as ever");
}
