//! Replies as Redis writes them, in versions 2 and 3 of its protocol.

use std::fmt;

/// How deep arrays in arrays can be.
const DEPTH_MAX: usize = 8;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text of one line, or of any.
    Text(String),
    /// What is wrong, in the words of the server.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// There is no such value.
    Nothing,
    /// Several, in order.
    Array(Vec<Self>),
}

/// What keeps bytes from being a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// More have to come.
    Short,
    /// Whatever comes.
    Wrong,
}

/// How many bytes the first reply takes; nothing if it is not complete. All of them if they are no
/// reply, so that nobody waits for the rest of it.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    match read(bytes, DEPTH_MAX) {
        Ok((_, rest)) => Some(bytes.len() - rest.len()),
        Err(Stop::Short) => None,
        Err(Stop::Wrong) => Some(bytes.len()),
    }
}

impl Value {
    /// The reply that `bytes` are, if they are one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        read(bytes, DEPTH_MAX).ok().map(|(value, _)| value)
    }
}

fn read(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), Stop> {
    let Some((sign, behind)) = bytes.split_first() else { return Err(Stop::Short) };
    if !b"+-:$*,(#_=!%~".contains(sign) {
        return Err(Stop::Wrong);
    }
    let end = behind.windows(2).position(|pair| pair == b"\r\n").ok_or(Stop::Short)?;
    let (line, rest) = (&behind[..end], &behind[end + 2..]);
    let text = String::from_utf8_lossy(line).into_owned();
    let number = || text.parse::<i64>().map_err(|_| Stop::Wrong);
    match sign {
        b'+' | b',' | b'(' => Ok((Value::Text(text), rest)),
        b'#' => Ok((Value::Text(if text == "t" { "true" } else { "false" }.into()), rest)),
        b'_' => Ok((Value::Nothing, rest)),
        b'-' => Ok((Value::Error(text), rest)),
        b':' => Ok((Value::Integer(number()?), rest)),
        sign => match (usize::try_from(number()?), sign) {
            (Err(_), _) => Ok((Value::Nothing, rest)),
            (Ok(length), b'$') => bulk(rest, length).map(|(text, rest)| (Value::Text(text), rest)),
            // Behind the three letters of its kind and a colon.
            (Ok(length), b'=') => {
                let (text, rest) = bulk(rest, length)?;
                Ok((Value::Text(text.get(4..).unwrap_or_default().into()), rest))
            }
            (Ok(length), b'!') => bulk(rest, length).map(|(text, rest)| (Value::Error(text), rest)),
            // A key and a value each.
            (Ok(length), b'%') => array(rest, length.checked_mul(2).ok_or(Stop::Wrong)?, depth),
            (Ok(length), _) => array(rest, length, depth),
        },
    }
}

fn bulk(bytes: &[u8], length: usize) -> Result<(String, &[u8]), Stop> {
    let (text, rest) = bytes.split_at_checked(length).ok_or(Stop::Short)?;
    let (end, rest) = rest.split_at_checked(2).ok_or(Stop::Short)?;
    let text = String::from_utf8_lossy(text).into_owned();
    if end == b"\r\n" { Ok((text, rest)) } else { Err(Stop::Wrong) }
}

fn array(bytes: &[u8], length: usize, depth: usize) -> Result<(Value, &[u8]), Stop> {
    let depth = depth.checked_sub(1).ok_or(Stop::Wrong)?;
    let (mut values, mut rest) = (Vec::new(), bytes);
    for _ in 0..length {
        let value;
        (value, rest) = read(rest, depth)?;
        values.push(value);
    }
    Ok((Value::Array(values), rest))
}

/// The values of an array in a row; arrays in it in brackets.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Error(text) => f.write_str(text.trim_end()),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Nothing => f.write_str("(none)"),
            Self::Array(values) => {
                for (place, value) in values.iter().enumerate() {
                    let blank = if place == 0 { "" } else { " " };
                    match value {
                        Self::Array(_) => write!(f, "{blank}[{value}]")?,
                        value => write!(f, "{blank}{value}")?,
                    }
                }
                Ok(())
            }
        }
    }
}
