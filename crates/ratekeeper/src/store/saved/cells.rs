//! The buckets of a memory store, shard by shard.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::super::memory::MemoryStore;
use super::super::{Fingerprint, Secret};
use super::{Reader, RestoreError, Section, Writer};
use crate::Moment;
use crate::algorithm::average::{Average, AverageCell};
use crate::algorithm::book::{Book, BucketCell, Gcra};
use crate::algorithm::inline_rule::{InlineCell, InlineGcra};
use crate::algorithm::quota::{Quota, QuotaCell};
use crate::algorithm::{Algorithm, Cell};

/// How many cells are written in one go.
const CELLS: usize = 1 << 10;
/// Where there is not enough memory, the cells of a shard are put back in so many rounds, each
/// through all of its keys in order. In one go, those that find no room would all be from the end.
const ROUNDS: usize = 64;
const KEY_BYTES: usize = size_of::<u128>();

/// An [`Algorithm`] whose cells can be saved.
pub trait Kept: Algorithm {
    /// The section they are saved in.
    const SECTION: Section;

    /// Whether a cell of this kind can have been written by the rules of `book`.
    fn is_sound(book: &Self::Book, cell: &Self::Cell) -> bool;
}

impl Kept for Gcra {
    const SECTION: Section = Section::Limits;

    fn is_sound(book: &Book, cell: &BucketCell) -> bool {
        book.rule(cell.rule()).is_some()
    }
}

impl Kept for Average {
    const SECTION: Section = Section::Averages;

    fn is_sound((): &(), cell: &AverageCell) -> bool {
        cell.is_sound()
    }
}

impl Kept for Quota {
    const SECTION: Section = Section::Quotas;

    fn is_sound((): &(), _: &QuotaCell) -> bool {
        true
    }
}

impl Kept for InlineGcra {
    const SECTION: Section = Section::InlineRules;

    fn is_sound((): &(), cell: &InlineCell) -> bool {
        cell.is_sound()
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn secret(&mut self, secret: Secret) -> io::Result<()> {
        self.u128(secret.bits())
    }

    /// Saves all buckets that are not idle at `at`, and tells how many there were. Each shard is
    /// locked for as long as it takes to copy it.
    pub(crate) fn cells<A: Kept>(&mut self, store: &MemoryStore<A>, at: Moment) -> io::Result<u64> {
        let mut live = Vec::new();
        let mut buckets = 0_u64;
        self.count(store.shards())?;
        for shard in 0..store.shards() {
            let book = store.copy_shard(shard, &mut live);
            live.retain(|(_, cell)| !A::is_idle(&book, cell, at));
            self.u64(live.len() as u64)?;
            buckets = buckets.saturating_add(live.len() as u64);
            for cells in live.chunks(CELLS) {
                let room = self.room(cells.len().saturating_mul(cell_bytes::<A>()))?;
                let places = room.chunks_exact_mut(cell_bytes::<A>());
                for ((key, cell), place) in cells.iter().zip(places) {
                    if let Some((head, tail)) = place.split_first_chunk_mut() {
                        *head = key.to_le_bytes();
                        write_cell(*cell, tail);
                    }
                }
            }
        }
        Ok(buckets)
    }
}

impl<R: Read> Reader<R> {
    pub(crate) fn secret(&mut self) -> Result<Secret, RestoreError> {
        self.u128().map(Secret::from_bits)
    }

    pub(crate) fn fingerprint(&mut self) -> Result<Fingerprint, RestoreError> {
        let bits = self.u128()?;
        Fingerprint::from_bits(bits).ok_or_else(|| self.damage(NO_FINGERPRINT))
    }

    /// A new store with the buckets that were saved and are not idle at `at`. If they are more than
    /// `memory` holds, those that owe least are forgotten, and counted.
    pub(crate) fn cells<A: Kept>(
        &mut self,
        book: &Arc<A::Book>,
        memory: usize,
        at: Moment,
    ) -> Result<MemoryStore<A>, RestoreError> {
        let store = MemoryStore::<A>::new(book, memory)
            .map_err(|source| RestoreError::Memory { memory, source })?;
        let shards = self.u32()?;
        for _ in 0..shards {
            let count = self.u64()?;
            // Fingerprints are spread evenly, also where there are more or fewer shards now.
            let share = u128::from(count).saturating_mul(shards.into());
            let share = share.checked_div(store.shards() as u128).unwrap_or_default();
            let expected = usize::try_from(share).unwrap_or(usize::MAX);
            let put_back = |bucket, cell| store.put_back(bucket, cell, expected, at);
            if store.fits(expected) {
                self.each_cell::<A>(count, book, at, put_back)?;
                continue;
            }
            let mut cells = Vec::new();
            self.each_cell::<A>(count, book, at, |bucket, cell| {
                cells.push((bucket, cell));
                true
            })?;
            for round in 0..ROUNDS {
                for (bucket, cell) in cells.iter().skip(round).step_by(ROUNDS) {
                    if !put_back(*bucket, *cell) {
                        return Err(self.damage(TWICE));
                    }
                }
            }
        }
        Ok(store)
    }

    /// Hands on `count` cells, but those that are idle, to somebody who refuses one that was there.
    fn each_cell<A: Kept>(
        &mut self,
        count: u64,
        book: &A::Book,
        at: Moment,
        mut take: impl FnMut(Fingerprint, A::Cell) -> bool,
    ) -> Result<(), RestoreError> {
        for _ in 0..count {
            let bytes = self.bytes(cell_bytes::<A>())?;
            let parts = bytes.split_first_chunk().and_then(|(key, cell)| {
                let bucket = Fingerprint::from_bits(u128::from_le_bytes(*key))?;
                Some((bucket, read_cell(cell)))
            });
            let Some((bucket, cell)) = parts else {
                return Err(self.damage(NO_FINGERPRINT));
            };
            if !A::is_sound(book, &cell) {
                return Err(self.damage("a bucket has a state that no bucket has"));
            }
            if !A::is_idle(book, &cell, at) && !take(bucket, cell) {
                return Err(self.damage(TWICE));
            }
        }
        Ok(())
    }
}

const fn cell_bytes<A: Algorithm>() -> usize {
    KEY_BYTES.saturating_add(A::Cell::WORDS.saturating_mul(size_of::<u64>()))
}

/// Little-endian, so that what one machine saved means the same to another.
fn write_cell(cell: impl Cell, to: &mut [u8]) {
    let (words, _) = to.as_chunks_mut();
    cell.write(|word, bits| {
        if let Some(place) = words.get_mut(word) {
            *place = bits.to_le_bytes();
        }
    });
}

fn read_cell<C: Cell>(from: &[u8]) -> C {
    let (words, _) = from.as_chunks();
    C::read(|word| words.get(word).map_or(0, |bits| u64::from_le_bytes(*bits)))
}

const NO_FINGERPRINT: &str = "a bucket has a fingerprint that no bucket has";
const TWICE: &str = "a bucket is there twice";
