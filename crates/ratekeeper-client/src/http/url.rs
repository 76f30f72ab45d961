//! Where the HTTP door of a server is.

use std::fmt;
use std::str::FromStr;

use ureq::http::Uri;

/// Where a server listens if nothing is said.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";

const EXPECTED: &str = "write it like http://127.0.0.1:8080";

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The address of a server, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(String);

impl Url {
    /// The address of something on the server.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Whether the URL is an https one.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl Default for Url {
    fn default() -> Self {
        Self(URL_DEFAULT.to_owned())
    }
}

impl FromStr for Url {
    type Err = String;

    /// Refuses what is not http or https, and what is more than an address.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(c) = text.chars().find(|c| matches!(c, '?' | '#')) {
            return Err(format!("it has a `{c}`: {EXPECTED}"));
        }
        let uri: Uri = text.parse().map_err(|error| format!("{error}: {EXPECTED}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(format!("it is neither http:// nor https://: {EXPECTED}"));
        }
        let Some(authority) = uri.authority().filter(|it| !it.host().is_empty()) else {
            return Err(format!("it has no host: {EXPECTED}"));
        };
        if authority.as_str().contains('@') {
            return Err("a password in an address is seen by others: use a token".into());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name or an id as one part of a path, or as a value in a query.
pub fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(byte.into());
            }
            _ => {
                let digit = |nibble: u8| char::from(HEX[usize::from(nibble)]);
                escaped.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
