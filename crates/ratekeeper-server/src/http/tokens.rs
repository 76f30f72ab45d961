//! Bearer tokens: who they belong to and what they are good for.
//!
//! A tokens file has one per line, `NAME ROLE TOKEN`; what follows a word that begins with `#` is
//! a comment. Of a file only digests are kept, so a dump of the memory or a log line gives no token
//! away, and no fault repeats a word of the file: in a line with a mistake any word may be the token.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use super::access::ANYBODY;
use crate::overrides::BY_ITSELF;
use crate::settings::Role;

/// How many tokens there may be.
pub(crate) const TOKENS_MAX: usize = 1024;
/// A shorter token could be guessed.
pub(crate) const TOKEN_CHARS_MIN: usize = 16;
/// How long a token can be.
pub(crate) const TOKEN_CHARS_MAX: usize = 512;
/// How long the name of a token can be.
pub(crate) const TOKEN_NAME_CHARS_MAX: usize = 64;

/// How many faults are told; the rest are counted.
const FAULTS_MAX: usize = 20;
const SCHEME: &[u8] = b"bearer";
/// Names that mean somebody else where it is written down who did something.
const RESERVED: [&str; 2] = [BY_ITSELF, ANYBODY];

/// Who may come with a token. There is at least one.
pub(crate) struct Tokens(Vec<Entry>);

struct Entry {
    name: Box<str>,
    role: Role,
    digest: [u8; 32],
}

/// What is wrong with a list of tokens. Never shows a word of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokensError {
    source: Box<str>,
    /// With the line, from 1; zero stands for the whole list.
    faults: Vec<(usize, TokenFault)>,
    untold: usize,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum TokenFault {
    #[error("expected three words, a name, a role and a token, such as `ops admin` and a token")]
    Words,
    #[error(
        "the first word is no name: use at most {TOKEN_NAME_CHARS_MAX} letters, digits, `.`, `_` and `-`"
    )]
    Name,
    #[error(
        "the name is one of `{BY_ITSELF}` and `{ANYBODY}`, which stand for the server and for nobody \
         in the audit: use another"
    )]
    Reserved,
    #[error("the second word is no role: expected `decide`, `read` or `admin`")]
    Role,
    #[error(
        "the token has fewer than {TOKEN_CHARS_MIN} characters and could be guessed: make one \
         with `openssl rand -hex 32`"
    )]
    Short,
    #[error("the token has more than {TOKEN_CHARS_MAX} characters: use a shorter one")]
    Long,
    #[error("the token has a character that is not printable ASCII, and no header can hold it")]
    Unprintable,
    #[error("the name is on line {0} already")]
    SameName(usize),
    #[error("the token is on line {0} already: give each its own")]
    SameToken(usize),
    #[error("there are more than {TOKENS_MAX} tokens: use fewer")]
    TooMany,
    #[error("there is no token in it: add a line `NAME ROLE TOKEN`")]
    Empty,
}

impl Tokens {
    /// The tokens of a file, called `source` in faults. Refuses whatever it does not fully
    /// understand, and then tells every line that is wrong.
    pub(crate) fn parse(text: &str, source: &str) -> Result<Self, TokensError> {
        Reader::default().read(text.lines(), source)
    }

    /// The same for a text that stands in one line, as in the environment: there a `;` ends a line
    /// too.
    pub(crate) fn parse_inline(text: &str, source: &str) -> Result<Self, TokensError> {
        Reader::default().read(text.split(['\n', ';']), source)
    }

    /// Whose token this is and what it is good for. Looks at every digest to the end, so how long
    /// it takes says nothing about any of them.
    pub(crate) fn role_of(&self, presented: &[u8]) -> Option<(&str, Role)> {
        if presented.len() > TOKEN_CHARS_MAX {
            return None;
        }
        self.role_of_digest(&digest(presented))
    }

