//! Standard output, which may be closed at any time, and standard error.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};
use std::process::ExitCode;

use ratekeeper_server::{log_error, write_shown};

use crate::error::{Error, Exit};
use crate::serve;

/// How much is written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Standard output. Once nobody reads it (`| head`), what is written to it is dropped: a reader
/// who has seen enough is no failure.
pub(crate) struct Output {
    inner: BufWriter<Stdout>,
    is_closed: bool,
}

impl Output {
    /// The standard output of this process.
    pub(crate) fn new() -> Self {
        Self { inner: BufWriter::with_capacity(BUFFER_BYTES, io::stdout()), is_closed: false }
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Writes `value` as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Error> {
        self.json_part(value)?;
        self.write_all(b"\n").map_err(Error::Output)
    }

    /// Writes `value` as JSON, and the line goes on.
    pub(crate) fn json_part(&mut self, value: &impl serde::Serialize) -> Result<(), Error> {
        serde_json::to_writer(&mut *self, value).map_err(|error| Error::Output(error.into()))
    }

    /// Writes `text` as one line.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), Error> {
        writeln!(self, "{text}").map_err(Error::Output)
    }

    /// Writes `text` as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Error> {
        self.write_all(text.as_bytes()).map_err(Error::Output)
    }

    /// Writes what is still in the buffer. Without this an error at the very end would be lost.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.flush().map_err(Error::Output)
    }

    fn unless_closed<T>(&mut self, done: io::Result<T>, dropped: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(dropped)
            }
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let done = self.inner.write(bytes);
        self.unless_closed(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let done = self.inner.flush();
        self.unless_closed(done, ())
    }
}

/// Says something to a person. If nobody listens, there is nobody to tell that to. What others chose of
/// it, such as an id, moves no cursor.
pub(crate) fn say(words: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{}", without_controls(&words.to_string()));
}

fn without_controls(words: &str) -> String {
    let mut shown = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            // A text takes whatever is written to it.
            c => drop(write_shown(&mut shown, c)),
        }
    }
    shown
}

#[derive(serde::Serialize)]
struct JsonError<'a> {
    error: &'a str,
    exit: u8,
}

/// Tells a program what went wrong, on standard output, where it reads.
pub(crate) fn print_error(error: &str, exit: Exit) {
    let mut output = Output::new();
    // If nobody reads it, the exit code still says it.
    let _ = output.json(&JsonError { error, exit: exit as u8 }).and_then(|()| output.finish());
}

/// Whether a program reads what is printed. The arguments may be wrong elsewhere.
pub(crate) fn is_for_programs() -> bool {
    let arguments: Vec<_> = std::env::args_os().skip(1).take_while(|it| it != "--").collect();
    let is_json = |pair: &[OsString]| pair[0] == "--format" && pair[1] == "json";
    arguments.windows(2).any(is_json) || arguments.iter().any(|it| it == "--format=json")
}

/// Prints the help that was asked for, or what is wrong with the arguments.
pub(crate) fn print_usage(usage: &clap::Error) -> ExitCode {
    if usage.use_stderr() && serve::is_json_log_asked_for() == Some(true) {
        let _log = serve::start_json_log();
        log_error(usage.render().to_string().trim());
        return Exit::Mistake.into();
    }
    if usage.use_stderr() && is_for_programs() {
        let words = usage.render().to_string();
        let error = words.trim().strip_prefix("error: ").unwrap_or(words.trim());
        print_error(error, Exit::Mistake);
    }
    // As above: a closed pipe is no failure.
    let _ = usage.print();
    if usage.use_stderr() { Exit::Mistake.into() } else { Exit::Allowed.into() }
}

#[cfg(test)]
mod tests;
