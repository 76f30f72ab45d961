//! Who a limit counts for: the formats of ids, and the one spelling that each id has.
//!
//! Ids are brought to that spelling on both sides, in files and in asks, so that an override
//! matches however it was written. On the way of an ask nothing is allocated: the spelling is
//! most often what was given, and otherwise is written into the caller's [`IdBuffer`].
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::fmt::{self, Write};
use std::str::FromStr;

use super::address::{RANGE_SUFFIX, ip_address, ipv6_range};
use super::domain::{self, DOMAIN_BYTES_MAX, DomainError};

/// The longest id there is, in bytes. Only a list of domains may be longer, since what is kept of
/// it is a hash.
pub const ID_BYTES_MAX: usize = 512;

/// The longest `u64` has twenty digits.
const REG_ID_BYTES_MAX: usize = 20;
/// How many digits the hash of a list of domains has.
const HASH_DIGITS: usize = 64;
/// The longest spelling that may have to be written: an account, a colon and a domain.
const WRITTEN_BYTES_MAX: usize = REG_ID_BYTES_MAX + 1 + DOMAIN_BYTES_MAX;

/// What the ids of a limit look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdFormat {
    /// Any text of 1 to [`ID_BYTES_MAX`] bytes, as it is.
    #[default]
    Any,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// The /48 range of an IPv6 address.
    Ipv6Range,
    /// The number of an account.
    RegId,
    /// The number of an account, a colon and a domain.
    RegIdDomain,
    /// The number of an account, a colon and a list of domains.
    RegIdFqdnSet,
}

/// Why a text is not an id of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum IdError {
    #[error("the id is empty: say whom the limit counts for")]
    Empty,
    #[error("the id is longer than {ID_BYTES_MAX} bytes: use a shorter one, or a hash of it")]
    TooLong,
    #[error("the id is not an IP address: expected one such as 10.0.0.1 or 2001:db8::1")]
    IpAddress,
    #[error("the id is not an IPv6 range: expected one such as 2001:db8::/48")]
    Ipv6Range,
    #[error(
        "the id is IPv4, which has no /48 ranges: expected an IPv6 range such as 2001:db8::/48"
    )]
    Ipv4Range,
    #[error("the IPv6 range is wider than /48: pass an address or a range within one /48")]
    RangeTooWide,
    #[error("the IPv6 range is not a /48: overrides apply to a whole /48, such as 2001:db8::/48")]
    RangeNotWhole,
    #[error("the account is not a decimal number below 2^64: expected one such as 12345678")]
    RegId,
    #[error("the id has no colon: expected an account and a domain, such as 12345678:example.com")]
    NoColon,
    #[error("{0}")]
    Domain(#[from] DomainError),
}

/// Room for a spelling that differs from what was given. It costs nothing until it is used.
#[derive(Clone, Debug, Default)]
pub struct IdBuffer {
    // Most asks never need the bytes, and those that do not should not pay for clearing them.
    bytes: Option<[u8; WRITTEN_BYTES_MAX]>,
}

impl IdBuffer {
    /// Unused room.
    pub const fn new() -> Self {
        Self { bytes: None }
    }

    /// The text that `write` writes, or nothing if it does not fit.
    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut Cursor<'_>) -> fmt::Result,
    ) -> Option<&str> {
        let bytes = self.bytes.insert([0; WRITTEN_BYTES_MAX]);
        let mut cursor = Cursor { bytes, length: 0 };
        write(&mut cursor).ok()?;
        let length = cursor.length;
        std::str::from_utf8(bytes.get(..length)?).ok()
    }
}

/// Where in the buffer the next byte goes.
pub(super) struct Cursor<'a> {
    bytes: &'a mut [u8; WRITTEN_BYTES_MAX],
    length: usize,
}

impl Cursor<'_> {
    pub(super) fn push(&mut self, byte: u8) -> fmt::Result {
        *self.bytes.get_mut(self.length).ok_or(fmt::Error)? = byte;
        self.length = self.length.saturating_add(1);
        Ok(())
    }

    pub(super) fn push_hex(&mut self, digit: u8) -> fmt::Result {
        let digit = digit & 0xf;
        let first = if digit < 10 { b'0' } else { b'a'.saturating_sub(10) };
        self.push(first.saturating_add(digit))
    }
}

