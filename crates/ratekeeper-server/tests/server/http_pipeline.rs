//! What HTTP/1 lets clients do, and what it does not: every request that is whole is answered, in
//! order, and nothing that is sent makes the server fail.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Clock;
use ratekeeper_server::Server;
use ratekeeper_testkit::random::Random;

use crate::support::{Stream, Web, request, settings, start};

const PIPELINED: usize = 1000;
/// The server answers some with each write; were it one by one, there were as many as requests.
const READS_MAX: usize = PIPELINED / 5;
/// How many requests are damaged at random.
const FUZZ_INPUTS: usize = 5_000;
/// The starter limits allow 20 at once.
const GATE: &str = "/v1/gate/RequestsPerIPAddress/10.1.2.3";

fn ask(id: usize) -> String {
    format!(r#"{{"limit":"LoginsPerUser","id":"{id}"}}"#)
}

fn ask_healthy(server: &Server) {
    assert_eq!(Web::connect(server).post("/v1/check", &ask(0)).status, 200);
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order_with_few_writes() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Stream::connect(&server, "http");
    let requests: String =
        (0..PIPELINED).map(|id| request("POST", "/v1/check", "", &ask(id))).collect();
    client.send(requests.as_bytes());
    let (mut answers, mut reads, mut some) = (Vec::new(), 0, vec![0; 1 << 20]);
    let count = |answers: &[u8]| answers.windows(15).filter(|it| it == b"HTTP/1.1 200 OK").count();
    let last = format!(r#""id":"{}""#, PIPELINED - 1);
    while !String::from_utf8_lossy(&answers).contains(&last) {
        let read = client.0.read(&mut some).unwrap();
        assert!(read > 0);
        answers.extend(&some[..read]);
        reads += 1;
    }
    assert_eq!(count(&answers), PIPELINED);
    let text = String::from_utf8(answers).unwrap();
    let mut from = 0;
    for id in 0..PIPELINED {
        from += text[from..].find(&format!(r#""id":"{id}""#)).expect("in order");
    }
    assert!(reads <= READS_MAX, "{reads} reads");
}

#[test]
fn an_answer_does_not_wait_for_the_next_request_to_be_whole() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Web::connect(&server);
    let whole = request("POST", "/v1/check", "", &ask(1));
    // Also what some send behind a body, and nobody reads.
    for (behind, rest) in [("\r\n", ""), (&whole[..10], &whole[10..])] {
        client.stream.send(format!("{whole}{behind}").as_bytes());
        assert_eq!(client.answer().status, 200);
        if !rest.is_empty() {
            client.stream.send(rest.as_bytes());
            assert_eq!(client.answer().status, 200);
        }
    }
}

#[test]
fn who_says_that_nothing_more_will_come_is_still_answered() {
    let server = start(&settings(), Arc::new(Clock::start()));
    for asks in [
        request("GET", GATE, "", ""),
        request("POST", "/v1/check", "", &ask(1)),
        request("POST", "/v1/check", "", &ask(1)).repeat(50),
    ] {
        let mut client = Stream::connect(&server, "http");
        client.send(asks.as_bytes());
        client.0.shutdown(Shutdown::Write).unwrap();
        let answers = String::from_utf8(client.read_to_end()).unwrap();
        let count = answers.matches("HTTP/1.1 20").count();
        assert_eq!(count, asks.matches(" HTTP/1.1\r\n").count(), "{answers}");
    }
}

#[test]
fn whatever_http_1_allows_is_understood() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let gate = |line: &str| format!("{line}\r\n\r\n");
    let once = |text: String| {
        let mut client = Stream::connect(&server, "http");
        client.send(text.as_bytes());
        String::from_utf8(client.read_to_end()).unwrap()
    };
    let old = once(gate(&format!("GET {GATE} HTTP/1.0\r\nHost: localhost")));
    assert!(old.starts_with("HTTP/1.0 204 "), "{old}");
    let last = once(gate(&format!("GET {GATE} HTTP/1.1\r\nHost: localhost\r\nConnection: close")));
    assert!(last.starts_with("HTTP/1.1 204 ") && last.contains("connection: close"), "{last}");

    let mut client = Web::connect(&server);
    let kept = format!("GET {GATE} HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    client.stream.send(kept.as_bytes());
    let page = client.answer();
    assert_eq!((page.status, page.field("connection")), (204, Some("keep-alive")), "{page:?}");
    let absolute = format!("GET http://localhost{GATE} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.stream.send(absolute.as_bytes());
    assert_eq!(client.answer().status, 204);
    assert_eq!(client.ask("HEAD", GATE, "", "").status, 204);
    let page = client.ask("POST", "/v1/check", "Expect: 100-continue\r\n", "");
    assert_eq!(page.status, 400, "no body, so there is nothing to wait for: {page:?}");
    // Whoever waits for it is told to go on, and then answered.
    let body = ask(7);
    let head = format!("Content-Length: {}\r\nExpect: 100-continue", body.len());
    client
        .stream
        .send(gate(&format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{head}")).as_bytes());
    assert_eq!(client.answer().status, 100);
    client.stream.send(body.as_bytes());
    assert_eq!(client.answer().json()["id"], "7");
    let chunked = format!(
        "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    client.stream.send(format!("POST /v1/check HTTP/1.1\r\n{chunked}").as_bytes());
    assert_eq!(client.answer().json()["id"], "7");
}

#[test]
fn a_body_in_tiny_pieces_is_put_together() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let mut client = Web::connect(&server);
    let pieces = ask(7).chars().map(|it| format!("1\r\n{it}\r\n")).collect::<Vec<_>>().concat();
    let head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.stream.send(format!("{head}{pieces}0\r\nTrailer: x\r\n\r\n").as_bytes());
    assert_eq!(client.answer().json()["id"], "7");
}

#[test]
fn whatever_http_1_forbids_is_refused_and_disturbs_nobody() {
    let server = start(&settings(), Arc::new(Clock::start()));
    let post = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n";
    for bad in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "hello\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n: no name\r\n\r\n".to_owned(),
        format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
        format!("{post}Content-Length: -1\r\n\r\n"),
        format!("{post}Content-Length: 99999999999999999999999\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
        format!("{post}Transfer-Encoding: gzip\r\n\r\nx"),
        "PRI * HTTP/2.0\r\n\r\nnonsense".to_owned(),
    ] {
        let mut client = Stream::connect(&server, "http");
        client.send(bad.as_bytes());
        let mut answer = Vec::new();
        // The server may answer, or close, or have closed before all was sent.
        let _ = client.0.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let is_refused = answer.starts_with("HTTP/1.1 4") || !answer.starts_with("HTTP/");
        assert!(is_refused, "{bad:?} was answered {answer:?}");
        ask_healthy(&server);
    }
    let counts = server.stats().doors["http"].counts;
    assert!(counts.malformed >= 10, "{counts:?}");
}

fn mutate(seed: &str, random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 8] = [
        b"\r\n",
        b"\0",
        b"%",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\xff",
        b"9999999999",
        b": ",
    ];
    let mut bytes = seed.as_bytes().to_vec();
    for _ in 0..=random.index(4) {
        let place = random.index(bytes.len());
        match random.index(4) {
            0 if !bytes.is_empty() => bytes[place] = u8::try_from(random.below(256)).unwrap(),
            1 => bytes.truncate(place),
            2 => drop(bytes.splice(place..place, random.pick(&PIECES).iter().copied())),
            _ => {
                let end = (place + random.index(20)).min(bytes.len());
                let part = bytes[place.min(end)..end].to_vec();
                drop(bytes.splice(place..place, part));
            }
        }
    }
    bytes
}

#[test]
fn no_bytes_whatsoever_make_the_server_fail() {
    let mut settings = settings();
    settings.http.header_time = Duration::from_secs(1);
    settings.http.body_time = Duration::from_secs(1);
    let server = start(&settings, Arc::new(Clock::start()));
    let seeds = [
        request("POST", "/v1/spend", "", &ask(1)),
        request(
            "POST",
            "/v1/batch",
            "",
            r#"{"transactions":[{"op":"refund","limit":"LoginsPerUser","id":"a"}]}"#,
        ),
        request(
            "POST",
            "/v1/spend",
            "",
            r#"{"asks":[{"limit":"LoginsPerUser","id":"a","cost":18446744073709551615,"mode":"spend-only"}]}"#,
        ),
        request("GET", &format!("{GATE}?cost=2&denied=403"), "", ""),
        request("GET", "/v1/gate/LoginsPerUser?header=X-Api-Key", "X-Api-Key: ada\r\n", ""),
        request("GET", "/v1/gate/LoginsPerUser/%41%2F?cost=1", "X-Forwarded-For: 1.2.3.4\r\n", ""),
        request(
            "PUT",
            "/v1/overrides/LoginsPerUser/ada",
            "",
            r#"{"burst":1,"count":1,"period":"1h","why":"x"}"#,
        ),
        request("GET", "/v1/limits", "Origin: http://localhost\r\n", ""),
        format!(
            "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n{}",
            request("GET", GATE, "", "")
        ),
    ];
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    for input in 1..=FUZZ_INPUTS {
        let bytes = mutate(&seeds[random.index(seeds.len())], &mut random);
        let mut client = Stream::connect(&server, "http");
        let _ = client.0.write_all(&bytes);
        let _ = client.0.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = client.0.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let shown = || bytes.escape_ascii().to_string();
        assert!(!answer.contains("HTTP/1.1 5"), "{} was answered {answer}", shown());
        if input % 100 == 0 {
            ask_healthy(&server);
        }
    }
    ask_healthy(&server);
    assert!(server.drain(settings.drain).unwrap(), "no worker is lost");
}
