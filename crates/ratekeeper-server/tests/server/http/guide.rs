//! The guide to the HTTP door says what is so: its lines for `curl` are asked, in order.

use std::fmt::Write as _;

use ratekeeper::Moment;
use serde_json::Value;

use super::client::{Answer, Asked};

const GUIDE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md"));
const SERVER: &str = "http://127.0.0.1:8080";
/// 2026-11-16T09:30:00Z, when the guide was written.
const WRITTEN: u64 = 1_794_821_400_000_000_000;

#[test]
fn every_line_for_curl_is_answered_as_the_guide_says() {
    let asked = Asked::starter();
    asked.time.set(Moment::from_nanos(WRITTEN));
    let mut parts = GUIDE.split("```console\n$ curl ");
    let mut right = parts.next().unwrap().to_owned();
    let mut wrong = Vec::new();
    for part in parts {
        let (line, rest) = part.split_once('\n').unwrap();
        let rest = rest.strip_prefix("```\n\n```").unwrap_or_else(|| panic!("after {line}"));
        let (kind, rest) = rest.split_once('\n').unwrap();
        let (told, rest) = rest.split_once("```").unwrap();
        let said = run(&asked, line);
        if !is_same(kind, told, &said) {
            wrong.push(line);
        }
        write!(right, "```console\n$ curl {line}\n```\n\n```{kind}\n{said}\n```{rest}").unwrap();
    }
    let page = concat!(env!("CARGO_TARGET_TMPDIR"), "/http.md");
    std::fs::write(page, right).unwrap();
    assert!(wrong.is_empty(), "answered otherwise, see {page}:\n{}", wrong.join("\n"));
}

fn is_same(kind: &str, told: &str, said: &str) -> bool {
    let json = |text| serde_json::from_str::<Value>(text).ok();
    if kind == "json" { json(told) == json(said) } else { told.trim_end() == said.trim_end() }
}

/// What the arguments of `curl` are answered; with `-D` only the head.
fn run(asked: &Asked, line: &str) -> String {
    let words = words(line);
    let after = |flag: &str| {
        let place = words.iter().position(|word| word == flag);
        place.and_then(|place| words.get(place + 1)).map(String::as_str)
    };
    let body = after("-d");
    let method = after("-X").unwrap_or(if body.is_some() { "POST" } else { "GET" });
    let path = words.last().unwrap().strip_prefix(SERVER).unwrap();
    let answer = asked.send(method, path, body, &[]);
    if after("-D").is_some() { head(&answer) } else { answer.text }
}

/// The words of a line for the shell, which has single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, piece) in line.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// What `curl -D -` shows, without the date.
fn head(answer: &Answer) -> String {
    let mut text = format!("HTTP/1.1 {} OK\n", answer.status);
    for (name, value) in &answer.headers {
        if name != "date" {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    text
}
