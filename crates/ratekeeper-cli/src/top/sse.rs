//! Events that a server sends (`text/event-stream`), one after the other.

use std::io::{self, BufRead, Read as _};

/// How long one line can be: the counters of a server with many limits are long.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The data of the next event called `name`; nothing at the end. Refuses a line that is too long.
pub(super) fn next_event(reader: &mut impl BufRead, name: &str) -> io::Result<Option<String>> {
    let (mut kind, mut data) = (String::new(), String::new());
    while let Some(line) = next_line(reader)? {
        if line.is_empty() {
            if kind == name && !data.is_empty() {
                return Ok(Some(data));
            }
            kind.clear();
            data.clear();
            continue;
        }
        // A line that begins with a colon is only there so that something comes.
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut kind),
            "data" => data.push_str(value),
            _ => {}
        }
    }
    Ok(None)
}

/// The next line, without its end; nothing at the end, also of half a line.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        let is_long = u64::try_from(bytes.len()).unwrap_or(u64::MAX) >= LINE_BYTES_MAX - 1;
        let too_long = io::Error::new(io::ErrorKind::InvalidData, "a line that never ends");
        return if is_long { Err(too_long) } else { Ok(None) };
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests;
