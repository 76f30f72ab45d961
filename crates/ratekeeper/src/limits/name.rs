//! The names of limits: those known from the start, and the rule for everybody else's.

use super::IdFormat;

/// The longest name a limit can have.
pub const NAME_BYTES_MAX: usize = 128;

/// How many letters may differ for one word to be taken for a misspelling of another.
const TYPO_MAX: usize = 2;

/// How many words are tried, so that a file full of unknown names is refused in good time.
const WORDS_MAX: usize = 1 << 10;

/// A name that means the same everywhere, with the number that stands for it in bucket keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownName {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) id_format: IdFormat,
}

/// By number, which is also the order in which they are listed.
pub(super) const KNOWN_NAMES: [KnownName; 6] = [
    known(4, "NewRegistrationsPerIPAddress", IdFormat::IpAddress),
    known(5, "NewRegistrationsPerIPv6Range", IdFormat::Ipv6Range),
    known(6, "NewOrdersPerAccount", IdFormat::RegId),
    known(7, "FailedAuthorizationsPerAccount", IdFormat::RegId),
    known(8, "CertificatesPerDomainPerAccount", IdFormat::RegIdDomain),
    known(9, "CertificatesPerFQDNSetPerAccount", IdFormat::RegIdFqdnSet),
];

const fn known(number: u32, name: &'static str, id_format: IdFormat) -> KnownName {
    KnownName { name, number, id_format }
}

pub(super) fn known_name(name: &str) -> Option<KnownName> {
    KNOWN_NAMES.into_iter().find(|known| known.name == name)
}

/// The format of the ids of a limit that is called so, if that is fixed by the name.
pub(crate) fn known_format(name: &str) -> Option<IdFormat> {
    known_name(name).map(|known| known.id_format)
}

/// Why a text cannot name a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum NameError {
    #[error("the name is empty")]
    Empty,
    #[error("the name is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
    #[error("the name contains a colon")]
    Colon,
    #[error("the name contains a space or a control character")]
    Blank,
    #[error("the name is a number")]
    Number,
}

impl NameError {
    pub(super) fn help(self) -> &'static str {
        match self {
            Self::Empty => "expected the name of a limit, such as NewOrdersPerAccount",
            Self::TooLong => "use a shorter name",
            Self::Colon => "an id follows the name only in an overrides file, as `NAME:ID: {..}`",
            Self::Blank => "use letters, digits, `-`, `_` or `.`",
            // Its buckets would be called `6:id`, like those of the limit with number 6.
            Self::Number => "its buckets could be taken for those of the limit with that number",
        }
    }
}

/// Whether `name` can name a limit.
pub(super) fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        Err(NameError::Empty)
    } else if name.len() > NAME_BYTES_MAX {
        Err(NameError::TooLong)
    } else if name.contains(':') {
        Err(NameError::Colon)
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Err(NameError::Blank)
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        Err(NameError::Number)
    } else {
        Ok(())
    }
}

/// The known name that `name` is nearly but not quite, if there is one.
pub(super) fn near_known_name(name: &str) -> Option<&'static str> {
    nearest(name, KNOWN_NAMES.iter().map(|known| known.name)).filter(|known| *known != name)
}

/// The word that `text` is most likely a misspelling of, if any is close enough.
pub fn nearest<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    // Measuring a distance takes time; it is not worth it for words of another length.
    let is_alike = |word: &&str| word.len().abs_diff(text.len()) <= TYPO_MAX;
    words
        .take(WORDS_MAX)
        .filter(is_alike)
        .map(|word| (strsim::damerau_levenshtein(&text, &word.to_lowercase()), word))
        .filter(|(distance, word)| *distance <= TYPO_MAX && *distance < word.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
