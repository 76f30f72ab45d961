//! The memory of a store, and each shard's part of it.
//!
//! A decision on one of many keys takes as long as it takes to fetch its slot, and with small pages
//! part of that goes into finding out where the page is. Huge pages spare it, but only memory that
//! is used all over is worth one. So the shards of a store share one piece of memory, in which they
//! take turns: it begins with the first 4 KiB of every shard, then come the next of every shard, and
//! so on. Keys are spread evenly, so shards grow alike, and the piece fills up from its beginning.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::algorithm::{Algorithm, Cell};

/// A slot is never empty while its key is not zero; fingerprints never are.
pub(super) const NO_KEY: u128 = 0;
const KEY_WORDS: usize = 2;
const WORD_BYTES: usize = size_of::<u64>();
/// How much of a shard lies together: a small page, so that no memory is taken in vain where there
/// are no huge ones.
const TURN_WORDS: usize = 4096 / WORD_BYTES;

/// One shard's part: slots, each with a key and a cell.
pub(super) struct ShardMemory<A: Algorithm> {
    memory: Arc<Memory>,
    /// Where its first turn begins, in words.
    first: u32,
    /// How far it is from one of its turns to the next.
    round: u32,
    algorithm: PhantomData<A>,
}

impl<A: Algorithm> Clone for ShardMemory<A> {
    fn clone(&self) -> Self {
        Self { memory: Arc::clone(&self.memory), ..*self }
    }
}

impl<A: Algorithm> ShardMemory<A> {
    const SLOT_WORDS: usize = KEY_WORDS + A::Cell::WORDS;
    pub(super) const SLOT_BYTES: usize = Self::SLOT_WORDS * WORD_BYTES;
    const SLOTS_PER_TURN: usize = TURN_WORDS / Self::SLOT_WORDS;

    /// Reserves memory for `shards` shards of `slots` slots; it is taken as keys come. Returns the
    /// first shard's part.
    pub(super) fn reserve(shards: usize, slots: usize) -> io::Result<Self> {
        let round = shards * TURN_WORDS;
        let memory = Memory::reserve(slots.div_ceil(Self::SLOTS_PER_TURN) * round)?;
        let round = u32::try_from(round).map_err(io::Error::other)?;
        Ok(Self { memory: Arc::new(memory), first: 0, round, algorithm: PhantomData })
    }

    /// The part of another shard than the first.
    #[expect(clippy::cast_possible_truncation, reason = "all of them together fit, in a round")]
    pub(super) fn of_shard(&self, shard: usize) -> Self {
        Self { first: (shard * TURN_WORDS) as u32, ..self.clone() }
    }

    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Slot<'_, A> {
        let place = self.place(slot);
        Slot {
            words: &self.memory.words()[place..place + Self::SLOT_WORDS],
            algorithm: PhantomData,
        }
    }

    /// The slots from one on, if so many of them lie together.
    #[inline]
    pub(super) fn row(&self, slot: usize, slots: usize) -> Option<Row<'_, A>> {
        if slot % Self::SLOTS_PER_TURN + slots > Self::SLOTS_PER_TURN {
            return None;
        }
        let place = self.place(slot);
        let words = self.memory.words().get(place..place + slots * Self::SLOT_WORDS)?;
        Some(Row { words, algorithm: PhantomData })
    }

    /// Where a slot of another shard is, for asking for its cache line; this is the first's part.
    #[inline]
    pub(super) fn address(&self, shard: usize, slot: usize) -> usize {
        debug_assert_eq!(self.first, 0, "not the first's part");
        let place = shard * TURN_WORDS + self.place(slot);
        self.memory.bytes.as_ptr() as usize + place * WORD_BYTES
    }

    /// Where a slot of this part is.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn first_word(&self, slot: usize) -> usize {
        self.slot(slot).words.as_ptr().addr()
    }

    #[inline]
    fn place(&self, slot: usize) -> usize {
        let (turn, nth) = (slot / Self::SLOTS_PER_TURN, slot % Self::SLOTS_PER_TURN);
        self.first as usize + turn * self.round as usize + nth * Self::SLOT_WORDS
    }
}

/// Some slots of a shard, one beside the other.
pub(super) struct Row<'s, A: Algorithm> {
    words: &'s [AtomicU64],
    algorithm: PhantomData<A>,
}

impl<'s, A: Algorithm> Row<'s, A> {
    #[inline]
    pub(super) fn slot(&self, nth: usize) -> Slot<'s, A> {
        let words = ShardMemory::<A>::SLOT_WORDS;
        Slot { words: &self.words[nth * words..][..words], algorithm: PhantomData }
    }
}

/// One slot of a shard.
pub(super) struct Slot<'s, A: Algorithm> {
    words: &'s [AtomicU64],
    algorithm: PhantomData<A>,
}

impl<A: Algorithm> Slot<'_, A> {
    #[inline]
    pub(super) fn key(&self) -> u128 {
        u128::from(load(&self.words[0])) | u128::from(load(&self.words[1])) << 64
    }

    #[inline]
    pub(super) fn upper_key(&self) -> u64 {
        load(&self.words[1])
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of it")]
    pub(super) fn set_key(&self, key: u128) {
        store(&self.words[0], key as u64);
        store(&self.words[1], (key >> 64) as u64);
    }

    #[inline]
    pub(super) fn cell(&self) -> A::Cell {
        A::Cell::read(|word| load(&self.words[KEY_WORDS + word]))
    }

    #[inline]
    pub(super) fn set_cell(&self, cell: A::Cell) {
        cell.write(|word, bits| store(&self.words[KEY_WORDS + word], bits));
    }

    /// Has the same key and cell as another slot.
    pub(super) fn copy(&self, from: &Self) {
        for (to, from) in self.words.iter().zip(from.words) {
            store(to, load(from));
        }
    }
}

/// What all shards share. Each word is read and written by whoever holds its shard's lock, which
/// nothing but the order of words tells: so they are atomic, which costs nothing.
struct Memory {
    bytes: MmapRaw,
    words: usize,
}

impl Memory {
    fn reserve(words: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        let bytes = options.len(words * WORD_BYTES).no_reserve_swap().map_anon()?;
        #[cfg(target_os = "linux")]
        let _advice_only = bytes.advise(memmap2::Advice::HugePage);
        Ok(Self { bytes: bytes.into(), words })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        let start = self.bytes.as_ptr().cast();
        // SAFETY: the mapping is as long as was asked for, begins on a page, is as old as `self`
        // and is reached by no other way. Memory that the system has just given is zero, and any
        // bits are a number.
        #[expect(unsafe_code, reason = "with huge pages a decision takes a tenth less time")]
        unsafe {
            std::slice::from_raw_parts(start, self.words)
        }
    }
}

#[inline]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn store(word: &AtomicU64, bits: u64) {
    word.store(bits, Ordering::Relaxed);
}
