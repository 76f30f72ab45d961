//! Text that others chose, such as an id, as it is shown in a log or on a terminal.

use std::fmt::{self, Write};

/// Whether a character would do something other than be seen: begin a line, move a cursor, turn the order
/// of the text around, or hide. Marks that belong to the letter before them are seen.
pub fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    // Behind a letter the standard library escapes what its tables say cannot be printed.
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().nth(1) != Some(c)
}

/// Writes a character so that it is seen: as it is, or as `\u{202e}`.
pub fn write_shown(to: &mut impl Write, c: char) -> fmt::Result {
    if is_unseen(c) { write!(to, "{}", c.escape_default()) } else { to.write_char(c) }
}

/// Any bytes as text from which they can be told again: what is unseen is escaped, a byte that is no text is
/// written as `\xff`, and a backslash as two.
pub(crate) fn push_shown_bytes(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str(r"\\"),
                c if c.is_ascii_control() => push_byte(u32::from(c), text),
                // A text takes whatever is written to it.
                c => drop(write_shown(text, c)),
            }
        }
        for byte in chunk.invalid() {
            push_byte(u32::from(*byte), text);
        }
    }
}

fn push_byte(byte: u32, text: &mut String) {
    // As above.
    let _ = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests;
