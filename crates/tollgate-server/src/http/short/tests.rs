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
