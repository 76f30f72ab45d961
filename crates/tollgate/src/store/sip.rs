//! SipHash-1-3 with 128 bits, one half after the other.
//!
//! Where a bucket lies follows from the first half alone. So its memory is asked for before the
//! second is worked out, which is early enough for the processor to ask for that of the next bucket
//! while it waits for this one: it takes a fifth off a decision on one of many keys.

use std::hint::black_box;

/// What the second half is worked out of.
pub(super) struct Rest(State);

struct State([u64; 4]);

/// The first half, and what the second is worked out of.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a state that is returned through memory is slow")]
pub(super) fn first_half(low: u64, high: u64, bytes: &[u8]) -> (u64, Rest) {
    let mut state = State([
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ]);
    let (blocks, ending) = bytes.as_chunks();
    for block in blocks {
        state.take(u64::from_le_bytes(*block));
    }
    let length = (bytes.len() as u64) << (u64::BITS - u8::BITS);
    state.take(length | last_block(bytes, ending.len()));
    (state.half(2, 0xee), Rest(state))
}

impl Rest {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a state that is passed through memory is slow")]
    pub(super) fn second_half(mut self) -> u64 {
        // The compiler must not begin with this before what follows from the first half is done.
        self.0.half(1, black_box(0xdd))
    }
}

/// The last `count` bytes, fewer than a block has.
#[inline]
fn last_block(bytes: &[u8], count: usize) -> u64 {
    match bytes.last_chunk() {
        // Those before them fall out at the end; one bit apart, because not all 64 can at once.
        Some(last) => u64::from_le_bytes(*last) >> 1 >> (63 - 8 * count),
        None => bytes.iter().rev().fold(0, |block, byte| block << u8::BITS | u64::from(*byte)),
    }
}

impl State {
    #[inline]
    fn take(&mut self, block: u64) {
        self.0[3] ^= block;
        self.mix();
        self.0[0] ^= block;
    }

    #[inline]
    fn half(&mut self, word: usize, mark: u64) -> u64 {
        self.0[word] ^= mark;
        for _ in 0..3 {
            self.mix();
        }
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }

    #[inline]
    fn mix(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}
