//! The audit: who changed which override, when, from what to what, and why.
//!
//! In a state directory it is the file `audit.jsonl`, to which lines are added and which nothing
//! shortens but the undoing of a change that failed. Without one the records go to the log, and the
//! last of them stay in memory to be read.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::document::Audited;
use super::{AUDIT_KEPT, AUDIT_LAST_MAX, Utc};
use crate::reading::open_file;
use crate::state::private_file;

/// How much is read at once from the end of the file.
const PIECE_BYTES: u64 = 1 << 16;
/// How much is read at most: as many lines as can be asked for, if each were as long as can be.
const READ_BYTES_MAX: u64 = 16 << 20;

/// One change of one override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRecord)]
pub struct Record {
    /// When it was changed.
    pub at: Utc,
    /// Who changed it; `ratekeeper` if it ended by itself.
    pub by: String,
    /// From which address, if it came over the network.
    #[schema(required, value_type = Option<String>)]
    pub from: Option<IpAddr>,
    /// What was done.
    pub action: Action,
    /// The name of the limit.
    pub limit: String,
    /// The id in its one spelling.
    pub id: String,
    /// What it was allowed before, if anything.
    #[schema(required)]
    pub before: Option<String>,
    /// What it is allowed since, if anything.
    #[schema(required)]
    pub after: Option<String>,
    /// Why.
    pub why: String,
    /// When it ends by itself.
    #[schema(required)]
    pub until: Option<Utc>,
}

/// What was done to an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = AuditAction)]
pub enum Action {
    /// Made, or changed.
    Put,
    /// Made or changed, as one of many.
    Import,
    /// Removed.
    Delete,
    /// It ended by itself.
    Expire,
}

/// Where records are written and read.
#[derive(Debug)]
pub(super) enum Audit {
    File(PathBuf),
    /// The newest last.
    Memory(Mutex<VecDeque<Record>>),
}

/// Records as they will stand in the file.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where in the file.
    pub(super) place: Audited,
}

impl Audit {
    /// What [`append`](Self::append) will write. Nothing else may be appended in between.
    pub(super) fn prepare(&self, records: &[Record]) -> io::Result<Lines> {
        let mut bytes = Vec::new();
        let mut from = 0;
        if let Self::File(path) = self {
            let (length, is_torn) = tail(path)?;
            from = length;
            if is_torn {
                // A crash cut the last line short. It stays as it is, and ours are lines of their own.
                bytes.push(b'\n');
            }
        }
        for record in records {
            serde_json::to_writer(&mut bytes, record)?;
            bytes.push(b'\n');
        }
        let to = from.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(Lines { bytes, place: Audited { from, to } })
    }

    /// Adds the lines, and returns when they are on the disk.
    pub(super) fn append(&self, lines: &Lines) -> io::Result<()> {
        let Self::File(path) = self else { return Ok(()) };
        let mut file = private_file().append(true).open(path)?;
        file.write_all(&lines.bytes)?;
        file.sync_data()?;
        match path.parent() {
            // The name of a new file is not on the disk before its folder is.
            Some(folder) if lines.place.from == 0 => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Where there is no file: tells the log, and keeps the last.
    pub(super) fn tell(&self, records: Vec<Record>) {
        let Self::Memory(recent) = self else { return };
        let mut recent = recent.lock();
        for record in records {
            if let Ok(record) = serde_json::to_string(&record) {
                tracing::info!(target: "audit", %record, "an override has changed");
            }
            if recent.len() >= AUDIT_KEPT {
                recent.pop_front();
            }
            recent.push_back(record);
        }
    }

    /// Takes back what was added after `length` bytes.
    pub(super) fn cut(&self, length: u64) -> io::Result<()> {
        let Self::File(path) = self else { return Ok(()) };
        let file = match OpenOptions::new().write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// How many bytes there are.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(path) => Ok(tail(path)?.0),
            Self::Memory(_) => Ok(0),
        }
    }

    /// The last `count` records, at most [`AUDIT_LAST_MAX`], the newest last. Lines that cannot be
    /// read, such as one that a crash cut short, are left out.
    pub(super) fn last(&self, count: usize) -> io::Result<Vec<Record>> {
        let count = count.min(AUDIT_LAST_MAX);
        match self {
            Self::File(path) => last_of_file(path, count),
            Self::Memory(recent) => {
                let recent = recent.lock();
                Ok(recent.iter().skip(recent.len().saturating_sub(count)).cloned().collect())
            }
        }
    }
}

/// How long the file is, and whether its last line has no end.
fn tail(path: &Path) -> io::Result<(u64, bool)> {
    let mut file = match open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, false)),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok((0, false));
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length.saturating_sub(1)))?;
    file.read_exact(&mut last)?;
    Ok((length, last != *b"\n"))
}

/// Reads backwards until there are enough lines. However long the file is, this is not.
fn last_of_file(path: &Path, count: usize) -> io::Result<Vec<Record>> {
    let mut file = match open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let end = file.metadata()?.len();
    let (mut start, mut pieces, mut lines) = (end, Vec::new(), 0);
    while start > 0 && end.saturating_sub(start) < READ_BYTES_MAX {
        let piece_end = start;
        start = start.saturating_sub(PIECE_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut piece = Vec::new();
        (&file).take(piece_end.saturating_sub(start)).read_to_end(&mut piece)?;
        lines += piece.split(|byte| *byte == b'\n').count() - 1;
        pieces.push(piece);
        // One more, because the first line of what was read may be only the end of one.
        if lines > count {
            break;
        }
    }
    let text: Vec<u8> = pieces.into_iter().rev().flatten().collect();
    let lines = text.split(|byte| *byte == b'\n').rev();
    let records = lines.filter_map(|line| serde_json::from_slice(line).ok()).take(count);
    let mut records: Vec<Record> = records.collect();
    records.reverse();
    Ok(records)
}
