//! Where overrides outlive the process: `overrides.json` and `audit.jsonl` in the state directory.
//!
//! A change touches both files, and a crash may come between any two steps. The steps are:
//!
//! 1. The new document is written beside the old one, as `overrides.json.new`, and brought to the
//!    disk. It says where in the audit the records of its change begin and end.
//! 2. The records are added to the audit, and brought to the disk.
//! 3. The new document takes the name of the old one, and the folder is brought to the disk.
//!
//! Only then is the change put in force, and only then answered. If the process dies
//!
//! - during 1, there is half a document, or a whole one whose records are not there. It is removed:
//!   the change was never made.
//! - during 2, some of the records may be there. They tell of what was never made, so the audit is
//!   cut back to where it was, and the document is removed.
//! - between 2 and 3, all of the records are there. The document takes its name at the next start:
//!   the change was made, although nobody was told.
//!
//! So after a restart the overrides in force are those of the document, and each of them has its
//! record. A change that was answered is never lost, and one that was refused is never made.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use ratekeeper::Moment;

use super::audit::{Audit, Lines, Record};
use super::document::{self, Audited, Document, DocumentError};
use super::table::Table;
use crate::reading::open_file;
use crate::state::{StateError, private_file};

/// The document, and the one that is to take its place.
const FILE: &str = "overrides.json";
const NEW_FILE: &str = "overrides.json.new";
const AUDIT_FILE: &str = "audit.jsonl";
/// More than a document can have.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// Keeps overrides, if there is a place for them, and tells of every change.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: Option<PathBuf>,
    audit: Audit,
}

/// A change that is written beside, and not yet made.
#[derive(Debug)]
#[must_use = "it is made by `commit`, or taken back by `undo`"]
pub(super) struct Entry {
    lines: Lines,
    records: Vec<Record>,
}

impl Ledger {
    /// The ledger of a state directory that is ours alone, and the overrides in it. Ends what a crash
    /// left half done. A damaged document is set aside.
    pub(super) fn open(folder: Option<&Path>, at: Moment) -> Result<(Self, Table), StateError> {
        let Some(folder) = folder else {
            let audit = Audit::Memory(Mutex::default());
            return Ok((Self { folder: None, audit }, Table::default()));
        };
        let audit = Audit::File(folder.join(AUDIT_FILE));
        let ledger = Self { folder: Some(folder.to_owned()), audit };
        let failed =
            |doing| move |source| StateError::Io { doing, folder: folder.to_owned(), source };
        ledger.recover(folder).map_err(failed("recovering overrides in"))?;
        let table = match read(&folder.join(FILE)).map_err(failed("reading overrides from"))? {
            None => Table::default(),
            Some(Ok(document)) => {
                if !document.has_sum {
                    Self::give_sum(folder, &document);
                }
                document.table
            }
            Some(Err(DocumentError::Version(version))) => {
                return Err(StateError::Overrides { folder: folder.to_owned(), version });
            }
            Some(Err(damage)) => {
                set_aside(folder, &damage, at).map_err(failed("setting aside a file in"))?;
                Table::default()
            }
        };
        Ok((ledger, table))
    }

    /// Whether what is kept here outlives the process.
    pub(super) fn is_durable(&self) -> bool {
        self.folder.is_some()
    }

    /// Writes beside what overrides will be, and what will be told of it. One at a time.
    pub(super) fn prepare(&self, table: &Table, records: Vec<Record>) -> io::Result<Entry> {
        let lines = self.audit.prepare(&records)?;
        if let Some(folder) = &self.folder {
            write_beside(folder, table, lines.place).inspect_err(|_| remove_new(folder))?;
        }
        Ok(Entry { lines, records })
    }

    /// Makes the change. If that fails, the entry is still to be undone.
    pub(super) fn commit(&self, entry: &Entry) -> io::Result<()> {
        self.audit.append(&entry.lines)?;
        match &self.folder {
            Some(folder) => replace(folder),
            None => Ok(()),
        }
    }

    /// Takes back a change that failed, so that `old` is kept as before. What cannot be taken back
    /// is told in the log.
    pub(super) fn undo(&self, entry: &Entry, old: &Table) {
        let Some(folder) = &self.folder else { return };
        // First, so that no crash from here on completes the change.
        remove_new(folder);
        let start = entry.lines.place.from;
        let taken_back = self.audit.cut(start).and_then(|()| {
            write_beside(folder, old, Audited { from: start, to: start })?;
            replace(folder)
        });
        if let Err(error) = taken_back {
            remove_new(folder);
            tracing::error!(
                %error, folder = %folder.display(),
                "a change of overrides failed, and not all of it could be taken back: \
                 compare overrides.json and audit.jsonl with what is in force"
            );
        }
    }

    /// Tells of a change that is in force now, where no file does.
    pub(super) fn tell(&self, entry: Entry) {
        self.audit.tell(entry.records);
    }

    /// The last records, the newest last.
    pub(super) fn last(&self, count: usize) -> io::Result<Vec<Record>> {
        self.audit.last(count)
    }

    /// Writes a document again that was written before documents had a sum. If that fails, the next change
    /// of an override does it.
    fn give_sum(folder: &Path, document: &Document) {
        // It needs no record in the audit.
        let audited = Audited { from: 0, to: 0 };
        let written = write_beside(folder, &document.table, audited);
        if let Err(error) = written.and_then(|()| replace(folder)) {
            remove_new(folder);
            tracing::warn!(%error, "overrides.json is of an older version, and cannot be written anew");
        }
    }

    /// Completes what a crash left undone, or undoes it.
    fn recover(&self, folder: &Path) -> io::Result<()> {
        let Some(found) = read(&folder.join(NEW_FILE))? else { return Ok(()) };
        let Ok(Document { audited: Audited { from, to }, .. }) = found else {
            remove_new(folder);
            return Ok(());
        };
        if self.audit.length()? >= to {
            tracing::warn!(
                "the last change of overrides was recorded but not answered: it is made"
            );
            return replace(folder);
        }
        tracing::warn!("the last change of overrides was not recorded: it is not made");
        self.audit.cut(from)?;
        remove_new(folder);
        Ok(())
    }
}

fn write_beside(folder: &Path, table: &Table, audited: Audited) -> io::Result<()> {
    let file = private_file().truncate(true).open(folder.join(NEW_FILE))?;
    document::write(BufWriter::new(&file), table, audited)?;
    file.sync_data()
}

fn replace(folder: &Path) -> io::Result<()> {
    fs::rename(folder.join(NEW_FILE), folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// If it cannot be removed, the next one overwrites it, and the audit tells that it was not made.
fn remove_new(folder: &Path) {
    let _ = fs::remove_file(folder.join(NEW_FILE));
}

/// A document; none if there is no file.
fn read(path: &Path) -> io::Result<Option<Result<Document, DocumentError>>> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(DOCUMENT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(Some(document::read(&text)))
}

/// A damaged document is kept for whoever wants to know why, and is in nobody's way.
fn set_aside(folder: &Path, damage: &DocumentError, at: Moment) -> io::Result<()> {
    let seconds = at.as_nanos() / 1_000_000_000;
    let aside = folder.join(format!("{FILE}.damaged-{seconds}"));
    fs::rename(folder.join(FILE), &aside)?;
    tracing::error!(
        damage = crate::with_causes(damage), set_aside = %aside.display(),
        "the overrides that were made at run time cannot be read, so none of them is in force: see in \
         the file that was set aside, or in audit.jsonl, what they were, and make them again with \
         `ratekeeper override add`"
    );
    Ok(())
}
