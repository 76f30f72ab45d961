//! Looks at the heads of HTTP/1 requests on their way to hyper, and tells what hyper would hide: a length of
//! more digits than it can read, and a length beside a coding, of which it drops the length.

use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

/// So many digits always fit in 64 bits, and are always more than a body can have.
const LENGTH_DIGITS_MAX: u32 = 19;

/// More digits than this are left to hyper, which knows how long a head may be.
const LENGTH_DIGITS_DROPPED_MAX: u32 = 1 << 10;

/// Reads a stream of requests, which may come in any pieces. It follows where bodies end, so that it finds
/// each head; what hyper refuses ends the connection, and need not be followed.
///
/// A `Content-Length` of more digits than hyper can read is shortened: such a length is still too much,
/// and is then refused like every other that is. hyper would call it no number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadWatch {
    place: Place,
    /// Whether the head that is being read has a coding.
    has_coding: bool,
    /// The length that it has, as far as it was read.
    length: Option<u64>,
    /// How many heads were read to their end.
    heads: u64,
    /// Which of them, counted from one, is the first that says in two ways where its body ends.
    two_ends: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// In the request line, or an empty line before it.
    First {
        is_empty: bool,
    },
    /// In a line of a head, so many bytes of which are the beginning of either field.
    Line {
        length: Option<usize>,
        coding: Option<usize>,
        is_empty: bool,
    },
    /// In a length, with so many digits behind its zeros.
    Length {
        digits: u32,
    },
    Body {
        left: u64,
    },
    /// In the line that says how long a chunk is.
    ChunkSize {
        size: u64,
        is_over: bool,
    },
    /// In a chunk, or the end of line behind it.
    Chunk {
        left: u64,
    },
    /// Behind the last chunk.
    Trailer {
        is_empty: bool,
    },
    /// Where nothing is followed any more.
    #[default]
    Over,
}

impl Place {
    const HEAD: Self = Self::First { is_empty: true };
    const LINE: Self = Self::Line { length: Some(0), coding: Some(0), is_empty: true };
    const CHUNK: Self = Self::ChunkSize { size: 0, is_over: false };
}

impl HeadWatch {
    /// At the beginning of a head.
    pub(super) fn new() -> Self {
        Self { place: Place::HEAD, ..Self::default() }
    }

    /// Which head, counted from one, was the first with both a length and a coding.
    pub(super) const fn two_ends(&self) -> Option<u64> {
        self.two_ends
    }

    /// Moves the bytes that stay to the front, and says how many they are.
    pub(super) fn shorten(&mut self, bytes: &mut [u8]) -> usize {
        let (mut kept, mut at) = (0, 0);
        while at < bytes.len() {
            let passed = self.pass(bytes.len() - at);
            if passed > 0 {
                bytes.copy_within(at..at + passed, kept);
                kept += passed;
                at += passed;
                continue;
            }
            let byte = bytes[at];
            at += 1;
            if self.keeps(byte) {
                bytes[kept] = byte;
                kept += 1;
            }
        }
        kept
    }

    /// How many of so many bytes are not looked at one by one.
    fn pass(&mut self, count: usize) -> usize {
        let (left, behind) = match &mut self.place {
            Place::Over => return count,
            Place::Body { left } => (left, Place::HEAD),
            Place::Chunk { left } => (left, Place::CHUNK),
            _ => return 0,
        };
        let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(count);
        *left -= passed as u64;
        if *left == 0 {
            self.place = behind;
        }
        passed
    }

    fn keeps(&mut self, byte: u8) -> bool {
        self.place = match self.place {
            Place::First { is_empty: false } if byte == b'\n' => Place::LINE,
            Place::First { is_empty } => {
                Place::First { is_empty: is_empty && matches!(byte, b'\r' | b'\n') }
            }
            Place::Line { is_empty: true, .. } if byte == b'\n' => self.head_ended(),
            Place::Line { .. } | Place::Length { .. } if byte == b'\n' => Place::LINE,
            Place::Line { is_empty, .. } if byte == b'\r' => {
                Place::Line { length: None, coding: None, is_empty }
            }
            Place::Line { length, coding, .. } => self.in_line(length, coding, byte),
            Place::Length { digits } => self.in_length(digits, byte),
            Place::ChunkSize { size, is_over } => chunk_size(size, is_over, byte),
            Place::Trailer { is_empty: true } if byte == b'\n' => Place::HEAD,
            Place::Trailer { is_empty } => {
                Place::Trailer { is_empty: byte == b'\n' || (is_empty && byte == b'\r') }
            }
            place @ (Place::Body { .. } | Place::Chunk { .. } | Place::Over) => place,
        };
        let dropped = LENGTH_DIGITS_MAX + 1..=LENGTH_DIGITS_DROPPED_MAX;
        let is_dropped =
            matches!(self.place, Place::Length { digits } if dropped.contains(&digits));
        !(is_dropped && byte.is_ascii_digit())
    }

    fn in_line(&mut self, length: Option<usize>, coding: Option<usize>, byte: u8) -> Place {
        let next = |matched: Option<usize>, name: &str| {
            let is_next = |at: &usize| {
                name.as_bytes().get(*at).is_some_and(|it| it.eq_ignore_ascii_case(&byte))
            };
            matched.filter(is_next).map(|at| at + 1)
        };
        let (length_name, coding_name) = (CONTENT_LENGTH.as_str(), TRANSFER_ENCODING.as_str());
        if byte == b':' && length == Some(length_name.len()) {
            self.length = Some(0);
            return Place::Length { digits: 0 };
        }
        self.has_coding |= byte == b':' && coding == Some(coding_name.len());
        let (length, coding) = (next(length, length_name), next(coding, coding_name));
        Place::Line { length, coding, is_empty: false }
    }

    fn in_length(&mut self, digits: u32, byte: u8) -> Place {
        if byte.is_ascii_digit() {
            let digit = u64::from(byte - b'0');
            self.length = self.length.map(|it| it.saturating_mul(10).saturating_add(digit));
        }
        let counts = byte.is_ascii_digit() && (digits > 0 || byte != b'0');
        Place::Length { digits: digits.saturating_add(u32::from(counts)) }
    }

    /// What is behind the head that ends here.
    fn head_ended(&mut self) -> Place {
        self.heads += 1;
        match (std::mem::take(&mut self.has_coding), self.length.take()) {
            (true, Some(_)) => {
                self.two_ends = Some(self.heads);
                Place::Over
            }
            (true, None) => Place::CHUNK,
            (false, Some(left @ 1..)) => Place::Body { left },
            (false, _) => Place::HEAD,
        }
    }
}

fn chunk_size(size: u64, is_over: bool, byte: u8) -> Place {
    match (byte, char::from(byte).to_digit(16)) {
        (b'\n', _) if size == 0 => Place::Trailer { is_empty: true },
        // With the end of line behind it.
        (b'\n', _) => Place::Chunk { left: size.saturating_add(2) },
        (_, Some(digit)) if !is_over => {
            let size = size.saturating_mul(16).saturating_add(u64::from(digit));
            Place::ChunkSize { size, is_over }
        }
        _ => Place::ChunkSize { size, is_over: true },
    }
}

#[cfg(test)]
mod tests;
