//! HTTP and TLS, recognised by their first bytes, for doors that speak something else.
//!
//! A browser connects to any port for any page that it shows: it sends an HTTP request, or for an
//! `https` address a TLS hello, and the page chooses much of what follows the first line. A door
//! that answered the first line with an error and obeyed the next one would obey that page.

/// What every HTTP version begins with, as the last word of a request line.
const VERSION: &[u8] = b"HTTP/";
/// The field that browsers send first.
const HOST: &[u8] = b"host:";
/// How a TLS connection begins: a record of a handshake, and the major version of all its versions.
const TLS: [u8; 2] = [0x16, 0x03];

/// Whether a line is the request line of HTTP, whatever the method, its `Host` field, or TLS.
pub(crate) fn is_line(line: &[u8]) -> bool {
    let mut words = line.rsplit(|byte| *byte == b' ').filter(|word| !word.trim_ascii().is_empty());
    let is_version = words.next().is_some_and(is_version);
    is_version && words.next().is_some() || is_host(line) || is_tls(line)
}

/// Whether words are those of such a line.
pub(crate) fn are_words(name: &[u8], arguments: &[&[u8]]) -> bool {
    matches!(arguments, [_, version] if is_version(version)) || is_host(name) || is_tls(name)
}

/// Whether bytes are the beginning of a TLS connection, as soon as there are two of them.
pub(crate) fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&TLS)
}

fn is_version(word: &[u8]) -> bool {
    starts_with(word, VERSION)
}

fn is_host(line: &[u8]) -> bool {
    starts_with(line, HOST)
}

/// In letters of any size.
fn starts_with(bytes: &[u8], expected: &[u8]) -> bool {
    bytes.get(..expected.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(expected))
}

/// How far the bytes of a connection are the beginning of an HTTP request or of TLS, for a door
/// without lines. It goes from one read to the next, because a request line can be cut anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opening {
    /// They are not, or there are none yet.
    #[default]
    None,
    Method,
    Target,
    /// So many bytes of `HTTP/`.
    Version(usize),
    /// The first byte of TLS.
    Record,
    /// They are.
    Foreign,
}

impl Opening {
    /// What a further read makes of it: it goes on with what came before, or begins anew.
    #[must_use]
    pub(crate) fn after(self, read: &[u8]) -> Self {
        match self.follow(read) {
            Self::None => Self::None.follow(read),
            followed => followed,
        }
    }

    fn follow(self, read: &[u8]) -> Self {
        let mut opening = self;
        for byte in read {
            opening = opening.next(*byte);
            if matches!(opening, Self::None | Self::Foreign) {
                break;
            }
        }
        opening
    }

    fn next(self, byte: u8) -> Self {
        match self {
            Self::None if byte == TLS[0] => Self::Record,
            Self::None | Self::Method if is_of_method(byte) => Self::Method,
            Self::Method if byte == b' ' => Self::Target,
            Self::Target if byte == b' ' => Self::Version(0),
            // Browsers encode what else there can be in an address.
            Self::Target if byte > b' ' => Self::Target,
            Self::Version(count) if VERSION.get(count) == Some(&byte) => {
                let count = count.saturating_add(1);
                if count == VERSION.len() { Self::Foreign } else { Self::Version(count) }
            }
            Self::Record if byte == TLS[1] => Self::Foreign,
            _ => Self::None,
        }
    }
}

/// Whether a byte may be in a method: what RFC 9110 calls a token.
fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
