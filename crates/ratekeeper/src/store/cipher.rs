//! A hash of 128 bits that nobody can foresee, made of rounds of AES.
//!
//! A text is cut into blocks of 16 bytes. Whole blocks are chained, each added to what has become of
//! those before it and mixed; the last 16 bytes, or what there is, are mixed beside them, and the hash
//! is the sum of both. So a text of up to 31 bytes takes as long as one block, and few instructions.
//! Both matter: while a processor waits for the memory of one bucket, it finds out which one it will
//! need next only if that is not far ahead.
//!
//! The last block may reach back into the one before, so it is marked by a number that depends on the
//! length, and is as secret as the key.
//!
//! For two texts to have the same hash, two blocks that somebody chose must become values with a
//! certain difference, or a secret number must be what somebody guessed. Whatever two blocks are
//! chosen, four rounds of AES give a certain difference with a probability of at most 2^-113 on
//! average over the keys (Keliher and Sui, 2007); here are [`ROUNDS`]. That is all that buckets need.
//! It is no code to prove that a text is genuine, because from many hashes others follow: who chooses
//! texts must not be told any.

use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use aes::hazmat::cipher_round;
use aes::{Aes128Enc, Block};

const BLOCK_BYTES: usize = 16;
const ROUNDS: usize = 6;

/// A key, ready to hash with.
pub(super) struct Cipher {
    /// Whether the processor mixes.
    is_native: bool,
    keys: [u128; ROUNDS],
    /// By how long a text is beyond its whole blocks.
    marks: [u128; BLOCK_BYTES],
    start: u128,
}

impl Cipher {
    pub(super) fn new(key: u128) -> Self {
        Self { is_native: has_aes(), ..Self::portable(key) }
    }

    /// The same for every processor.
    fn portable(key: u128) -> Self {
        let aes = Aes128Enc::new(&key.to_le_bytes().into());
        let mut numbers = 0_u128..;
        let mut draw = || {
            let mut block = numbers.next().unwrap_or_default().to_le_bytes().into();
            aes.encrypt_block(&mut block);
            u128::from_le_bytes(block.into())
        };
        Self {
            is_native: false,
            keys: std::array::from_fn(|_| draw()),
            marks: std::array::from_fn(|_| draw()),
            start: draw(),
        }
    }

    /// What to start with, as secret as the key.
    pub(super) fn start(&self) -> u128 {
        self.start
    }

    /// The hash of `bytes`, another one for every `start`; which has to be a hash, or [`Self::start`].
    #[inline]
    pub(super) fn hash(&self, start: u128, bytes: &[u8]) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if self.is_native {
            // SAFETY: the processor has what the function is compiled for, or `new` would have said
            // that it is not native.
            #[expect(unsafe_code, reason = "a decision takes a fifth less instructions")]
            return unsafe { native::hash(self, start, bytes) };
        }
        let chain = |state, block: &_| self.mix(state ^ u128::from_le_bytes(*block));
        let chained = bytes.as_chunks().0.iter().fold(start, chain);
        chained ^ self.mix(start ^ self.mark(bytes) ^ last_block(bytes))
    }

    #[inline]
    fn mark(&self, bytes: &[u8]) -> u128 {
        self.marks[bytes.len() % BLOCK_BYTES]
    }

    fn mix(&self, block: u128) -> u128 {
        let mut block = Block::from(block.to_le_bytes());
        for key in self.keys {
            cipher_round(&mut block, &key.to_le_bytes().into());
        }
        u128::from_le_bytes(block.into())
    }
}

/// The end of `bytes`, another one for others of the same length with the same whole blocks.
#[inline]
fn last_block(bytes: &[u8]) -> u128 {
    bytes.last_chunk().map_or_else(|| short_block(bytes), |last| u128::from_le_bytes(*last))
}

/// What is shorter than a block.
#[inline]
fn short_block(bytes: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u128::from(u64::from_le_bytes(*first))
            | u128::from(u64::from_le_bytes(*last)) << 64;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u128::from(u32::from_le_bytes(*first))
            | u128::from(u32::from_le_bytes(*last)) << 32;
    }
    bytes.iter().fold(0, |block, byte| block << u8::BITS | u128::from(*byte))
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes")
}

/// Elsewhere the crate finds out by itself, for every round.
#[cfg(not(target_arch = "x86_64"))]
fn has_aes() -> bool {
    false
}

/// By the processor's own instructions, and all of them in one place: what is compiled for some
/// processors only is called, and not put where it is needed.
#[cfg(target_arch = "x86_64")]
mod native {
    use std::arch::x86_64::{
        __m128i, _mm_aesenc_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
        _mm_xor_si128,
    };

    use super::{Cipher, short_block};

    /// [`Cipher::hash`] where it is native.
    #[target_feature(enable = "aes")]
    pub(super) fn hash(cipher: &Cipher, start: u128, bytes: &[u8]) -> u128 {
        let start = vector(start);
        let last = match bytes.last_chunk() {
            Some(last) => vector(u128::from_le_bytes(*last)),
            None => vector(short_block(bytes)),
        };
        let mark = _mm_xor_si128(start, vector(cipher.mark(bytes)));
        let last = _mm_xor_si128(mark, last);
        let Some((before, chained)) = bytes.as_chunks().0.split_last() else {
            return number(_mm_xor_si128(start, mix(cipher, [last])[0]));
        };
        let add = |state, block: &_| _mm_xor_si128(state, vector(u128::from_le_bytes(*block)));
        let state = chained.iter().fold(start, |state, block| mix(cipher, [add(state, block)])[0]);
        let [state, last] = mix(cipher, [add(state, before), last]);
        number(_mm_xor_si128(state, last))
    }

    /// Mixes blocks beside each other.
    #[target_feature(enable = "aes")]
    fn mix<const BLOCKS: usize>(
        cipher: &Cipher,
        mut blocks: [__m128i; BLOCKS],
    ) -> [__m128i; BLOCKS] {
        for key in cipher.keys {
            blocks = blocks.map(|block| _mm_aesenc_si128(block, vector(key)));
        }
        blocks
    }

    #[target_feature(enable = "aes")]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of it")]
    fn vector(number: u128) -> __m128i {
        let [lower, upper] = [number as u64, (number >> 64) as u64].map(u64::cast_signed);
        _mm_set_epi64x(upper, lower)
    }

    #[target_feature(enable = "aes")]
    fn number(vector: __m128i) -> u128 {
        let halves = [_mm_unpackhi_epi64(vector, vector), vector];
        let [upper, lower] = halves.map(|half| u128::from(_mm_cvtsi128_si64(half).cast_unsigned()));
        upper << 64 | lower
    }
}

#[cfg(test)]
mod tests;
