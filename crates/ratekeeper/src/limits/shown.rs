//! Texts of a caller's choice, as a sentence for people repeats them.

use std::fmt::{self, Write as _};

/// How many characters of such a text are repeated. A SHA-256 in hexadecimal digits fits.
pub const SHOWN_CHARS_MAX: usize = 64;

/// A text that a caller chose, such as an id: one line that moves no cursor, and no longer than
/// [`SHOWN_CHARS_MAX`] characters of it. Whoever writes a sentence with it to a log writes one line.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(SHOWN_CHARS_MAX) {
            match c {
                '\'' | '"' => f.write_char(c)?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("..") } else { Ok(()) }
    }
}
