//! Standard output, which may be closed at any time, and standard error.

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};

use ratekeeper_server::write_shown;

/// How much is written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Standard output did not take what was written to it.
#[derive(Debug, thiserror::Error)]
#[error("writing to standard output")]
pub struct OutputError(#[source] io::Error);

/// Standard output. Once nobody reads it (`| head`), what is written to it is dropped: a reader
/// who has seen enough is no failure.
pub struct Output {
    inner: BufWriter<Stdout>,
    is_closed: bool,
}

impl Output {
    /// The standard output of this process.
    pub fn stdout() -> Self {
        Self { inner: BufWriter::with_capacity(BUFFER_BYTES, io::stdout()), is_closed: false }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Writes `value` as one line of JSON.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), OutputError> {
        self.json_part(value)?;
        self.write_all(b"\n").map_err(OutputError)
    }

    /// Writes `value` as JSON, and the line goes on.
    pub fn json_part(&mut self, value: &impl serde::Serialize) -> Result<(), OutputError> {
        serde_json::to_writer(&mut *self, value).map_err(|error| OutputError(error.into()))
    }

    /// Writes `text` as one line.
    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), OutputError> {
        writeln!(self, "{text}").map_err(OutputError)
    }

    /// Writes `text` as it is.
    pub fn text(&mut self, text: &str) -> Result<(), OutputError> {
        self.bytes(text.as_bytes())
    }

    /// Writes `bytes` as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.write_all(bytes).map_err(OutputError)
    }

    /// Writes what is still in the buffer. Without this an error at the very end would be lost.
    pub fn finish(&mut self) -> Result<(), OutputError> {
        self.flush().map_err(OutputError)
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
pub fn say(words: impl fmt::Display) {
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

#[cfg(test)]
mod tests;
