//! From bytes to requests: arrays of bulk strings, and plain lines of words.

use smallvec::SmallVec;

/// How many words a request can have.
pub const ARGUMENTS_MAX: usize = 64;
/// How many most have, at most.
const USUAL_ARGUMENTS: usize = 8;
/// How many bytes a request can have.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// How many words a request can have whose sender has to show a token first.
pub const STRANGER_ARGUMENTS_MAX: usize = 10;
/// How many bytes each of those words can have.
pub const STRANGER_ARGUMENT_BYTES_MAX: usize = 16 << 10;
/// How many bytes a plain line can have.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// How many bytes say how long something is: a sign, a number and the end of the line.
const HEADER_BYTES_MAX: usize = 32;
/// A short bulk string that begins before this is within the bound of a request.
const SHORT_AT_MAX: usize = REQUEST_BYTES_MAX - 128;
/// So many digits are always a number of 64 bits.
const DIGITS_SAFE: usize = 18;
const CRLF: &[u8] = b"\r\n";

/// The words of a request. There is room for those of most.
pub(super) type Words<'a> = SmallVec<[&'a [u8]; USUAL_ARGUMENTS]>;

/// How much a client may send in one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    arguments: usize,
    argument_bytes: usize,
    line_bytes: usize,
    /// What is said of more.
    count: Fault,
    length: Fault,
}

impl Bounds {
    /// For clients that need no token, or have shown one.
    pub(super) const KNOWN: Self = Self {
        arguments: ARGUMENTS_MAX,
        argument_bytes: REQUEST_BYTES_MAX,
        line_bytes: LINE_BYTES_MAX,
        count: Fault::Count,
        length: Fault::Length,
    };
    /// For clients that have yet to show one.
    pub(super) const STRANGER: Self = Self {
        arguments: STRANGER_ARGUMENTS_MAX,
        argument_bytes: STRANGER_ARGUMENT_BYTES_MAX,
        line_bytes: STRANGER_ARGUMENT_BYTES_MAX,
        count: Fault::StrangerCount,
        length: Fault::StrangerLength,
    };
}

/// Why bytes are no request, whatever follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Count,
    StrangerCount,
    /// Another sign than `$`.
    Sign(u8),
    Length,
    StrangerLength,
    /// A bulk string is longer or shorter than it says.
    End,
    Line,
    Quotes,
}

impl Fault {
    /// What the client is told. The sign comes behind it, if it is about one.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Count => "invalid multibulk length",
            Self::StrangerCount => "unauthenticated multibulk length",
            Self::Sign(_) => "expected '$', got ",
            Self::Length => "invalid bulk length",
            Self::StrangerLength => "unauthenticated bulk length",
            Self::End => "expected CRLF behind a bulk string",
            Self::Line => "too big inline request",
            Self::Quotes => "unbalanced quotes in request",
        }
    }
}

/// Reads the first request: how many bytes it takes, with its words in `words`; nothing if it is
/// not complete. A request may have no words, and is then to be ignored.
#[inline]
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    bounds: &Bounds,
    words: &mut Words<'a>,
) -> Result<Option<usize>, Fault> {
    words.clear();
    match bytes.first() {
        None => Ok(None),
        Some(b'*') => parse_array(bytes, bounds, words),
        Some(_) => parse_line(bytes, bounds, words),
    }
}

#[inline]
fn parse_array<'a>(
    bytes: &'a [u8],
    bounds: &Bounds,
    words: &mut Words<'a>,
) -> Result<Option<usize>, Fault> {
    let Some((count, start)) = count(bytes, bounds)? else { return Ok(None) };
    let mut rest = bytes.get(start..).unwrap_or_default();
    let at = |rest: &[u8]| bytes.len().wrapping_sub(rest.len());
    for _ in 0..count {
        if let Some((word, behind)) = short_bulk(rest)
            && at(rest) < SHORT_AT_MAX
        {
            words.push(word);
            rest = behind;
            continue;
        }
        match bulk(bytes, at(rest), bounds)? {
            Bulk::Whole { word, end } => {
                words.push(word);
                rest = bytes.get(end..).unwrap_or_default();
            }
            Bulk::Part(_) => return Ok(None),
        }
    }
    Ok(Some(at(rest)))
}

