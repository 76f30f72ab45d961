//! Lines of bounded length.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line that is read, in bytes, without what ends it.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// How much is read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Reads line by line, and never keeps more than one.
pub(crate) struct Lines<R> {
    inner: BufReader<R>,
    line: Vec<u8>,
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// What is in it, without what ends it.
    Whole(&'a [u8]),
    /// It is longer than [`LINE_BYTES_MAX`], and was skipped.
    TooLong,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { inner: BufReader::with_capacity(BUFFER_BYTES, input), line: Vec::new() }
    }

    /// Whether the next line is already here, so that reading it will not wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.inner.buffer().contains(&b'\n')
    }

    /// The next line, if there is one. The last needs no newline.
    pub(crate) fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let bytes_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        if self.inner.by_ref().take(bytes_max).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        if let Some(line) = self.line.strip_suffix(b"\n") {
            return Ok(Some(Line::Whole(line)));
        }
        if self.line.len() <= LINE_BYTES_MAX {
            return Ok(Some(Line::Whole(&self.line)));
        }
        self.inner.skip_until(b'\n')?;
        Ok(Some(Line::TooLong))
    }
}
