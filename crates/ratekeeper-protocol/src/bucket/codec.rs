//! From bytes to lines, and from lines to what they ask.

use crate::scan;

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// `get NAME` or `get NAME COST`.
    Get {
        name: &'a [u8],
        /// At least 1.
        cost: u64,
    },
    Quit,
    Invalid,
}

/// The name in the first line of a text, if that is as most are, and how many bytes the line takes.
/// All others are to be split off, and parsed.
#[inline]
pub(super) fn plain_get(text: &str) -> Option<(&str, usize)> {
    let rest = text.strip_prefix("get ")?;
    // The end of the line, or a blank, and then there is a cost. A byte of a letter is none.
    let end = scan::below(NAME_BYTE_MIN, rest.as_bytes()).filter(|end| *end > 0)?;
    let (name, rest) = rest.split_at_checked(end)?;
    let line_end = match rest.as_bytes() {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => return None,
    };
    Some((name, "get ".len().wrapping_add(end).wrapping_add(line_end)))
}

/// The first line, without its LF, and what follows it; nothing if there is no LF yet.
#[inline]
pub(super) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = scan::position(b'\n', bytes)?;
    let (line, rest) = bytes.split_at_checked(end)?;
    rest.split_first().map(|(_, rest)| (line, rest))
}

/// The line without the one CR that may stand before its LF.
#[inline]
pub(super) fn content(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What a line asks for, given its content.
#[inline]
pub(super) fn parse(content: &[u8]) -> Command<'_> {
    match content.strip_prefix(b"get") {
        Some(rest) => parse_get(rest).unwrap_or(Command::Invalid),
        None if content == b"quit" => Command::Quit,
        None => Command::Invalid,
    }
}

#[inline]
fn parse_get(rest: &[u8]) -> Option<Command<'_>> {
    let blanks = Blanks::of(rest);
    let words = blanks.skip(rest)?;
    let Some(end) = words.iter().position(|byte| blanks.has(*byte)) else {
        return Some(Command::Get { name: words, cost: 1 });
    };
    let (name, rest) = words.split_at_checked(end)?;
    let cost = parse_cost(blanks.skip(rest)?)?;
    Some(Command::Get { name, cost })
}

/// A whole number of at least 1. One that does not fit is more than any bucket holds, and so is
/// the largest that does.
fn parse_cost(digits: &[u8]) -> Option<u64> {
    let add = |cost: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        Some(cost.saturating_mul(10).saturating_add(digit.into()))
    };
    digits.iter().try_fold(0, add).filter(|cost| *cost > 0)
}

/// Which bytes of a line are blanks.
#[derive(Clone, Copy)]
struct Blanks {
    has_no_break_space: bool,
}

const NO_BREAK_SPACE: u8 = 0xa0;
/// All blanks of a text are below it.
const NAME_BYTE_MIN: u8 = b'!';

impl Blanks {
    /// The original takes every byte for a Latin-1 character, where 0xA0 is a blank. In a line of
    /// UTF-8 that byte is a part of letters, such as the Cyrillic Р.
    #[inline]
    fn of(line: &[u8]) -> Self {
        let has_no_break_space = line.contains(&NO_BREAK_SPACE) && str::from_utf8(line).is_err();
        Self { has_no_break_space }
    }

    #[inline]
    fn has(self, byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
            || self.has_no_break_space && byte == NO_BREAK_SPACE
    }

    /// What follows one or more blanks, if anything does.
    #[inline]
    fn skip(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = bytes.iter().position(|byte| !self.has(*byte)).filter(|start| *start > 0)?;
        bytes.get(start..)
    }
}
