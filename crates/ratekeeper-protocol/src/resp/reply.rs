//! Replies as bytes.

use ratekeeper::{Decision, Mistake, Nanos};

use crate::number::{self, End};

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
/// would pass and the bucket is full. Asks in a row are often of one burst, which is written once.
pub(super) struct Five {
    burst: u64,
    /// What all begin with that are not limited, up to the sign of what is left. Nothing if the burst
    /// is longer than there is room for.
    head: Option<([u8; HEAD_BYTES_MAX], usize)>,
}

/// `*5`, the first integer and the sign of the second; then up to eight digits, and the next sign.
const HEAD_BYTES_MAX: usize = FIVE.len() + 16;
const FIVE: &[u8; 9] = b"*5\r\n:0\r\n:";
/// The end of an integer, and what follows it.
const NEXT: End = End::new(b"\r\n:");
const NO_RETRY: End = End::new(b"\r\n:-1\r\n:");
const LAST: End = End::new(b"\r\n");

impl Five {
    #[inline]
    pub(super) fn new(burst: u64) -> Self {
        let head = number::short_with(burst, NEXT).map(|(burst, count)| {
            let mut head = [0; HEAD_BYTES_MAX];
            head[..9].copy_from_slice(FIVE);
            head[9..].copy_from_slice(&burst);
            (head, FIVE.len().wrapping_add(count))
        });
        Self { burst, head }
    }

    #[inline]
    pub(super) fn write(&self, decision: &Decision, retry: Retry, out: &mut Vec<u8>) {
        let (left, full) = (decision.remaining, seconds(decision.reset_in));
        // As most are. All is copied, and some of it cut off again: of known length, it is no call.
        if let (Retry::Passed, Some((head, head_count))) = (retry, self.head)
            && let Some((left, left_count)) = number::short_with(left, NO_RETRY)
            && let Some((full, full_count)) = number::short_with(full, LAST)
        {
            number::push(&head, head_count, out);
            number::push(&left, left_count, out);
            number::push(&full, full_count, out);
        } else {
            five(decision, self.burst, retry, out);
        }
    }
}

/// The same, where the burst is not known from before.
pub(super) fn five(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    out.extend_from_slice(b"*5\r\n:");
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
    out.extend_from_slice(b"*6\r\n:");
    five_integers(decision, burst, retry, out);
    bulk(name.as_bytes(), out);
}

/// The first without its sign. The end of each line is written with the sign of the next: copies are
/// fewer so, and their lengths are known.
#[inline(never)]
fn five_integers(decision: &Decision, burst: u64, retry: Retry, out: &mut Vec<u8>) {
    out.extend_from_slice(if retry == Retry::Passed { b"0\r\n:" } else { b"1\r\n:" });
    let (burst, left) = (saturating(burst), saturating(decision.remaining));
    let full = seconds(decision.reset_in);
    let integers: &[_] = match retry {
        Retry::Later => {
            let again = seconds(decision.retry_in);
            &[(burst, NEXT), (left, NEXT), (again, NEXT), (full, LAST)]
        }
        Retry::Passed | Retry::Never => &[(burst, NEXT), (left, NO_RETRY), (full, LAST)],
    };
    for (integer, end) in integers {
        number::write_with(*integer, *end, out);
    }
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
    number::write(number.unsigned_abs(), out);
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
    number::write(length as u64, out);
    out.extend_from_slice(b"\r\n");
}
