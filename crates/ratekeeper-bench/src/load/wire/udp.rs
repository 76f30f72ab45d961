//! The UDP rate limiter's datagrams, and those of an echo. They may be lost or overtake each other, so
//! each has a number.

use super::Answer;
use super::template::{Template, write_digits};

/// How many digits the number of a request has: more than a socket can send in the longest run.
pub(crate) const NUMBER_DIGITS: usize = 12;

/// What fills a datagram that only has to be long.
const FILLER: u8 = b'.';

/// `NUMBER over_limit KEY`, and what comes back.
pub(crate) struct UdpWire {
    template: Template,
    /// Whether the answer is the request itself.
    is_echo: bool,
}

impl UdpWire {
    /// One for as many keys as the empty template is for.
    pub(crate) fn new(empty: Template, key: &str) -> Self {
        Self { template: empty.bytes(b" over_limit ").text(key), is_echo: false }
    }

    /// One whose datagrams come back as they are: a number, and what makes it so many bytes.
    pub(crate) fn echo(empty: Template, bytes: usize) -> Self {
        let filler = vec![FILLER; bytes.saturating_sub(NUMBER_DIGITS)];
        Self { template: empty.bytes(&filler), is_echo: true }
    }

    /// Appends the request `number` for a key.
    pub(crate) fn ask(&self, number: u64, key: u64, out: &mut Vec<u8>) {
        let mut digits = [0; NUMBER_DIGITS];
        write_digits(number, &mut digits);
        out.extend_from_slice(&digits);
        self.template.write(key, out);
    }

    /// Which request is answered, and how. Nothing if it is no answer to one of ours.
    pub(crate) fn answer<'a>(&self, datagram: &'a [u8]) -> Option<(u64, Answer<'a>)> {
        let (digits, rest) = datagram.split_first_chunk::<NUMBER_DIGITS>()?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        if self.is_echo {
            let is_same = self.template.is(rest);
            return Some((number, if is_same { Answer::Allowed } else { Answer::Error(datagram) }));
        }
        let words = rest.strip_prefix(b" ")?;
        let answer = match words {
            [b'o', b'k', b' ', b'N', b' ', ..] => Answer::Allowed,
            [b'o', b'k', b' ', b'Y', b' ', ..] => Answer::Denied,
            words => Answer::Error(words),
        };
        Some((number, answer))
    }
}
