use ratekeeper_testkit::random::Random;
use serde_json::Value;

use super::*;
use crate::settings::Settings;

const BODY: &str = r#"{"limit":"LoginsPerUser","id":"ada"}"#;

fn request(line: &str, fields: &str) -> String {
    format!("{line}\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n{BODY}", BODY.len())
}

fn front(bytes: &[u8]) -> &'static str {
    match Front::read(bytes, &Settings::default().http) {
        Front::Plain(plain) => {
            assert_eq!((plain.bytes, plain.body), (bytes.len(), BODY.as_bytes()));
            "plain"
        }
        Front::Begun => "begun",
        Front::Other => "other",
    }
}

#[test]
fn the_beginning_of_a_plain_request_is_waited_for_wherever_it_ends() {
    for fields in ["", "Connection: Keep-Alive\r\nAccept: */*\r\n", "Authorization: Bearer x\r\n"] {
        let whole = request("POST /v1/refund HTTP/1.1", fields);
        for end in 0..whole.len() {
            assert_eq!(front(&whole.as_bytes()[..end]), "begun", "{}", &whole[..end]);
        }
        assert_eq!(front(whole.as_bytes()), "plain");
    }
}

#[test]
fn what_means_more_goes_the_long_way() {
    for line in [
        "GET /v1/spend HTTP/1.1",
        "POST /v1/spend?x=1 HTTP/1.1",
        "POST /v1/spend/ HTTP/1.1",
        "POST /v1/batch HTTP/1.1",
        "POST /v1/spend HTTP/1.0",
        "POST http://localhost/v1/spend HTTP/1.1",
    ] {
        assert_eq!(front(request(line, "").as_bytes()), "other", "{line}");
    }
    for field in [
        "Connection: close",
        "Connection: keep-alive, upgrade",
        "Content-Length: 36",
        "Content-Length: +36",
        "Expect: 100-continue",
        "Host: localhost",
        "Origin: http://localhost",
        "Sec-Fetch-Site: none",
        "TRANSFER-ENCODING: chunked",
        "Upgrade: h2c",
        "no colon",
    ] {
        let request = request("POST /v1/spend HTTP/1.1", &format!("{field}\r\n"));
        assert_eq!(front(request.as_bytes()), "other", "{field}");
    }
    let many = request("POST /v1/spend HTTP/1.1", &"X: y\r\n".repeat(FIELDS_MAX));
    assert_eq!(front(many.as_bytes()), "other");
    let long = "POST /v1/spend HTTP/1.1\r\nContent-Length: 99999\r\n\r\n";
    assert_eq!(front(long.as_bytes()), "other", "it would not fit");
}

#[test]
fn what_hyper_answered_is_known_to_be_plain() {
    let request = |field: &str| {
        let (name, value) = field.split_once(": ").unwrap();
        let request = Request::post("/v1/check").header("content-length", "2").header(name, value);
        request.body(()).unwrap()
    };
    assert!(is_plain(&request("accept: */*")));
    assert!(!is_plain(&request("expect: 100-continue")));
    assert!(!is_plain(&request("origin: http://localhost")));
}

const ASKS: [&str; 4] = [
    r#"{"limit":"LoginsPerUser","id":"ada"}"#,
    "{\"limit\":\"LoginsPerUser\",\"id\":\"gr\u{e4}ce\",\"cost\":12}",
    r#"{"limit": "", "id": "", "cost": 0}"#,
    r#"{"limit":"x","id": "y","cost":123456789012345678}"#,
];

#[test]
fn an_ask_that_is_read_at_a_glance_says_what_all_of_json_says() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut read = 0;
    for _ in 0..200_000 {
        let mut body = random.pick(&ASKS).as_bytes().to_vec();
        for _ in 0..random.index(3) {
            let (place, byte) =
                (random.index(body.len()), random.pick(b"\"\\{}:, 019.e-adi\n\xff"));
            match random.index(3) {
                0 => body[place] = byte,
                1 => body.insert(place, byte),
                _ => drop(body.remove(place)),
            }
        }
        let Some(ask::Ask { limit, id, cost }) = ask::read(&body) else { continue };
        let mut expected = serde_json::json!({"limit": limit, "id": id});
        if let Some(cost) = cost {
            expected["cost"] = cost.into();
        }
        let said: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said, expected, "{}", String::from_utf8_lossy(&body));
        read += 1;
    }
    assert!(read > 50_000, "{read}");
    assert!(ASKS.iter().all(|body| ask::read(body.as_bytes()).is_some()));
}

#[test]
fn what_hardly_anybody_writes_is_not_read_at_a_glance() {
    for body in [
        r#"{"limit":"a","id":"b","cost":1.0}"#,
        r#"{"limit":"a","id":"b","cost":01}"#,
        r#"{"limit":"a","id":"b","cost":-1}"#,
        r#"{"limit":"a","id":"b","cost":}"#,
        r#"{"limit":"a","id":"b","cost":1234567890123456789}"#,
        r#"{"limit":"a","id":"b","cost":1,"cost":1}"#,
        r#"{"limit":"a\u0062","id":"b"}"#,
        r#"{"id":"b","limit":"a"}"#,
        r#"{"limit":"a"}"#,
        r#"{"limit":"a","id":"b"} "#,
        "",
    ] {
        assert_eq!(ask::read(body.as_bytes()), None, "{body}");
    }
}
