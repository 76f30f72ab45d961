//! The file `overrides.json`: a document that a person can read, one override per line. Its last line
//! has the CRC-32 of all before it, so that no bit can flip without being noticed.

use std::io::{self, Write};
use std::sync::Arc;

use ratekeeper::Moment;
use ratekeeper::algorithm::gcra::RuleError;
use ratekeeper::limits::{DurationError, Limit, parse_duration};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::table::{RunTimeOverride, Table};
use super::{RUN_TIME_OVERRIDES_MAX, Utc};

/// What this program writes, and all that it reads but [`VERSION_WITHOUT_SUM`].
pub(super) const VERSION: u32 = 2;

/// What was written before documents had a sum, and is read all the same.
const VERSION_WITHOUT_SUM: u32 = 1;
/// How such a document begins.
const BEGINNING_WITHOUT_SUM: &[u8] = b"{\"version\": 1,";
/// How the last line begins that has the sum.
const SUM: &str = "\n\"sum\": \"";
/// How it ends.
const END: &str = "\"}\n";

/// Which part of the audit tells of the last change of the document, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Audited {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// What a document says.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) audited: Audited,
    pub(super) table: Table,
    /// Whether it is safe from bits that flip.
    pub(super) has_sum: bool,
}

/// Why a text is not such a document.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("it is not JSON of the shape that was written")]
    Json(#[from] serde_json::Error),
    #[error("it is of version {0}, and this program knows versions up to {VERSION} only")]
    Version(u32),
    #[error("it is not what was written: its sum, the last line, does not fit the rest")]
    Sum,
    #[error("it has {0} overrides, and at most {RUN_TIME_OVERRIDES_MAX} can be")]
    TooMany(usize),
    #[error("the period of override {at} {source}")]
    Period { at: usize, source: DurationError },
    #[error("the terms of override {at} cannot be: {source}")]
    Terms { at: usize, source: RuleError },
}

/// Only enough to see who can read the rest.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
    #[serde(default)]
    sum: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(rename = "version")]
    _version: u32,
    audit: Audited,
    overrides: Vec<Line>,
    #[serde(default, rename = "sum")]
    _sum: Option<IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    limit: Box<str>,
    id: Box<str>,
    burst: u64,
    count: u64,
    /// As limits files write it, which is exact.
    period: String,
    why: Box<str>,
    by: Box<str>,
    at: Utc,
    until: Option<Utc>,
}

/// Writes a document.
pub(super) fn write(to: impl Write, table: &Table, audited: Audited) -> io::Result<()> {
    let mut to = Summing { to, sum: crc32fast::Hasher::new() };
    let audit = serde_json::to_string(&audited)?;
    write!(to, "{{\"version\": {VERSION},\n\"audit\": {audit},\n\"overrides\": [")?;
    for (at, over) in table.iter().enumerate() {
        to.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut to, &Line::from(&**over))?;
    }
    to.write_all(b"\n],")?;
    let (sum, mut to) = (to.sum.finalize(), to.to);
    write!(to, "{SUM}{sum:08x}{END}")?;
    to.flush()
}

/// Sums what passes.
struct Summing<W> {
    to: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether a text ends with the sum of all before it.
fn has_right_sum(text: &[u8]) -> bool {
    // As long as it is written: eight digits.
    let length = SUM.len() + 8 + END.len();
    let Some((body, line)) =
        text.len().checked_sub(length).and_then(|at| text.split_at_checked(at))
    else {
        return false;
    };
    let sum = crc32fast::hash(body);
    *line == *format!("{SUM}{sum:08x}{END}").as_bytes()
}

/// Reads a document. Refuses what [`write`] would not have written.
pub(super) fn read(text: &[u8]) -> Result<Document, DocumentError> {
    let has_sum = has_right_sum(text);
    if !has_sum {
        check_without_sum(text)?;
    }
    let Versioned { version, .. } = serde_json::from_slice(text)?;
    if version > VERSION {
        return Err(DocumentError::Version(version));
    }
    let Whole { audit, overrides, .. } = serde_json::from_slice(text)?;
    if overrides.len() > RUN_TIME_OVERRIDES_MAX {
        return Err(DocumentError::TooMany(overrides.len()));
    }
    let overrides = overrides.into_iter().enumerate().map(|(at, line)| line.read(at));
    let overrides: Result<Vec<_>, _> = overrides.collect();
    Ok(Document { audited: audit, table: Table::new(overrides?), has_sum })
}

/// Refuses a text without a right sum, unless nobody who wrote it would have written one. It is the sum that
/// is wrong wherever one was meant: then also the version may be what was damaged.
fn check_without_sum(text: &[u8]) -> Result<(), DocumentError> {
    match serde_json::from_slice(text) {
        Ok(Versioned { version: VERSION_WITHOUT_SUM, sum: None }) => Ok(()),
        Ok(Versioned { version, sum: None }) if version > VERSION => {
            Err(DocumentError::Version(version))
        }
        Err(error) if text.starts_with(BEGINNING_WITHOUT_SUM) => Err(error.into()),
        Ok(_) | Err(_) => Err(DocumentError::Sum),
    }
}

impl Line {
    fn read(self, at: usize) -> Result<Arc<RunTimeOverride>, DocumentError> {
        let period =
            parse_duration(&self.period).map_err(|source| DocumentError::Period { at, source })?;
        let terms = Limit::new(self.burst, self.count, period)
            .map_err(|source| DocumentError::Terms { at, source })?;
        let until: Option<Moment> = self.until.map(|until| until.0);
        let Self { limit, id, why, by, .. } = self;
        Ok(Arc::new(RunTimeOverride { limit, id, terms, why, by, at: self.at.0, until }))
    }
}

impl From<&RunTimeOverride> for Line {
    fn from(over: &RunTimeOverride) -> Self {
        Self {
            limit: over.limit.clone(),
            id: over.id.clone(),
            burst: over.terms.burst(),
            count: over.terms.count(),
            period: over.terms.period().to_string(),
            why: over.why.clone(),
            by: over.by.clone(),
            at: Utc(over.at),
            until: over.until.map(Utc),
        }
    }
}

#[cfg(test)]
mod tests;
