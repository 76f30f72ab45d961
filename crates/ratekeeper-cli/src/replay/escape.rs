//! Bytes on a line, with the escapes of C.

/// Each letter that may follow a backslash, and the byte it stands for.
const LETTERS: [(u8, u8); 12] = [
    (b'n', b'\n'),
    (b'r', b'\r'),
    (b't', b'\t'),
    (b'\\', b'\\'),
    (b'a', 0x07),
    (b'b', 0x08),
    (b'f', 0x0c),
    (b'v', 0x0b),
    (b'e', 0x1b),
    (b'\'', b'\''),
    (b'"', b'"'),
    (b'?', b'?'),
];
/// Those that are written; the others are only read.
const WRITTEN: usize = 4;

/// How many digits an escape has at most. C has no such bound for hexadecimal ones; then a byte
/// could not be followed by the letter `a`.
const HEX_DIGITS_MAX: usize = 2;
const OCTAL_DIGITS_MAX: usize = 3;

/// Why a text says no bytes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadEscape {
    #[error("column {column}: the backslash is the last of the line: write one as \\\\")]
    Unfinished { column: usize },
    #[error(
        "column {column}: \\{found} is no escape: expected \\n, \\r, \\t, \\\\, \\xHH or \\OOO"
    )]
    Unknown { column: usize, found: String },
    #[error("column {column}: \\x needs one or two hexadecimal digits")]
    NoDigits { column: usize },
    #[error("column {column}: \\{digits} is more than a byte holds: at most \\377")]
    TooLarge { column: usize, digits: String },
}

/// Appends `bytes` so that they are printable ASCII.
pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match LETTERS[..WRITTEN].iter().find(|(_, stands_for)| stands_for == byte) {
            Some((letter, _)) => out.extend([b'\\', *letter]),
            None if matches!(byte, b' '..=b'~') => out.push(*byte),
            None => {
                out.extend(b"\\x");
                out.extend(hex(*byte));
            }
        }
    }
}

/// The bytes that `text` says, which begins at a column. Any byte but a backslash stands for
/// itself.
pub(super) fn read(text: &[u8], column: usize) -> Result<Vec<u8>, BadEscape> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let byte;
        (byte, rest) = read_escape(behind, column + (text.len() - rest.len()))?;
        bytes.push(byte);
    }
    Ok(bytes)
}

/// The byte that the escape behind a backslash says, and what is behind it.
fn read_escape(text: &[u8], column: usize) -> Result<(u8, &[u8]), BadEscape> {
    let (letter, rest) = text.split_first().ok_or(BadEscape::Unfinished { column })?;
    if let Some((_, stands_for)) = LETTERS.iter().find(|(known, _)| known == letter) {
        return Ok((*stands_for, rest));
    }
    match letter {
        b'x' => {
            let (value, rest) = read_digits(rest, 16, HEX_DIGITS_MAX);
            let byte = value.and_then(|value| u8::try_from(value).ok());
            Ok((byte.ok_or(BadEscape::NoDigits { column })?, rest))
        }
        b'0'..=b'7' => {
            let (value, rest) = read_digits(text, 8, OCTAL_DIGITS_MAX);
            let byte = value.and_then(|value| u8::try_from(value).ok());
            let digits = || text[..text.len() - rest.len()].escape_ascii().to_string();
            Ok((byte.ok_or_else(|| BadEscape::TooLarge { column, digits: digits() })?, rest))
        }
        other => Err(BadEscape::Unknown { column, found: other.escape_ascii().to_string() }),
    }
}

/// The number that up to `max` digits say, if there is one, and what is behind it.
fn read_digits(text: &[u8], radix: u8, max: usize) -> (Option<u16>, &[u8]) {
    let digits: Vec<u8> = text.iter().take(max).map_while(|byte| digit(*byte, radix)).collect();
    let add = |sum, digit: &u8| sum * u16::from(radix) + u16::from(*digit);
    let value = (!digits.is_empty()).then(|| digits.iter().fold(0, add));
    (value, &text[digits.len()..])
}

/// The two digits of a byte.
pub(super) fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)])
}

/// What a digit counts.
pub(super) fn digit(byte: u8, radix: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(radix.into())?;
    u8::try_from(digit).ok()
}