/// A bulk string of up to 99 bytes, as most are, and what follows it. Nobody is refused so few. What
/// is not whole, or wrong, or among the last bytes, is left to [`bulk`].
#[inline]
pub(super) fn short_bulk(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // Looked at all at once: `$1` or `$12`, and the end of the line.
    let header = u64::from_le_bytes(*bytes.first_chunk()?);
    let [_, a, b, ..] = header.to_le_bytes().map(|byte| usize::from(byte.wrapping_sub(b'0')));
    let (length, start) = if header & 0xffff_00ff == u64::from_le_bytes(*b"$\0\r\n\0\0\0\0") {
        (Some(a).filter(|a| *a < 10)?, 4_usize)
    } else if header & 0xff_ff00_00ff == u64::from_le_bytes(*b"$\0\0\r\n\0\0\0") {
        let digits = a.wrapping_mul(10).wrapping_add(b);
        (Some(digits).filter(|_| a < 10 && b < 10)?, 5)
    } else {
        return None;
    };
    let end = start.wrapping_add(length).wrapping_add(CRLF.len());
    let (bulk, rest) = bytes.split_at_checked(end)?;
    let (word, line_end) = bulk.get(start..)?.split_last_chunk()?;
    (line_end == b"\r\n").then_some((word, rest))
}

/// What stands before the bulk string of one of the words of an array, and behind it.
pub(super) fn around<'a>(
    array: &'a [u8],
    words: &[&[u8]],
    place: usize,
) -> Option<(&'a [u8], &'a [u8])> {
    let end = |word: &[u8]| {
        let start = word.as_ptr().addr().wrapping_sub(array.as_ptr().addr());
        start.wrapping_add(word.len()).wrapping_add(CRLF.len())
    };
    let before = array.get(..end(words.get(place.checked_sub(1)?)?))?;
    let behind = array.get(end(words.get(place)?)..)?;
    Some((before, behind))
}

/// How many words an array has, and where the first begins.
#[inline]
fn count(bytes: &[u8], bounds: &Bounds) -> Result<Option<(usize, usize)>, Fault> {
    let Some((count, end)) = header(bytes).map_err(|Unreadable| Fault::Count)? else {
        return Ok(None);
    };
    // None, or fewer, is what some clients send to keep a connection open.
    let count = usize::try_from(count).unwrap_or_default();
    if count > bounds.arguments { Err(bounds.count) } else { Ok(Some((count, end))) }
}

enum Bulk<'a> {
    Whole {
        word: &'a [u8],
        /// Where what follows begins.
        end: usize,
    },
    Part(Missing),
}

/// What is missing of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Bytes(usize),
    /// The rest of a line.
    Line,
}

/// The bulk string that begins at `at`.
#[inline(never)]
fn bulk<'a>(bytes: &'a [u8], at: usize, bounds: &Bounds) -> Result<Bulk<'a>, Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first() {
        Some(b'$') | None => {}
        Some(sign) => return Err(Fault::Sign(*sign)),
    }
    let Some((length, start)) = header(rest).map_err(|Unreadable| Fault::Length)? else {
        return Ok(Bulk::Part(Missing::Line));
    };
    let length = usize::try_from(length).map_err(|_| Fault::Length)?;
    if length > bounds.argument_bytes {
        return Err(bounds.length);
    }
    let end = start.saturating_add(length);
    let whole = end.saturating_add(CRLF.len());
    if at.saturating_add(whole) > REQUEST_BYTES_MAX {
        return Err(Fault::Length);
    }
    match (rest.get(start..end), rest.get(end..whole)) {
        (Some(word), Some(CRLF)) => Ok(Bulk::Whole { word, end: at.saturating_add(whole) }),
        (Some(_), Some(_)) => Err(Fault::End),
        _ => Ok(Bulk::Part(Missing::Bytes(whole.saturating_sub(rest.len())))),
    }
}

struct Unreadable;

/// The number between a sign and the end of its line, and where what follows begins.
#[inline]
fn header(bytes: &[u8]) -> Result<Option<(i64, usize)>, Unreadable> {
    // Most have one digit or two.
    let digit = |byte: u8| i64::from(byte.wrapping_sub(b'0'));
    match *bytes {
        [_, a @ b'0'..=b'9', b'\r', b'\n', ..] => Ok(Some((digit(a), 4))),
        [_, a @ b'0'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Ok(Some((digit(a).wrapping_mul(10).wrapping_add(digit(b)), 5)))
        }
        _ => long_header(bytes),
    }
}

#[cold]
fn long_header(bytes: &[u8]) -> Result<Option<(i64, usize)>, Unreadable> {
    let window = bytes.get(..HEADER_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() < HEADER_BYTES_MAX { Ok(None) } else { Err(Unreadable) };
    };
    let digits = window.get(1..end).and_then(|line| line.strip_suffix(b"\r"));
    match digits.and_then(integer) {
        Some(number) => Ok(Some((number, end.saturating_add(1)))),
        None => Err(Unreadable),
    }
}

/// A whole number in digits, perhaps with a minus before them.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    match digits {
        [] => None,
        // So few digits make no number that is too large.
        [..] if digits.len() <= DIGITS_SAFE => {
            let add = |number: i64, byte: &u8| {
                let digit = i64::from(byte.wrapping_sub(b'0'));
                byte.is_ascii_digit().then_some(number.wrapping_mul(10).wrapping_add(digit))
            };
            let number = digits.iter().try_fold(0, add)?;
            Some(if is_negative { number.wrapping_neg() } else { number })
        }
        _ => long_integer(is_negative, digits),
    }
}

