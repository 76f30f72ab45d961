//! One entry as a line of JSON.

use std::borrow::Cow;

use ratekeeper_redis::{Entry, Kind, NotAValue, Value};
use serde::{Deserialize, Serialize};

/// `{"kind":"bucket","bucket":"6:ada","value":"1763273645123456 300000 100000/1 20"}`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default)]
    kind: LineKind,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    bucket: Option<Cow<'a, str>>,
    /// In place of `bucket`, where that is not text: two digits for each byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket_hex: Option<String>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LineKind {
    #[default]
    Bucket,
    Average,
    Quota,
}

/// Why a line is not an entry.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum BadLine {
    #[error(
        "expected a JSON object such as \
         {{\"bucket\":\"6:ada\",\"value\":\"1763273645123456 300000 100000/1 20\"}}: {0}"
    )]
    Json(#[from] serde_json::Error),
    #[error(
        "expected the name of a bucket: either `bucket`, or `bucket_hex` with two digits per byte"
    )]
    Name,
    #[error("`value` is not that of {kind}: {source}")]
    Value { kind: &'static str, source: NotAValue },
}

/// The line of an entry, without what ends it.
pub fn to_line(entry: &Entry) -> String {
    let (bucket, bucket_hex) = match std::str::from_utf8(&entry.name) {
        Ok(name) => (Some(Cow::Borrowed(name)), None),
        Err(_) => (None, Some(to_hex(&entry.name))),
    };
    let kind = match entry.value.kind() {
        Kind::Bucket => LineKind::Bucket,
        Kind::Average => LineKind::Average,
        Kind::Quota => LineKind::Quota,
    };
    let line = Line { kind, bucket, bucket_hex, value: entry.value.to_string().into() };
    // Texts and names of fields only: there is nothing that JSON cannot say.
    serde_json::to_string(&line).unwrap_or_default()
}

/// The entry that a line says.
pub fn from_line(line: &[u8]) -> Result<Entry, BadLine> {
    let line: Line<'_> = serde_json::from_slice(line)?;
    let name = match (line.bucket, line.bucket_hex) {
        (Some(name), None) => name.into_owned().into_bytes(),
        (None, Some(hex)) => from_hex(&hex).ok_or(BadLine::Name)?,
        _ => return Err(BadLine::Name),
    };
    if name.is_empty() {
        return Err(BadLine::Name);
    }
    let (kind, called) = match line.kind {
        LineKind::Bucket => (Kind::Bucket, "a bucket"),
        LineKind::Average => (Kind::Average, "an average"),
        LineKind::Quota => (Kind::Quota, "a quota"),
    };
    let value =
        Value::read(kind, &line.value).map_err(|source| BadLine::Value { kind: called, source })?;
    Ok(Entry { name, value })
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten().collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let byte = |pair: &[u32]| u8::try_from(pair.iter().fold(0, |sum, digit| sum * 16 + digit)).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_as_it_was_read() {
        for line in [
            r#"{"kind":"bucket","bucket":"6:ada","value":"1763273645123456 300000 100000/1 20"}"#,
            r#"{"kind":"bucket","bucket":"a\"b","value":"1763273645123456 300000 100000/1 20"}"#,
            r#"{"kind":"average","bucket":"ip=1","value":"1763273645123456 3.25 20"}"#,
            r#"{"kind":"quota","bucket_hex":"ff00","value":"9 1763273705.123456000 s"}"#,
        ] {
            assert_eq!(to_line(&from_line(line.as_bytes()).unwrap()), line);
        }
        let short = r#"{"bucket":"6:ada","value":"1763273645123456 300000 100000/1 20"}"#;
        assert!(matches!(from_line(short.as_bytes()).unwrap().value, Value::Bucket(_)));
    }

    #[test]
    fn a_line_that_says_something_else_is_refused_in_words() {
        for (line, expected) in [
            ("", "expected a JSON object such as"),
            ("6:ada", "expected a JSON object such as"),
            (r#"{"bucket":"a"}"#, "missing field `value`"),
            (r#"{"bucket":"a","value":"1 1 1/1 1","ttl":1}"#, "unknown field `ttl`"),
            (r#"{"value":"1 1 1/1 1"}"#, "either `bucket`, or `bucket_hex`"),
            (r#"{"bucket_hex":"f","value":"1 1 1/1 1"}"#, "two digits per byte"),
            (r#"{"bucket":"a","value":"1 2 1/1 1"}"#, "expected `AT DEBT STEP/RATE BURST"),
            (
                r#"{"kind":"quota","bucket":"a","value":"1 2 1/1 1"}"#,
                "`value` is not that of a quota",
            ),
        ] {
            let said = from_line(line.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }
}