    /// The same, of a token whose digest was kept.
    pub(super) fn role_of_digest(&self, digest: &[u8; 32]) -> Option<(&str, Role)> {
        let mut found = u64::MAX;
        for (place, entry) in (0_u64..).zip(&self.0) {
            found.conditional_assign(&place, entry.digest.ct_eq(digest));
        }
        let entry = self.0.get(usize::try_from(found).ok()?)?;
        Some((&entry.name, entry.role))
    }
}

/// The token of an `Authorization` field, if it has one: `Bearer`, blanks, and one word.
pub(crate) fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = authorization.split_at_checked(SCHEME.len())?;
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let token = rest.get(blanks..).filter(|token| !token.is_empty())?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME) && blanks > 0;
    (is_bearer && token.iter().all(u8::is_ascii_graphic)).then_some(token)
}

pub(super) fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// What was read so far.
#[derive(Default)]
struct Reader<'a> {
    entries: Vec<Entry>,
    /// On which line each name and each token stands.
    names: HashMap<&'a str, usize>,
    digests: HashMap<[u8; 32], usize>,
    faults: Vec<(usize, TokenFault)>,
    untold: usize,
}

impl<'a> Reader<'a> {
    fn read(
        mut self,
        lines: impl Iterator<Item = &'a str>,
        source: &str,
    ) -> Result<Tokens, TokensError> {
        for (line, text) in (1..).zip(lines) {
            let words = text.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
            self.read_line(line, words);
            if self.entries.len() > TOKENS_MAX {
                self.refuse(line, TokenFault::TooMany);
                break;
            }
        }
        if self.entries.is_empty() && self.faults.is_empty() {
            self.refuse(0, TokenFault::Empty);
        }
        let Self { entries, faults, untold, .. } = self;
        let error = TokensError { source: source.into(), faults, untold };
        if error.faults.is_empty() { Ok(Tokens(entries)) } else { Err(error) }
    }

    fn read_line(&mut self, line: usize, mut words: impl Iterator<Item = &'a str>) {
        let Some(name) = words.next() else { return };
        let (Some(role), Some(token), None) = (words.next(), words.next(), words.next()) else {
            return self.refuse(line, TokenFault::Words);
        };
        let digest = digest(token.as_bytes());
        for fault in [check_name(name), check_token(token)].into_iter().flatten() {
            self.refuse(line, fault);
        }
        if let Some(first) = self.names.insert(name, line) {
            self.refuse(line, TokenFault::SameName(first));
        }
        if let Some(first) = self.digests.insert(digest, line) {
            self.refuse(line, TokenFault::SameToken(first));
        }
        match Role::named(role) {
            Some(role) => self.entries.push(Entry { name: name.into(), role, digest }),
            None => self.refuse(line, TokenFault::Role),
        }
    }

    fn refuse(&mut self, line: usize, fault: TokenFault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push((line, fault));
        } else {
            self.untold += 1;
        }
    }
}

fn check_name(name: &str) -> Option<TokenFault> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_name = name.len() <= TOKEN_NAME_CHARS_MAX && name.bytes().all(is_fit);
    let is_reserved = RESERVED.iter().any(|it| name.eq_ignore_ascii_case(it));
    if is_reserved { Some(TokenFault::Reserved) } else { (!is_name).then_some(TokenFault::Name) }
}

fn check_token(token: &str) -> Option<TokenFault> {
    match token.chars().count() {
        _ if !token.bytes().all(|byte| byte.is_ascii_graphic()) => Some(TokenFault::Unprintable),
        length if length < TOKEN_CHARS_MIN => Some(TokenFault::Short),
        length if length > TOKEN_CHARS_MAX => Some(TokenFault::Long),
        _ => None,
    }
}

/// Shows names only.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|entry| &entry.name)).finish()
    }
}

impl std::error::Error for TokensError {}

/// A line per fault: `tokens.txt:3: ..`.
impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, fault)) in self.faults.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            match line {
                0 => write!(f, "{separator}{}: {fault}", self.source)?,
                _ => write!(f, "{separator}{}:{line}: {fault}", self.source)?,
            }
        }
        if self.untold == 0 { Ok(()) } else { write!(f, "\nand {} more", self.untold) }
    }
}
