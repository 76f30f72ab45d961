//! Domains, and the hash that stands for a set of them.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};

/// The longest domain there is, in bytes.
pub(super) const DOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
const LABELS_MIN: usize = 2;
const LABELS_MAX: usize = 10;

/// How many domains one set can have.
pub const FQDN_SET_NAMES_MAX: usize = 100;

/// Why a text is not a domain that certificates are issued for, or not a list of such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum DomainError {
    #[error("the domain is empty: expected one such as example.com")]
    Empty,
    #[error("the domain is longer than {DOMAIN_BYTES_MAX} bytes: expected one such as example.com")]
    TooLong,
    #[error("the domain is an IP address: expected a name such as example.com")]
    IpAddress,
    #[error("the domain is a wildcard: leave out the `*.`")]
    Wildcard,
    #[error("the domain ends with a dot: leave it out")]
    TrailingDot,
    #[error(
        "the domain has fewer than {LABELS_MIN} or more than {LABELS_MAX} labels: expected one such as example.com"
    )]
    Labels,
    #[error(
        "a label of the domain is empty or longer than {LABEL_BYTES_MAX} bytes: expected one such as example.com"
    )]
    LabelLength,
    #[error(
        "a label of the domain has other characters than letters, digits and inner hyphens: write other scripts in Punycode"
    )]
    LabelCharacters,
    #[error("the domain does not end in a known public suffix: expected one such as com or co.uk")]
    Suffix,
    #[error("the list has more than {FQDN_SET_NAMES_MAX} domains: use fewer")]
    TooMany,
}

/// A valid domain in lower case.
pub(super) struct Domain {
    bytes: [u8; DOMAIN_BYTES_MAX],
    length: usize,
    was_lower_case: bool,
}

impl Domain {
    pub(super) fn new(text: &str) -> Result<Self, DomainError> {
        let domain = Self::lower_cased(text)?;
        check(text, domain.as_bytes())?;
        Ok(domain)
    }

    fn lower_cased(text: &str) -> Result<Self, DomainError> {
        let mut bytes = [0; DOMAIN_BYTES_MAX];
        let copy = bytes.get_mut(..text.len()).ok_or(DomainError::TooLong)?;
        copy.copy_from_slice(text.as_bytes());
        copy.make_ascii_lowercase();
        let was_lower_case = copy == text.as_bytes();
        Ok(Self { bytes, length: text.len(), was_lower_case })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(super) fn was_lower_case(&self) -> bool {
        self.was_lower_case
    }
}

fn check(text: &str, lower_case: &[u8]) -> Result<(), DomainError> {
    if text.is_empty() {
        return Err(DomainError::Empty);
    }
    if text.contains('*') {
        return Err(DomainError::Wildcard);
    }
    if text.ends_with('.') {
        return Err(DomainError::TrailingDot);
    }
    if text.parse::<Ipv4Addr>().is_ok() || text.contains(':') {
        return Err(DomainError::IpAddress);
    }
    text.split('.').try_for_each(check_label)?;
    if !(LABELS_MIN..=LABELS_MAX).contains(&text.split('.').count()) {
        return Err(DomainError::Labels);
    }
    match psl::suffix(lower_case) {
        Some(suffix) if suffix.is_known() => Ok(()),
        _ => Err(DomainError::Suffix),
    }
}

fn check_label(label: &str) -> Result<(), DomainError> {
    if label.is_empty() || label.len() > LABEL_BYTES_MAX {
        return Err(DomainError::LabelLength);
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !label.bytes().all(is_allowed) || label.starts_with('-') || label.ends_with('-') {
        return Err(DomainError::LabelCharacters);
    }
    Ok(())
}

/// The SHA-256 of the domains of a comma list: in lower case, each once, sorted, with commas
/// between them. The order and the case in which they were listed do not show.
pub(super) fn hash_set(list: &str) -> Result<[u8; 32], DomainError> {
    let mut names = [""; FQDN_SET_NAMES_MAX];
    let mut count = 0_usize;
    for name in list.split(',') {
        Domain::new(name)?;
        *names.get_mut(count).ok_or(DomainError::TooMany)? = name;
        count = count.saturating_add(1);
    }
    let names = names.get_mut(..count).unwrap_or_default();
    names.sort_unstable_by(|a, b| lower_case(a).cmp(lower_case(b)));
    let mut hasher = Sha256::new();
    let mut previous = "";
    for name in names.iter().copied() {
        if name.eq_ignore_ascii_case(previous) {
            continue;
        }
        if !previous.is_empty() {
            hasher.update(b",");
        }
        hasher.update(Domain::lower_cased(name)?.as_bytes());
        previous = name;
    }
    Ok(hasher.finalize().into())
}

fn lower_case(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| byte.to_ascii_lowercase())
}
