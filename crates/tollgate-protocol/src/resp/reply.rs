//! Replies as bytes.

use tollgate::{Decision, Mistake, Nanos};

use crate::number;

/// How many bytes the text of an error has at most.
pub(super) const ERROR_BYTES_MAX: usize = 512;

/// Five integers of up to 20 bytes, each with a sign and the end of its line, and how many they are.
const FIVE_BYTES_MAX: usize = 5 * 23 + 4;

/// How replies are written that differ between versions of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Two,
    Three,
}

impl Protocol {
    /// Its number.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }

    /// Begins a map of so many pairs.
    pub(super) fn map(self, pairs: usize, out: &mut Vec<u8>) {
        match self {
            Self::Two => header(b'*', pairs.saturating_mul(2), out),
            Self::Three => header(b'%', pairs, out),
        }
    }

    /// What stands for nothing.
    pub(super) fn null(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Two => b"$-1\r\n",
            Self::Three => b"_\r\n",
        });
    }
}

/// Five integers: whether it is limited, the burst, what is left, and in how many seconds the same
/// would pass and the bucket is full.
#[inline]
pub(super) fn five(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    out.reserve(FIVE_BYTES_MAX);
    array(5, out);
    five_integers(decision, burst, retry, out);
}

/// The same, with who decided it.
pub(super) fn five_and_name(
    decision: &Decision,
    burst: u64,
    retry: Retry,
    name: &str,
    out: &mut Vec<u8>,
) {
    array(6, out);
    five_integers(decision, burst, retry, out);
    bulk(name.as_bytes(), out);
}

/// When it is worth to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// It was not limited.
    Passed,
    /// Waiting does not help.
    Never,
    Later,
}

#[inline]
fn five_integers(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    integer((retry != Retry::Passed).into(), out);
    integer(saturating(burst), out);
    integer(saturating(decision.remaining), out);
    match retry {
        Retry::Later => integer(seconds(decision.retry_in), out),
        Retry::Passed | Retry::Never => out.extend_from_slice(b":-1\r\n"),
    }
    integer(seconds(decision.reset_in), out);
}

/// Rounds up: a client told 0 s would come straight back and be refused again.
#[inline]
fn seconds(length: Nanos) -> i64 {
    const SECOND: u64 = 1_000_000_000;
    let nanos = u64::try_from(length.get());
    let seconds = match nanos {
        Ok(nanos) => i64::try_from(nanos.div_ceil(SECOND)),
        Err(_) => i64::try_from(length.get().div_ceil(SECOND.into())),
    };
    seconds.unwrap_or(i64::MAX)
}

#[inline]
fn saturating(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An integer.
#[inline]
pub(super) fn integer(number: i64, out: &mut Vec<u8>) {
    out.push(b':');
    digits(number, out);
}

/// Begins an array of so many elements.
#[inline]
pub(super) fn array(elements: usize, out: &mut Vec<u8>) {
    header(b'*', elements, out);
}

/// A text of any bytes.
pub(super) fn bulk(text: &[u8], out: &mut Vec<u8>) {
    header(b'$', text.len(), out);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A word that has no end of a line in it.
pub(super) fn status(text: &str, out: &mut Vec<u8>) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// An error of several parts, which may come from a client: what would end its line is a blank, and
/// what is too long is cut off.
pub(super) fn error(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.push(b'-');
    let bytes = parts.iter().flat_map(|part| part.iter()).take(ERROR_BYTES_MAX);
    out.extend(bytes.map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// What is wrong with an ask, in its own words.
#[cold]
pub(super) fn mistake(mistake: &Mistake, out: &mut Vec<u8>) {
    error(&[b"ERR ", mistake.to_string().as_bytes()], out);
}

#[inline]
fn header(sign: u8, length: usize, out: &mut Vec<u8>) {
    out.push(sign);
    digits(i64::try_from(length).unwrap_or(i64::MAX), out);
}

/// The number and the end of the line.
#[inline]
fn digits(number: i64, out: &mut Vec<u8>) {
    if let Ok(digit @ 0..10) = u8::try_from(number) {
        // Most are, and one write is less than two.
        out.extend_from_slice(&[digit.wrapping_add(b'0'), b'\r', b'\n']);
        return;
    }
    if number < 0 {
        out.push(b'-');
    }
    number::write(number.unsigned_abs(), out);
    out.extend_from_slice(b"\r\n");
}
