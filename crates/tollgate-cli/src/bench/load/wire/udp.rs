//! The UDP rate limiter's datagrams. They may be lost or overtake each other, so each has a number.

use super::Answer;
use super::template::{Template, write_digits};

/// How many digits the number of a request has: more than a socket can send in the longest run.
const NUMBER_DIGITS: usize = 12;

/// `NUMBER over_limit KEY`, and what comes back.
pub(crate) struct UdpWire {
    template: Template,
}

impl UdpWire {
    /// One for as many keys as the empty template is for.
    pub(crate) fn new(empty: Template, key: &str) -> Self {
        Self { template: empty.bytes(b" over_limit ").text(key) }
    }

    /// Appends the request `number` for a key.
    pub(crate) fn ask(&self, number: u64, key: u64, out: &mut Vec<u8>) {
        let mut digits = [0; NUMBER_DIGITS];
        write_digits(number, &mut digits);
        out.extend_from_slice(&digits);
        self.template.write(key, out);
    }

    /// Which request is answered, and how. Nothing if it is no answer to one of ours.
    pub(crate) fn answer(datagram: &[u8]) -> Option<(u64, Answer<'_>)> {
        let (digits, rest) = datagram.split_first_chunk::<NUMBER_DIGITS>()?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let words = rest.strip_prefix(b" ")?;
        let answer = match words {
            [b'o', b'k', b' ', b'N', b' ', ..] => Answer::Allowed,
            [b'o', b'k', b' ', b'Y', b' ', ..] => Answer::Denied,
            words => Answer::Error(words),
        };
        Some((number, answer))
    }
}
