//! Replies as bytes.

use ratekeeper::{Decision, Mistake, Nanos};

use crate::text::push_number;

/// How many bytes the text of an error has at most.
pub(super) const ERROR_BYTES_MAX: usize = 512;

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

/// When it is worth to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// It was not limited.
    Passed,
    /// Waiting does not help.
    Never,
    Later,
}

/// Five integers: whether it is limited, the burst, what is left, and in how many seconds the same
/// would pass and the bucket is full.
#[inline]
pub(super) fn five(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    out.extend_from_slice(b"*5\r\n");
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
    out.extend_from_slice(b"*6\r\n");
    five_integers(decision, burst, retry, out);
    bulk(name.as_bytes(), out);
}

#[inline]
fn five_integers(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    out.extend_from_slice(if retry == Retry::Passed { b":0\r\n" } else { b":1\r\n" });
    natural(saturating(burst), out);
    natural(saturating(decision.remaining), out);
    match retry {
        Retry::Later => natural(seconds(decision.retry_in), out),
        Retry::Passed | Retry::Never => out.extend_from_slice(b":-1\r\n"),
    }
    natural(seconds(decision.reset_in), out);
}

#[inline]
fn natural(number: u64, out: &mut Vec<u8>) {
    out.push(b':');
    push_number(number, out);
    out.extend_from_slice(b"\r\n");
}

/// Rounds up: a client told 0 s would come straight back and be refused again.
#[inline]
fn seconds(length: Nanos) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let nanos = length.get();
    if let Ok(nanos) = u64::try_from(nanos) {
        return nanos.div_ceil(SECOND);
    }
    saturating(u64::try_from(nanos.div_ceil(SECOND.into())).unwrap_or(u64::MAX))
}

/// The largest integer that clients can read, for what is larger.
#[inline]
fn saturating(number: u64) -> u64 {
    number.min(i64::MAX.unsigned_abs())
}

/// An integer.
pub(super) fn integer(number: i64, out: &mut Vec<u8>) {
    out.push(b':');
    if number < 0 {
        out.push(b'-');
    }
    push_number(number.unsigned_abs(), out);
    out.extend_from_slice(b"\r\n");
}

/// Begins an array of so many elements.
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

fn header(sign: u8, length: usize, out: &mut Vec<u8>) {
    out.push(sign);
    push_number(length as u64, out);
    out.extend_from_slice(b"\r\n");
}
