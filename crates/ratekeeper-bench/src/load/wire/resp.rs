//! RESP, versions 2 and 3: what Redis, its kin and servers with a throttle command speak.

use super::template::Template;
use super::{Answer, Strange, Taken, Wire, line};

/// How deep arrays can stand in arrays.
const LEVELS_MAX: usize = 8;
/// How many elements an array can have.
const ELEMENTS_MAX: i64 = 1 << 16;

/// A command, and what comes back.
pub(crate) struct RespWire {
    template: Template,
    /// The number that says no, if it is the answer or the first in it.
    denied: Option<i64>,
}

impl RespWire {
    /// One for as many keys as the empty template is for.
    pub(crate) fn new(empty: Template, words: &[String], denied: Option<i64>) -> Self {
        let mut template = empty.bytes(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            let length = template.length(word);
            template = template.bytes(format!("${length}\r\n").as_bytes());
            template = template.text(word).bytes(b"\r\n");
        }
        Self { template, denied }
    }
}

impl Wire for RespWire {
    fn ask(&self, key: u64, out: &mut Vec<u8>) {
        self.template.write(key, out);
    }

    fn answer<'a>(&self, received: &'a [u8]) -> Result<Option<Taken<'a>>, Strange> {
        let Some((value, length)) = read(received, LEVELS_MAX)? else { return Ok(None) };
        let answer = match value {
            Value::Error(words) => Answer::Error(words),
            Value::Integer(number) if Some(number) == self.denied => Answer::Denied,
            _ => Answer::Allowed,
        };
        Ok(Some((answer, length)))
    }
}

/// What an answer says, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Error(&'a [u8]),
    Integer(i64),
    Text(&'a [u8]),
    Null,
}

impl Value<'_> {
    /// What a text says if it is that of an error.
    fn as_error(self) -> Self {
        if let Self::Text(words) = self { Self::Error(words) } else { self }
    }
}

/// The first value and how many bytes it takes; nothing if it is not complete. An array is what
/// its first element is.
pub(crate) fn read(received: &[u8], levels: usize) -> Result<Option<(Value<'_>, usize)>, Strange> {
    let Some((line, at)) = line(received) else { return Ok(None) };
    let (kind, rest) = line.split_first().ok_or(Strange)?;
    let array = |fields: i64| {
        let count = number(rest)?.checked_mul(fields).ok_or(Strange)?;
        array(received, count, at, levels.checked_sub(1).ok_or(Strange)?)
    };
    match kind {
        b'-' => Ok(Some((Value::Error(rest), at))),
        // A double and a number without bounds are told apart by nobody here.
        b'+' | b',' | b'(' => Ok(Some((Value::Text(rest), at))),
        b':' => Ok(Some((Value::Integer(number(rest)?), at))),
        b'#' => Ok(Some((Value::Integer((rest == b"t").into()), at))),
        b'_' => Ok(Some((Value::Null, at))),
        b'$' | b'=' => bulk(received, number(rest)?, at),
        b'!' => Ok(bulk(received, number(rest)?, at)?.map(|(value, end)| (value.as_error(), end))),
        b'*' | b'~' => array(1),
        // A key and a value each.
        b'%' => array(2),
        _ => Err(Strange),
    }
}

fn bulk(received: &[u8], length: i64, at: usize) -> Result<Option<(Value<'_>, usize)>, Strange> {
    if length == -1 {
        return Ok(Some((Value::Null, at)));
    }
    let length = usize::try_from(length).map_err(|_| Strange)?;
    let end = at.checked_add(length).and_then(|end| end.checked_add(2)).ok_or(Strange)?;
    let Some(bytes) = received.get(at..end) else { return Ok(None) };
    let text = bytes.strip_suffix(b"\r\n").ok_or(Strange)?;
    Ok(Some((Value::Text(text), end)))
}

fn array(
    received: &[u8],
    count: i64,
    mut at: usize,
    levels: usize,
) -> Result<Option<(Value<'_>, usize)>, Strange> {
    if !(-1..=ELEMENTS_MAX).contains(&count) {
        return Err(Strange);
    }
    let mut first = None;
    for _ in 0..count {
        let Some((value, length)) = read(&received[at..], levels)? else { return Ok(None) };
        at += length;
        first = first.or(Some(value));
    }
    Ok(Some((first.unwrap_or(Value::Null), at)))
}

fn number(text: &[u8]) -> Result<i64, Strange> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Strange)
}