impl Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length.saturating_add(text.len());
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl IdFormat {
    /// Every format there is.
    pub const ALL: [Self; 6] = [
        Self::Any,
        Self::IpAddress,
        Self::Ipv6Range,
        Self::RegId,
        Self::RegIdDomain,
        Self::RegIdFqdnSet,
    ];

    /// What limits files call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::IpAddress => "ipAddress",
            Self::Ipv6Range => "ipv6RangeCIDR",
            Self::RegId => "regId",
            Self::RegIdDomain => "regId:domain",
            Self::RegIdFqdnSet => "regId:fqdnSet",
        }
    }

    /// The one spelling of the id of an ask, without allocating. Refuses what is not of this
    /// format.
    ///
    /// ```
    /// use ratekeeper::limits::{IdBuffer, IdFormat};
    ///
    /// let mut buffer = IdBuffer::new();
    /// let id = IdFormat::Ipv6Range.canonical("2001:0DB8:0:17::1", &mut buffer);
    /// assert_eq!(id, Ok("2001:db8::/48"));
    /// ```
    #[inline]
    pub fn canonical<'a>(self, id: &'a str, buffer: &'a mut IdBuffer) -> Result<&'a str, IdError> {
        if id.is_empty() {
            return Err(IdError::Empty);
        }
        if id.len() > ID_BYTES_MAX && self != Self::RegIdFqdnSet {
            return Err(IdError::TooLong);
        }
        match self {
            Self::Any => Ok(id),
            Self::IpAddress => ip_address(id, buffer),
            Self::Ipv6Range => ipv6_range(id, buffer),
            Self::RegId => reg_id(id),
            Self::RegIdDomain => reg_id_domain(id, buffer),
            Self::RegIdFqdnSet => reg_id_fqdn_set(id, buffer),
        }
    }

    /// Whether an id is already what is kept of a list of domains: their hash. No list of domains
    /// looks like one, because a domain has a dot.
    pub(super) fn is_hashed(self, id: &str) -> bool {
        let Some((account, hash)) = id.split_once(':') else { return false };
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        self == Self::RegIdFqdnSet
            && reg_id(account) == Ok(account)
            && hash.len() == HASH_DIGITS
            && hash.bytes().all(is_hex)
    }

    /// The one spelling of an id in a limits file. Refuses what is not of this format, and an
    /// IPv6 range that is not a whole /48: an override for part of one would apply to all of it.
    pub fn canonical_in_file<'a>(
        self,
        id: &'a str,
        buffer: &'a mut IdBuffer,
    ) -> Result<&'a str, IdError> {
        let is_range = self == Self::Ipv6Range;
        if is_range && !id.is_empty() && !id.ends_with(RANGE_SUFFIX) {
            // What is not a range at all is told so.
            return self.canonical(id, buffer).and(Err(IdError::RangeNotWhole));
        }
        self.canonical(id, buffer)
    }
}

/// As limits files write it.
impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No id format has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such id format: expected any, ipAddress, ipv6RangeCIDR, regId, regId:domain or regId:fqdnSet"
)]
pub struct IdFormatError;

impl FromStr for IdFormat {
    type Err = IdFormatError;

    fn from_str(name: &str) -> Result<Self, IdFormatError> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(IdFormatError)
    }
}

fn reg_id(id: &str) -> Result<&str, IdError> {
    if !id.bytes().all(|byte| byte.is_ascii_digit()) || id.parse::<u64>().is_err() {
        return Err(IdError::RegId);
    }
    match id.trim_start_matches('0') {
        "" => Ok("0"),
        digits => Ok(digits),
    }
}

fn split_account(id: &str) -> Result<(&str, &str), IdError> {
    let (account, domains) = id.split_once(':').ok_or(IdError::NoColon)?;
    Ok((reg_id(account)?, domains))
}

fn reg_id_domain<'a>(id: &'a str, buffer: &'a mut IdBuffer) -> Result<&'a str, IdError> {
    let (account, domain) = split_account(id)?;
    let domain = domain::Domain::new(domain)?;
    let length = account.len().saturating_add(1).saturating_add(domain.as_str().len());
    if domain.was_lower_case() && length == id.len() {
        return Ok(id);
    }
    let written = buffer.write(|cursor| {
        cursor.write_str(account)?;
        cursor.push(b':')?;
        cursor.write_str(domain.as_str())
    });
    written.ok_or(IdError::TooLong)
}

fn reg_id_fqdn_set<'a>(id: &str, buffer: &'a mut IdBuffer) -> Result<&'a str, IdError> {
    let (account, domains) = split_account(id)?;
    let hash = domain::hash_set(domains)?;
    let written = buffer.write(|cursor| {
        cursor.write_str(account)?;
        cursor.push(b':')?;
        hash.into_iter().try_for_each(|byte| {
            cursor.push_hex(byte >> 4)?;
            cursor.push_hex(byte)
        })
    });
    written.ok_or(IdError::TooLong)
}
