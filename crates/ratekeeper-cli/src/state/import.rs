//! `ratekeeper state import`: lines, to where they are spent from now on.

use std::io::{self, Stdin};
use std::path::Path;

use ratekeeper::{Clock, Limits};
use ratekeeper_console::say;
use ratekeeper_server::settings::StoreSettings;
use ratekeeper_server::state_transfer::{Entry, Put, SavedState, SharedState, from_line};
use ratekeeper_server::with_causes;

use super::args::{Import, Place};
use super::{Progress, buckets, start_warnings};
use crate::error::Error;
use crate::replay::lines::{LINE_BYTES_MAX, Line, Lines};

/// How many lines are read, and found good, before the first of them is written to a store.
const LINES_AT_ONCE: usize = 1_000_000;
const INPUT: &str = "standard input";

pub(super) fn run(import: &Import) -> Result<(), Error> {
    match import.place.open()? {
        Place::Store(settings) => to_store(&settings),
        Place::Folder(folder, limits) => to_folder(&folder, limits),
    }
}

fn to_store(settings: &StoreSettings) -> Result<(), Error> {
    let shared = SharedState::open(settings)?.ok_or(Error::NoStore)?;
    let (mut entries, mut tally) = (Entries::new(), Tally::default());
    let mut progress = Progress::begin();
    loop {
        let stopped = |tally: &Tally| {
            if tally.all() > 0 {
                say(format_args!(
                    "note: the first {} lines were imported; it can be done again from the start",
                    tally.all()
                ));
            }
        };
        let some = entries.some().inspect_err(|_| stopped(&tally))?;
        if some.is_empty() {
            break;
        }
        let done = |put| {
            tally.count(put);
            progress.at(tally.all(), "imported");
        };
        shared.put(&some, done).inspect_err(|_| stopped(&tally))?;
    }
    tally.tell();
    Ok(())
}

fn to_folder(folder: &Path, limits: Limits) -> Result<(), Error> {
    let _log = start_warnings();
    let state = SavedState::open_or_create(folder, limits, Clock::start().now())?;
    let (mut entries, mut tally) = (Entries::new(), Tally::default());
    let mut progress = Progress::begin();
    while let Some(entry) = entries.next()? {
        let put = state.put(&entry).map_err(|error| entries.wrong(with_causes(&error)))?;
        match put {
            Some(put) => tally.count(put),
            None if entry.value.is_bucket() => {
                let name = String::from_utf8_lossy(&entry.name);
                let why = format!("expected a bucket of a limit in the files; `{name}` is of none");
                return Err(entries.wrong(why));
            }
            None => tally.left_out += 1,
        }
        progress.at(tally.all(), "read");
    }
    state.save()?;
    tally.tell();
    Ok(())
}

/// What became of the lines.
#[derive(Default)]
struct Tally {
    written: u64,
    kept: u64,
    over: u64,
    left_out: u64,
}

impl Tally {
    fn count(&mut self, put: Put) {
        match put {
            Put::Written => self.written += 1,
            Put::Kept => self.kept += 1,
            Put::Over => self.over += 1,
        }
    }

    fn all(&self) -> u64 {
        self.written + self.kept + self.over
    }

    fn tell(&self) {
        let Self { written, kept, over, left_out } = self;
        say(format_args!(
            "{} imported; {kept} owed as much already, {over} owed nothing any more",
            buckets(*written)
        ));
        if *left_out > 0 {
            say(format_args!(
                "note: {left_out} averages, quotas and keys of CL.THROTTLE were left out: a state \
                 directory does not take them"
            ));
        }
    }
}

/// The entries of standard input.
struct Entries {
    lines: Lines<Stdin>,
    number: u64,
}

impl Entries {
    fn new() -> Self {
        Self { lines: Lines::new(io::stdin()), number: 0 }
    }

    /// The next, if there is one. Empty lines say nothing.
    fn next(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            let Some(line) = self.lines.read().map_err(Error::Input)? else { return Ok(None) };
            self.number += 1;
            let read = match line {
                Line::Whole(line) if line.trim_ascii().is_empty() => continue,
                Line::Whole(line) => from_line(line).map_err(|bad| bad.to_string()),
                Line::TooLong => Err(format!("expected at most {LINE_BYTES_MAX} bytes")),
            };
            return read.map(Some).map_err(|why| self.wrong(why));
        }
    }

    /// As many of the next as are written together.
    fn some(&mut self) -> Result<Vec<Entry>, Error> {
        let mut some = Vec::new();
        while some.len() < LINES_AT_ONCE
            && let Some(entry) = self.next()?
        {
            some.push(entry);
        }
        Ok(some)
    }

    /// Something is wrong with the last line.
    fn wrong(&self, why: String) -> Error {
        Error::Line { number: self.number, file: INPUT.to_owned(), why }
    }
}
