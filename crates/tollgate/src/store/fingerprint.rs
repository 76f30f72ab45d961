//! Keys of fixed length that nobody can forge.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::{Hash128, Hasher128, SipHasher13};

use super::sip;

/// How long parts are, with their lengths, that are put together before they are hashed.
const TOGETHER_BYTES_MAX: usize = 128;

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

    /// The half that is known first. A shard is chosen by its lower bits, a place there by the upper.
    pub(super) const fn upper(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The bits; never all zero.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// What fingerprints are keyed by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    low: u64,
    high: u64,
}

impl Secret {
    /// A new secret, from the randomness that the standard library takes from the system.
    pub fn random() -> Self {
        let draw = || RandomState::new().build_hasher().finish();
        Self { low: draw(), high: draw() }
    }

    /// A secret of one's own choice, for results that can be repeated.
    pub const fn new(low: u64, high: u64) -> Self {
        Self { low, high }
    }

    /// What [`Self::new`] makes the same secret of.
    pub(crate) const fn parts(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// The fingerprint of `bytes`.
    #[inline]
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.fingerprint_early(bytes, |_| ())
    }

    /// [`Self::fingerprint`], of which `early` is told the upper half as soon as that is known.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would have both halves worked out first")]
    pub(crate) fn fingerprint_early(&self, bytes: &[u8], early: impl FnOnce(u64)) -> Fingerprint {
        let (upper, rest) = sip::first_half(self.low, self.high, bytes);
        early(upper);
        of_halves(upper, rest.second_half())
    }

    /// The fingerprint of several parts, whatever bytes they are made of.
    #[inline]
    pub fn fingerprint_of_parts(&self, parts: &[&[u8]]) -> Fingerprint {
        match parts {
            [part] => self.fingerprint(part),
            _ => self.fingerprint_of_many(parts),
        }
    }

    /// Apart, so that one part, as most keys have, is hashed where it is asked for.
    #[inline(never)]
    fn fingerprint_of_many(&self, parts: &[&[u8]]) -> Fingerprint {
        // The length first, so that ("ab", "c") is not ("a", "bc"); as bytes, so that it is the same
        // on every machine.
        let pieces = || parts.iter().map(|part| ((part.len() as u64).to_le_bytes(), part));
        let bytes: usize = pieces().map(|(length, part)| length.len() + part.len()).sum();
        if bytes > TOGETHER_BYTES_MAX {
            let mut hasher = SipHasher13::new_with_keys(self.low, self.high);
            for (length, part) in pieces() {
                hasher.write(&length);
                hasher.write(part);
            }
            let Hash128 { h1, h2 } = hasher.finish128();
            return of_halves(h1, h2);
        }
        // A hash in pieces takes twice as long.
        let mut together = [0; TOGETHER_BYTES_MAX];
        let mut rest = &mut together[..bytes];
        for (length, part) in pieces() {
            let (here, behind) = rest.split_at_mut(length.len() + part.len());
            let (length_here, part_here) = here.split_at_mut(length.len());
            length_here.copy_from_slice(&length);
            part_here.copy_from_slice(part);
            rest = behind;
        }
        self.fingerprint(&together[..bytes])
    }

    /// A secret that depends on this one and on `bytes`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of it")]
    pub fn derive(&self, bytes: &[u8]) -> Self {
        let Fingerprint(bits) = self.fingerprint(bytes);
        Self { low: bits as u64, high: (bits >> 64) as u64 }
    }
}

#[inline]
fn of_halves(upper: u64, lower: u64) -> Fingerprint {
    // Zero means "no key" to a table.
    Fingerprint(u128::from(upper) << 64 | u128::from(lower.max(1)))
}

/// A secret stays one in logs.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