#[cold]
fn long_integer(is_negative: bool, digits: &[u8]) -> Option<i64> {
    let add = |number: i64, byte: &u8| {
        let digit = i64::from(byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?);
        let number = number.checked_mul(10)?;
        // The smallest number has no positive one beside it.
        if is_negative { number.checked_sub(digit) } else { number.checked_add(digit) }
    };
    digits.iter().try_fold(0, add)
}

fn parse_line<'a>(
    bytes: &'a [u8],
    bounds: &Bounds,
    words: &mut Words<'a>,
) -> Result<Option<usize>, Fault> {
    let window = bytes.get(..=bounds.line_bytes).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() > bounds.line_bytes { Err(Fault::Line) } else { Ok(None) };
    };
    let line = window.get(..end).unwrap_or_default();
    split_words(line, bounds, words)?;
    Ok(Some(end.saturating_add(1)))
}

/// Words stand between blanks, or in quotes if they have blanks themselves.
fn split_words<'a>(line: &'a [u8], bounds: &Bounds, words: &mut Words<'a>) -> Result<(), Fault> {
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        if words.len() >= bounds.arguments {
            return Err(bounds.count);
        }
        let word;
        (word, rest) = match first {
            b'"' | b'\'' => quoted(rest, *first)?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                rest.split_at_checked(end).unwrap_or((rest, &[]))
            }
        };
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Ok(())
}

/// What stands between two quotes, and what follows them: blanks, or nothing.
fn quoted(text: &[u8], quote: u8) -> Result<(&[u8], &[u8]), Fault> {
    let inside = text.get(1..).unwrap_or_default();
    let end = inside.iter().position(|byte| *byte == quote).ok_or(Fault::Quotes)?;
    let (word, rest) = inside.split_at_checked(end).ok_or(Fault::Quotes)?;
    match rest.get(1..) {
        Some(rest) if rest.first().is_none_or(u8::is_ascii_whitespace) => Ok((word, rest)),
        _ => Err(Fault::Quotes),
    }
}

/// How far a request that comes in pieces was looked at, so that nothing is looked at twice
/// however small the pieces are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    at: usize,
    /// How many words are still to come, once that is known.
    words: Option<usize>,
}

impl Scan {
    /// Moves bytes from `rest` to `head`, which has begun a request, until the request is whole,
    /// and no further. Returns whether it is.
    pub(super) fn fill(
        &mut self,
        head: &mut Vec<u8>,
        rest: &mut &[u8],
        bounds: &Bounds,
    ) -> Result<bool, Fault> {
        while let Some(missing) = self.missing(head, bounds)? {
            if rest.is_empty() {
                return Ok(false);
            }
            let length = match missing {
                Missing::Bytes(length) => length,
                Missing::Line => self.line_length(rest, head, bounds),
            };
            let taken = rest.split_at_checked(length);
            let (piece, behind) = taken.unwrap_or((rest, &[]));
            head.extend_from_slice(piece);
            *rest = behind;
        }
        Ok(true)
    }

    /// How much of `rest` belongs to a line that has begun: no more than makes it too long.
    fn line_length(&self, rest: &[u8], head: &[u8], bounds: &Bounds) -> usize {
        let (begun, most) = if head.first() == Some(&b'*') {
            (head.len().saturating_sub(self.at), HEADER_BYTES_MAX)
        } else {
            (head.len(), bounds.line_bytes.saturating_add(1))
        };
        let room = most.saturating_sub(begun);
        let window = rest.get(..room).unwrap_or(rest);
        let end = window.iter().position(|byte| *byte == b'\n');
        end.map_or(window.len(), |end| end.saturating_add(1))
    }

    fn missing(&mut self, head: &[u8], bounds: &Bounds) -> Result<Option<Missing>, Fault> {
        if head.first() != Some(&b'*') {
            return missing_of_line(head, bounds);
        }
        let mut words = match self.words {
            Some(words) => words,
            None => match count(head, bounds)? {
                Some((words, end)) => {
                    self.at = end;
                    words
                }
                None => return Ok(Some(Missing::Line)),
            },
        };
        while words > 0 {
            self.words = Some(words);
            match bulk(head, self.at, bounds)? {
                Bulk::Whole { end, .. } => self.at = end,
                Bulk::Part(missing) => return Ok(Some(missing)),
            }
            words = words.saturating_sub(1);
        }
        self.words = Some(0);
        Ok(None)
    }
}

fn missing_of_line(head: &[u8], bounds: &Bounds) -> Result<Option<Missing>, Fault> {
    let (has_end, length) = match head.split_last() {
        Some((b'\n', line)) => (true, line.len()),
        _ => (false, head.len()),
    };
    if length > bounds.line_bytes {
        return Err(Fault::Line);
    }
    Ok((!has_end).then_some(Missing::Line))
}
