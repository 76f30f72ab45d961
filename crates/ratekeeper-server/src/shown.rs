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
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped_and_words_of_any_language_are_not() {
        for c in
            "\n\r\t\0\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{200b}\u{200e}\u{2028}\u{2029}\u{feff}".chars()
        {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in "az 09 ~\\\"' äß é e\u{301} हिन्दी עברית 中文 🙂".chars() {
            assert!(!is_unseen(c), "{c:?}");
        }
    }

    #[test]
    fn different_bytes_are_shown_differently_and_on_one_line() {
        let shown = |bytes: &[u8]| {
            let mut text = String::new();
            push_shown_bytes(bytes, &mut text);
            text
        };
        assert_eq!(shown(b"a\n\x1b[2J\\x0a"), r"a\x0a\x1b[2J\\x0a");
        assert_eq!(shown("\u{9b}2J\u{202e}ä".as_bytes()), r"\u{9b}2J\u{202e}ä");
        assert_eq!(shown(b"\xff\xc2\x9b\xc3"), r"\xff\u{9b}\xc3");
    }
}
