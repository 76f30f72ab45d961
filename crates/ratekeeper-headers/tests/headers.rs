//! What responses say about limits, case by case; see `headers/README.md`.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;

use ratekeeper_headers::{self as headers, Said, Scope, Told, Unit, Wait};
use ratekeeper_headers::{Moment, Nanos};

/// 2026-11-16 09:00:00 UTC, an hour before the `Date` of the cases.
const NOW: Moment = Moment::from_nanos(1_794_819_600_000_000_000);

const FILES: [(&str, &str); 7] = [
    ("apis.txt", include_str!("headers/apis.txt")),
    ("discord.txt", include_str!("headers/discord.txt")),
    ("github.txt", include_str!("headers/github.txt")),
    ("hostile.txt", include_str!("headers/hostile.txt")),
    ("ietf.txt", include_str!("headers/ietf.txt")),
    ("models.txt", include_str!("headers/models.txt")),
    ("times.txt", include_str!("headers/times.txt")),
];

#[test]
fn every_dialect_is_read_as_it_is_documented() {
    let (mut cases, mut wrong) = (0, String::new());
    for (file, text) in FILES {
        for case in text.split("\n=== ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (notes, rest) = rest.split_once("--- fields\n").unwrap();
            assert!(notes.lines().all(|line| line.starts_with("# ")), "{file}: {name}");
            let (fields, said) = rest.split_once("--- said\n").unwrap();
            let read = written(&headers::read(parse(fields).iter().map(bytes), NOW));
            if read != said.trim_end() {
                let _ = write!(wrong, "{file}: {name}\nis not:\n{said}but:\n{read}\n\n");
            }
            cases += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(cases, 190);
}

fn parse(fields: &str) -> Vec<(String, String)> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.replace('␉', "\t"))
    };
    fields.lines().map(field).collect()
}

fn bytes((name, value): &(String, String)) -> (&str, &[u8]) {
    (name, value.as_bytes())
}

/// As the cases write it.
fn written(said: &Said<'_>) -> String {
    let mut lines: Vec<_> = said.budgets.iter().map(budget).collect();
    lines.extend(said.retry_after.map(|wait| format!("retry_after={}", seconds(wait))));
    lines.extend(said.bucket.map(|bucket| format!("bucket {bucket:?}")));
    lines.extend(said.resource.map(|resource| format!("resource {resource:?}")));
    lines.extend(said.scope.map(|scope| match scope {
        Scope::User => "scope user".to_owned(),
        Scope::Global => "scope global".to_owned(),
        Scope::Shared => "scope shared".to_owned(),
    }));
    lines.extend(said.global.then(|| "global".to_owned()));
    lines.extend(said.cached.then(|| "cached".to_owned()));
    lines.join("\n")
}

fn budget(told: &Told<'_>) -> String {
    let unit = match told.unit {
        Unit::Requests => "",
        Unit::Tokens => " unit=tokens",
        Unit::InputTokens => " unit=input-tokens",
        Unit::OutputTokens => " unit=output-tokens",
        Unit::Bytes => " unit=bytes",
        Unit::Concurrent => " unit=concurrent",
    };
    let part = |name: &str, value: Option<String>| value.map(|value| format!(" {name}={value}"));
    let parts = [
        part("limit", told.limit.map(|limit| limit.to_string())),
        part("remaining", told.remaining.map(|remaining| remaining.to_string())),
        part(if told.only_more { "more_in" } else { "reset_in" }, told.reset_in.map(seconds)),
        part("window", told.window.map(decimal)),
    ];
    let parts: String = parts.into_iter().flatten().collect();
    format!("budget {:?}{unit}{parts}", told.name)
}

fn seconds(wait: Wait) -> String {
    let said = |secs: f64| {
        if secs < 1e18 { format!("({secs})") } else { format!("({secs:e})") }
    };
    decimal(wait.length) + &wait.truly_secs.map(said).unwrap_or_default()
}

fn decimal(length: Nanos) -> String {
    let (whole, rest) = (length.get() / 1_000_000_000, length.get() % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
