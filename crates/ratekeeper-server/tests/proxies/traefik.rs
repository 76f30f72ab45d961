//! Traefik, by `forwardAuth`. No package of it is at hand, so its part is played here: its files
//! are read, and what it is documented to send for a request is sent to the address in them.

use std::net::SocketAddr;

use ratekeeper::limits::document::{Entry, Node, Pair, Report, Value, read};
use ratekeeper::limits::{Faults, Source};
use serde_json::{Map, Value as Json, json};

use crate::stage::{BURST, EMISSION, LIMIT, POLICY, Stage};
use crate::visitor::{Answer, send};

const STATIC: &str = include_str!("../../../../examples/proxies/traefik.yaml");
const DYNAMIC: &str = include_str!("../../../../examples/proxies/traefik-dynamic.yaml");

#[test]
fn the_files_of_traefik_fit_together() {
    let (fixed, dynamic) = (yaml(STATIC), yaml(DYNAMIC));
    let file = fixed["providers"]["file"]["filename"].as_str().unwrap();
    assert_eq!(file, "examples/proxies/traefik-dynamic.yaml");
    let router = &dynamic["http"]["routers"]["app"];
    assert!(fixed["entryPoints"][router["entryPoints"][0].as_str().unwrap()].is_object());
    assert!(dynamic["http"]["services"][router["service"].as_str().unwrap()].is_object());
    let auth = &dynamic["http"]["middlewares"][router["middlewares"][0].as_str().unwrap()];
    assert_eq!(auth["forwardAuth"]["trustForwardHeader"], json!("false"));
}

#[test]
fn what_traefik_sends_passes_the_gate_as_often_as_it_may() {
    let stage = Stage::with(|settings| {
        settings.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    });
    for _ in 0..BURST {
        let answer = traefik_asks(&stage, "192.0.2.7");
        assert_eq!((answer.status, answer.field("RateLimit-Policy")), (204, Some(POLICY)));
    }
    let answer = traefik_asks(&stage, "192.0.2.7");
    assert_eq!((answer.status, answer.field("Retry-After")), (429, Some("1")));
    assert_eq!(answer.field("Content-Type"), Some("application/problem+json"));
    assert!(answer.body.contains(LIMIT), "{answer:?}");
    assert_eq!(traefik_asks(&stage, "2001:db8::1").status, 204, "another client");
    stage.time.pass(EMISSION);
    assert_eq!(traefik_asks(&stage, "192.0.2.7").status, 204);
}

#[test]
fn a_traefik_that_is_not_trusted_has_one_bucket_for_all_its_clients() {
    let stage = Stage::new();
    for client in 0..BURST {
        assert_eq!(traefik_asks(&stage, &format!("192.0.2.{client}")).status, 204);
    }
    assert_eq!(traefik_asks(&stage, "192.0.2.200").status, 429);
}

/// Sends what `forwardAuth` does: a GET without a body, the header fields that the example lets
/// pass, and those that tell of the request.
fn traefik_asks(stage: &Stage, client: &str) -> Answer {
    let dynamic = yaml(&stage.example(DYNAMIC, &[]));
    let auth = &dynamic["http"]["middlewares"]["limited"]["forwardAuth"];
    let address = auth["address"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (host, path) = address.split_at(address.find('/').unwrap());
    let at: SocketAddr = host.parse().unwrap();
    assert_eq!(auth["authRequestHeaders"], json!(["Accept"]));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Go-http-client/1.1\r\nAccept: */*\r\n\
         X-Forwarded-For: {client}\r\nX-Forwarded-Host: example.org\r\nX-Forwarded-Method: POST\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Uri: /a?b=c\r\nAccept-Encoding: gzip\r\n\
         Connection: close\r\n\r\n"
    );
    send(1, at, &request)
}

/// The text as a tree; every scalar is a text.
fn yaml(text: &str) -> Json {
    let mut root = Map::new();
    let mut report = Report::new(&Source { name: "traefik", text });
    read(text, &mut report, |entry, _| match entry {
        Entry::Pair(pair) => insert(&mut root, pair),
        other => panic!("{other:?}"),
    });
    Faults::check([report].into_iter()).unwrap();
    Json::Object(root)
}

fn insert(to: &mut Map<String, Json>, Pair { key, value }: &Pair<'_>) {
    to.insert(key.text.to_string(), tree(value));
}

fn tree(node: &Node<'_>) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar { text, .. } => json!(text),
        Value::List(nodes) => nodes.iter().map(tree).collect(),
        Value::Mapping(pairs) => {
            let mut map = Map::new();
            for pair in pairs {
                insert(&mut map, pair);
            }
            Json::Object(map)
        }
        Value::Refused => panic!("{:?} is refused", node.span),
    }
}
