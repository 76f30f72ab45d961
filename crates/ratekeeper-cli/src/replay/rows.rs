//! A row: a time, a tab, and bytes that are written so that they fit on a line.

use ratekeeper::Moment;

use super::escape::{self, BadEscape};
use super::lines::LINE_BYTES_MAX;
use super::unix_time::{self, BadTime};

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// As they are, with the escapes of C.
    Escaped,
    /// In hexadecimal.
    Hex,
}

/// What was received, and when.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at: Moment,
    pub(super) bytes: Vec<u8>,
}

/// Why a line is no row.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRow {
    #[error("it is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("it has no tab: expected a time, a tab, and what was received then")]
    NoTab,
    #[error("it has a second tab: expected a time, a tab, and what was received then{0}")]
    SecondTab(&'static str),
    #[error("it ends in a carriage return: end it by a newline alone{0}")]
    CarriageReturn(&'static str),
    #[error("`{time}` is not a time: {bad}")]
    Time { time: String, bad: BadTime },
    #[error("{0}")]
    Escape(#[from] BadEscape),
    #[error("column {column}: expected a hexadecimal digit, found `{found}`")]
    NotHex { column: usize, found: String },
    #[error("expected two hexadecimal digits for each byte, found {digits} digits in all")]
    OddHex { digits: usize },
}

impl Row {
    /// The row that a line says. Refuses whatever it does not fully understand.
    pub(super) fn parse(line: &[u8], coding: Coding) -> Result<Self, BadRow> {
        if line.ends_with(b"\r") {
            return Err(BadRow::CarriageReturn(
                coding.advice(r", and write one that was sent as \r"),
            ));
        }
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or(BadRow::NoTab)?;
        let (time, bytes) = (&line[..tab], &line[tab + 1..]);
        if bytes.contains(&b'\t') {
            return Err(BadRow::SecondTab(coding.advice(r", in which a tab is written \t")));
        }
        let at = unix_time::parse(time).map_err(|bad| {
            let time = time.escape_ascii().to_string();
            BadRow::Time { time, bad }
        })?;
        // Columns are counted from 1, over the whole line.
        Ok(Self { at, bytes: coding.decode(bytes, tab + 2)? })
    }
}

impl Coding {
    /// Appends `bytes` as they are written.
    pub(super) fn encode(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Escaped => escape::write(bytes, out),
            Self::Hex => out.extend(bytes.iter().flat_map(|byte| escape::hex(*byte))),
        }
    }

    /// The bytes that `text` says, which begins at a column.
    fn decode(self, text: &[u8], column: usize) -> Result<Vec<u8>, BadRow> {
        match self {
            Self::Escaped => Ok(escape::read(text, column)?),
            Self::Hex => decode_hex(text, column),
        }
    }

    /// What only those need to know who can write a byte in two ways.
    fn advice(self, advice: &'static str) -> &'static str {
        if self == Self::Escaped { advice } else { "" }
    }
}

fn decode_hex(text: &[u8], column: usize) -> Result<Vec<u8>, BadRow> {
    let digit = |(index, byte): (usize, &u8)| {
        escape::digit(*byte, 16).ok_or_else(|| BadRow::NotHex {
            column: column + index,
            found: byte.escape_ascii().to_string(),
        })
    };
    let digits = text.iter().enumerate().map(digit).collect::<Result<Vec<u8>, _>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(BadRow::OddHex { digits: digits.len() });
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
