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
mod tests;
