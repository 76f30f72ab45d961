//! What the head of a request must be clear about: whom it is for, and where its body ends.
//!
//! Others may read the same bytes before us, such as a proxy or a filter. Where a head can be read
//! in two ways they may have read it in the other, so it is refused rather than guessed at.

use axum::http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Request};
use hyper::body::Body;

use super::body;
use super::problem::{self, Problem};
use crate::settings::HttpSettings;

/// Refuses a head with two hosts, or with a coding of the body that is not `chunked` alone.
pub(super) fn check_head(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get_all(HOST).iter().count() > 1 {
        let detail = "the request has more than one Host, and each may mean somebody else";
        return Err(Problem::new(&problem::TWO_HOSTS, detail));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => {
            let detail = "the body is coded in a way that is not decoded here";
            Err(Problem::new(&problem::UNKNOWN_CODING, detail))
        }
    }
}

/// Refuses a body that says how long it will be, if that is too much, whether or not the route
/// reads one.
pub(super) fn check_announced<B: Body>(
    request: &Request<B>,
    settings: &HttpSettings,
) -> Result<(), Problem> {
    let bytes_max = body::bytes_max(request.uri().path(), settings);
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max { Err(body::too_large(bytes_max)) } else { Ok(()) }
}

/// So many digits always fit in 64 bits, and are always more than a body can have.
const LENGTH_DIGITS_MAX: u32 = 19;

/// More digits than this are left to hyper, which knows how long a head may be.
const LENGTH_DIGITS_DROPPED_MAX: u32 = 1 << 10;

/// Shortens a `Content-Length` of more digits than hyper can read, while a head passes by: such a
/// length is still too much, and is then refused like every other that is. hyper would call it no
/// number.
///
/// It reads one head, which may come in pieces. What stands behind the head it leaves alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum LengthClamp {
    /// In a line, so many bytes of which are the beginning of the field; nothing if it is another.
    Line { matched: Option<usize>, is_empty: bool },
    /// In the value, with so many digits behind its zeros.
    Value { digits: u32 },
    /// Behind the head.
    #[default]
    Over,
}

impl LengthClamp {
    /// At the beginning of a head.
    pub(super) const fn new() -> Self {
        // The request line is never the field, but it may be an empty line before that.
        Self::Line { matched: Some(0), is_empty: false }
    }

    /// Moves the bytes that stay to the front, and says how many they are.
    pub(super) fn shorten(&mut self, bytes: &mut [u8]) -> usize {
        if matches!(self, Self::Over) {
            return bytes.len();
        }
        let mut kept = 0;
        for at in 0..bytes.len() {
            let byte = bytes[at];
            if self.keeps(byte) {
                bytes[kept] = byte;
                kept += 1;
            }
        }
        kept
    }

    fn keeps(&mut self, byte: u8) -> bool {
        let name = CONTENT_LENGTH.as_str().as_bytes();
        *self = match *self {
            Self::Over => Self::Over,
            Self::Line { is_empty: true, .. } if byte == b'\n' => Self::Over,
            Self::Line { .. } | Self::Value { .. } if byte == b'\n' => {
                Self::Line { matched: Some(0), is_empty: true }
            }
            Self::Line { is_empty, .. } if byte == b'\r' => Self::Line { matched: None, is_empty },
            Self::Line { matched: Some(count), .. } if count == name.len() && byte == b':' => {
                Self::Value { digits: 0 }
            }
            Self::Line { matched, .. } => {
                let is_next = |count: &usize| {
                    name.get(*count).is_some_and(|it| it.eq_ignore_ascii_case(&byte))
                };
                Self::Line { matched: matched.filter(is_next).map(|it| it + 1), is_empty: false }
            }
            Self::Value { digits } if byte.is_ascii_digit() && (digits > 0 || byte != b'0') => {
                Self::Value { digits: digits.saturating_add(1) }
            }
            Self::Value { digits } => Self::Value { digits },
        };
        let dropped = LENGTH_DIGITS_MAX + 1..=LENGTH_DIGITS_DROPPED_MAX;
        !matches!(self, Self::Value { digits } if byte.is_ascii_digit() && dropped.contains(digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a head that comes in two pieces.
    fn shortened(head: &str, cut: usize) -> String {
        let mut clamp = LengthClamp::new();
        let (first, second) = head.split_at(cut);
        let mut left = Vec::new();
        for piece in [first, second] {
            let mut bytes = piece.as_bytes().to_vec();
            let kept = clamp.shorten(&mut bytes);
            left.extend_from_slice(&bytes[..kept]);
        }
        String::from_utf8(left).unwrap()
    }

    #[test]
    fn only_a_length_of_too_many_digits_is_shortened_wherever_the_head_is_cut() {
        let line = "POST /v1/spend HTTP/1.1\r\n";
        let long = "9".repeat(45);
        let cases = [
            (format!("content-LENGTH: {long}\r\nX: {long}\r\n\r\n"), 26),
            (format!("A: b\r\nContent-Length:{long}\r\n\r\nContent-Length: {long}\r\n"), 26),
            (format!("Content-Length: 00000000000000000000000{long}x\n\n{long}"), 26),
            ("Content-Length: 18446744073709551615\r\n\r\n".into(), 1),
            ("Content-Length: 9223372036854775808\r\n\r\n".into(), 0),
            (format!("X-Content-Length: {long}\r\nContent-Length-X: {long}\r\n\r\n"), 0),
            (format!("\r\nContent-Length: {long}\r\n"), 0),
        ];
        for (fields, dropped) in cases {
            let head = format!("{line}{fields}");
            for cut in 0..=head.len() {
                let left = shortened(&head, cut);
                assert_eq!(left.len() + dropped, head.len(), "{head:?} at {cut}: {left:?}");
            }
        }
    }
}
