//! `ratekeeper state export`: what was spent, as lines.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ratekeeper::{Clock, Limits};
use ratekeeper_console::{Output, OutputError, say};
use ratekeeper_server::settings::StoreSettings;
use ratekeeper_server::state_transfer::{Entry, SavedState, SharedState, TransferError, to_line};
use ratekeeper_server::{ReadError, with_causes};

use super::args::{Export, Place};
use super::{Progress, buckets, start_warnings};
use crate::error::Error;
use crate::replay::lines::{Line, Lines};

pub(super) fn run(export: &Export) -> Result<(), Error> {
    match export.place.open()? {
        Place::Store(settings) => from_store(&settings),
        Place::Folder(folder, limits) => from_folder(&folder, limits, export.ids.as_deref()),
    }
}

fn from_store(settings: &StoreSettings) -> Result<(), Error> {
    let shared = SharedState::open(settings)?.ok_or(Error::NoStore)?;
    let (mut output, mut progress) = (Output::stdout(), Progress::begin());
    let (mut count, mut strange) = (0, 0);
    shared.read(|page| {
        for entry in &page.entries {
            output.line(to_line(entry))?;
            count += 1;
        }
        strange += page.strange;
        progress.at(count, "exported");
        Ok::<_, Error>(!output.is_closed())
    })?;
    output.finish()?;
    if strange > 0 {
        say(format_args!("note: {strange} keys look like buckets and are not; they are left out"));
    }
    Ok(())
}

fn from_folder(folder: &Path, limits: Limits, ids: Option<&Path>) -> Result<(), Error> {
    let _log = start_warnings();
    let state = SavedState::open(folder, limits, Clock::start().now())?;
    let mut found =
        Found { output: Output::stdout(), names: HashSet::new(), progress: Progress::begin() };
    for (limit, id) in state.known() {
        found.look(&state, limit, id)?;
    }
    if let Some(path) = ids {
        look_for(&state, path, &mut found)?;
    }
    found.output.finish()?;
    tell_nameless(&state, found.names.len());
    Ok(())
}

/// What has been printed.
struct Found {
    output: Output,
    /// The buckets that have been, or cannot be.
    names: HashSet<Vec<u8>>,
    progress: Progress,
}

impl Found {
    fn look(&mut self, state: &SavedState, limit: &str, id: &str) -> Result<(), MoveOrOutput> {
        match state.find(limit, id) {
            Ok(Some(entry)) => self.print(entry)?,
            Ok(None) => {}
            // Nobody can keep it in Redis, so it is no reason not to move the others.
            Err(error @ TransferError::TooSlow { .. }) => {
                say(format_args!("note: left out: {}", with_causes(&error)));
                self.names.insert(format!("{limit}:{id}").into_bytes());
            }
            Err(error) => return Err(MoveOrOutput::Move(error)),
        }
        self.progress.at(self.names.len() as u64, "exported");
        Ok(())
    }

    fn print(&mut self, entry: Entry) -> Result<(), OutputError> {
        let line = to_line(&entry);
        if self.names.insert(entry.name) { self.output.line(line) } else { Ok(()) }
    }
}

/// What may be the fault of a line, and what is not.
enum MoveOrOutput {
    Move(TransferError),
    Output(OutputError),
}

impl From<OutputError> for MoveOrOutput {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<MoveOrOutput> for Error {
    fn from(error: MoveOrOutput) -> Self {
        match error {
            MoveOrOutput::Move(error) => error.into(),
            MoveOrOutput::Output(error) => error.into(),
        }
    }
}

/// Looks for the buckets that the lines of a file name.
fn look_for(state: &SavedState, path: &Path, found: &mut Found) -> Result<(), Error> {
    let what = path.display().to_string();
    let failed = |source| ReadError::Io { what: "ids", path: path.to_owned(), source };
    let input: Box<dyn Read> = if what == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let (mut lines, mut number) = (Lines::new(input), 0);
    while let Some(line) = lines.read().map_err(failed)? {
        number += 1;
        let wrong = |why: String| Error::Line { number, file: what.clone(), why };
        let expected = || wrong("expected LIMIT:ID, such as LoginsPerUser:ada".to_owned());
        let Line::Whole(line) = line else { return Err(expected()) };
        let line = std::str::from_utf8(line).map_err(|_| expected())?.trim_end_matches('\r');
        if line.is_empty() {
            continue;
        }
        let (limit, id) = line.split_once(':').ok_or_else(expected)?;
        match found.look(state, limit, id) {
            Ok(()) => {}
            Err(MoveOrOutput::Move(error)) => return Err(wrong(with_causes(&error))),
            Err(MoveOrOutput::Output(error)) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Says what was left out, and what to do about it.
fn tell_nameless(state: &SavedState, named: usize) {
    let (held, others) = state.held();
    let nameless = held.saturating_sub(named) as u64;
    if nameless > 0 {
        say(format_args!(
            "note: {} of {held} have no name here and were left out: name them with --ids FILE, in \
             lines LIMIT:ID",
            buckets(nameless)
        ));
    }
    if others > 0 {
        say(format_args!(
            "note: {others} averages, quotas and keys of CL.THROTTLE were left out: a state \
             directory does not know their names"
        ));
    }
}
