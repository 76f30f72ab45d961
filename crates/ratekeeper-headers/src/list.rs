//! Structured fields (RFC 9651), as far as fields about limits use them: lists of items with
//! parameters, and dictionaries of items. A field with anything else in it is malformed.

use super::number::Number;

/// The most digits of an integer, and of a decimal in front of its point and behind it.
const INTEGER_DIGITS_MAX: usize = 15;
const DECIMAL_DIGITS_MAX: (usize, usize) = (12, 3);
/// No name is longer. The longest that a Ratekeeper server writes fits.
pub(super) const NAME_BYTES_MAX: usize = 4 << 10;

/// The field is not what it should be, so nothing in it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// One item without its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bare<'h> {
    /// A string as it is written between its quotes, escapes and all, or a token.
    Text(&'h str),
    /// An integer or decimal that is not negative.
    Number(Number),
    /// What no field about limits gives a meaning.
    Other,
}

/// One item of a list, with the parameters that say something about a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Member<'h> {
    /// All of it, as it is written.
    pub(super) text: &'h str,
    pub(super) item: Bare<'h>,
    /// `q`, the quota.
    pub(super) quota: Option<Bare<'h>>,
    /// `qu`, what it counts.
    pub(super) unit: Option<Bare<'h>>,
    /// `w`, the window in seconds.
    pub(super) window: Option<Bare<'h>>,
    /// `r`, what remains.
    pub(super) remaining: Option<Bare<'h>>,
    /// `t`, seconds until there is more.
    pub(super) reset: Option<Bare<'h>>,
}

/// Whether a field is a dictionary and not a list: whether it begins with a key and `=`.
pub(super) fn is_dictionary(text: &[u8]) -> bool {
    let mut cursor = Cursor { rest: text };
    cursor.key().is_ok() && cursor.rest.first() == Some(&b'=')
}

/// Calls `take` with each member of a list. What was taken before a fault does not count either,
/// so the caller must be able to forget it.
pub(super) fn each_member<'h>(
    text: &'h [u8],
    mut take: impl FnMut(&Member<'h>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut cursor = Cursor { rest: text };
    cursor.each(|cursor| take(&cursor.member()?))
}

/// Calls `take` with each key of a dictionary and its value. Parameters mean nothing here.
pub(super) fn each_entry<'h>(
    text: &'h [u8],
    mut take: impl FnMut(&'h str, Bare<'h>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut cursor = Cursor { rest: text };
    cursor.each(|cursor| {
        let key = cursor.key()?;
        let value = if cursor.skip(b'=') { cursor.bare()? } else { Bare::Other };
        cursor.parameters(|_, _| ())?;
        take(key, value)
    })
}

struct Cursor<'h> {
    rest: &'h [u8],
}

impl<'h> Cursor<'h> {
    fn each(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        while !self.rest.is_empty() {
            one(self)?;
            self.take_while(is_blank);
            if self.rest.is_empty() {
                break;
            }
            let is_next = self.skip(b',');
            self.take_while(is_blank);
            // Neither may something stand between two commas, nor nothing behind the last.
            if !is_next || self.rest.is_empty() {
                return Err(Malformed);
            }
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Member<'h>, Malformed> {
        let start = self.rest;
        let mut member = Member {
            text: "",
            item: self.bare()?,
            quota: None,
            unit: None,
            window: None,
            remaining: None,
            reset: None,
        };
        self.parameters(|key, value| {
            let place = match key {
                "q" => &mut member.quota,
                "qu" => &mut member.unit,
                "w" => &mut member.window,
                "r" => &mut member.remaining,
                "t" => &mut member.reset,
                _ => return,
            };
            *place = Some(value);
        })?;
        member.text = self.text_since(start)?;
        Ok(member)
    }

    /// Of a parameter that is there twice, the last counts.
    fn parameters(&mut self, mut take: impl FnMut(&'h str, Bare<'h>)) -> Result<(), Malformed> {
        while self.skip(b';') {
            self.take_while(|byte| byte == b' ');
            let key = self.key()?;
            let value = if self.skip(b'=') { self.bare()? } else { Bare::Other };
            take(key, value);
        }
        Ok(())
    }

    fn key(&mut self) -> Result<&'h str, Malformed> {
        let start = self.rest;
        if !matches!(start, [b'a'..=b'z' | b'*', ..]) {
            return Err(Malformed);
        }
        self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        );
        self.text_since(start)
    }

    fn bare(&mut self) -> Result<Bare<'h>, Malformed> {
        match self.rest {
            [b'"', ..] => self.string(),
            [b'0'..=b'9', ..] => self.number().map(Bare::Number),
            [b'-', rest @ ..] => {
                self.rest = rest;
                self.number().map(|_| Bare::Other)
            }
            [b'a'..=b'z' | b'A'..=b'Z' | b'*', ..] => {
                let start = self.rest;
                self.take_while(is_token);
                self.text_since(start).map(Bare::Text)
            }
            [b':', rest @ ..] => {
                self.rest = rest;
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.end(b':')
            }
            [b'?', b'0' | b'1', rest @ ..] => {
                self.rest = rest;
                Ok(Bare::Other)
            }
            [b'@', rest @ ..] => {
                self.rest = rest.strip_prefix(b"-").unwrap_or(rest);
                self.number().map(|_| Bare::Other)
            }
            [b'%', b'"', rest @ ..] => {
                self.rest = rest;
                self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"');
                self.end(b'"')
            }
            _ => Err(Malformed),
        }
    }

    fn end(&mut self, end: u8) -> Result<Bare<'h>, Malformed> {
        if self.skip(end) { Ok(Bare::Other) } else { Err(Malformed) }
    }

    fn string(&mut self) -> Result<Bare<'h>, Malformed> {
        self.skip(b'"');
        let start = self.rest;
        loop {
            self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            match self.rest {
                [b'\\', b'"' | b'\\', rest @ ..] => self.rest = rest,
                [b'"', rest @ ..] => {
                    let text = self.text_since(start)?;
                    self.rest = rest;
                    return Ok(Bare::Text(text));
                }
                _ => return Err(Malformed),
            }
        }
    }

    fn number(&mut self) -> Result<Number, Malformed> {
        let start = self.rest;
        self.take_while(|byte| byte.is_ascii_digit());
        let whole = self.text_since(start)?.len();
        let mut is_short = whole <= INTEGER_DIGITS_MAX;
        if self.skip(b'.') {
            let start = self.rest;
            self.take_while(|byte| byte.is_ascii_digit());
            let part = self.text_since(start)?.len();
            is_short = whole <= DECIMAL_DIGITS_MAX.0 && part <= DECIMAL_DIGITS_MAX.1;
        }
        let number = super::number::read(self.text_since(start)?.as_bytes());
        number.filter(|_| is_short).ok_or(Malformed)
    }

    fn skip(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) {
        let length = self.rest.iter().take_while(|byte| is_part(**byte)).count();
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    /// What was passed since `start`, which is ASCII.
    fn text_since(&self, start: &'h [u8]) -> Result<&'h str, Malformed> {
        let length = start.len().saturating_sub(self.rest.len());
        let text = start.get(..length).ok_or(Malformed)?;
        str::from_utf8(text).map_err(|_| Malformed)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}
