//! The file `overrides.json`: a document that a person can read, one override per line.

use std::io::{self, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate::Moment;
use tollgate::algorithm::gcra::RuleError;
use tollgate::limits::{DurationError, Limit, parse_duration};

use super::table::{RunTimeOverride, Table};
use super::{RUN_TIME_OVERRIDES_MAX, Utc};

/// What this program writes, and all that it reads.
pub(super) const VERSION: u32 = 1;

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
}

/// Why a text is not such a document.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error("it is not JSON of the shape that was written")]
    Json(#[from] serde_json::Error),
    #[error("it is of version {0}, and this program knows version {VERSION} only")]
    Version(u32),
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(rename = "version")]
    _version: u32,
    audit: Audited,
    overrides: Vec<Line>,
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
pub(super) fn write(mut to: impl Write, table: &Table, audited: Audited) -> io::Result<()> {
    let audit = serde_json::to_string(&audited)?;
    write!(to, "{{\"version\": {VERSION},\n\"audit\": {audit},\n\"overrides\": [")?;
    for (at, over) in table.iter().enumerate() {
        to.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut to, &Line::from(&**over))?;
    }
    to.write_all(b"\n]}\n")?;
    to.flush()
}

/// Reads a document. Refuses what [`write`] would not have written.
pub(super) fn read(text: &[u8]) -> Result<Document, DocumentError> {
    let Versioned { version } = serde_json::from_slice(text)?;
    if version != VERSION {
        return Err(DocumentError::Version(version));
    }
    let Whole { audit, overrides, .. } = serde_json::from_slice(text)?;
    if overrides.len() > RUN_TIME_OVERRIDES_MAX {
        return Err(DocumentError::TooMany(overrides.len()));
    }
    let overrides = overrides.into_iter().enumerate().map(|(at, line)| line.read(at));
    let overrides: Result<Vec<_>, _> = overrides.collect();
    Ok(Document { audited: audit, table: Table::new(overrides?) })
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
