//! Keys of fixed length that nobody can foresee.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use super::cipher::Cipher;

/// What a bucket is kept under: 128 bits, keyed by a secret.
///
/// Ids are chosen by clients. With a secret key, nobody can find two ids that share a bucket, or
/// many that crowd one place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of nothing in particular.
    pub(super) const NONE: Self = Self(1);

    /// The fingerprint of these bits, unless they are all zero.
    pub(crate) const fn from_bits(bits: u128) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// A shard is chosen by the lower bits of this half, a place there by the upper.
    pub(super) const fn upper(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The bits; never all zero. Not for clients to see: from many of them others follow.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// What fingerprints are keyed by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(u128);

impl Secret {
    /// A new secret, from the randomness that the standard library takes from the system.
    pub fn random() -> Self {
        let draw = || RandomState::new().build_hasher().finish();
        Self::new(draw(), draw())
    }

    /// A secret of one's own choice, for results that can be repeated.
    pub const fn new(low: u64, high: u64) -> Self {
        Self(low as u128 | (high as u128) << 64)
    }

    /// The secret of these bits.
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// What [`Self::from_bits`] makes the same secret of.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// What takes fingerprints with this secret.
    pub fn seal(self) -> Seal {
        let cipher = Cipher::new(self.0);
        Seal { start: cipher.start(), cipher: Arc::new(cipher), secret: self }
    }
}

/// A secret, made ready for taking fingerprints.
#[derive(Clone)]
pub struct Seal {
    cipher: Arc<Cipher>,
    secret: Secret,
    /// What tells it from others with the same secret.
    start: u128,
}

impl Seal {
    /// The secret that it was made of.
    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// What tells it from others with the same secret.
    pub(crate) fn start(&self) -> u128 {
        self.start
    }

    /// Another with the same secret.
    pub(crate) fn starting(&self, start: u128) -> Self {
        Self { start, ..self.clone() }
    }

    /// The fingerprint of `bytes`.
    #[inline]
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.fingerprint_from(self.start, bytes)
    }

    /// The fingerprint of `bytes` by that one with the same secret which starts so.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of it")]
    pub(crate) fn fingerprint_from(&self, start: u128, bytes: &[u8]) -> Fingerprint {
        let hash = self.cipher.hash(start, bytes);
        let (upper, lower) = (hash >> 64, hash as u64);
        // Not zero, which means "no key" to a table.
        Fingerprint(upper << 64 | u128::from(lower.max(1)))
    }

    /// The fingerprint of one or more parts; where one ends and the next begins makes a difference.
    #[inline]
    pub fn fingerprint_of_parts(&self, parts: &[&[u8]]) -> Fingerprint {
        let Some((last, before)) = parts.split_last() else { return self.fingerprint(&[]) };
        let start = before.iter().fold(self.start, |start, part| self.cipher.hash(start, part));
        self.fingerprint_from(start, last)
    }

    /// One whose fingerprints depend on `bytes` too.
    #[must_use]
    pub fn derive(&self, bytes: &[u8]) -> Self {
        self.starting(self.cipher.hash(self.start, bytes))
    }
}

impl PartialEq for Seal {
    fn eq(&self, other: &Self) -> bool {
        (self.secret, self.start) == (other.secret, other.start)
    }
}

impl Eq for Seal {}

/// A secret stays one in logs.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// As does what is made of it.
impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

#[cfg(test)]
mod tests;
