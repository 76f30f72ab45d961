//! One shard's cells: an open-addressing table that is kept in order.
//!
//! Slots are sorted by key, with gaps. A key's home is `key * capacity / 2^128`, so homes are
//! sorted as keys are; a key that finds its home taken stands in the next free slot behind, and
//! whoever is passed by a smaller key moves up. A search starts at the home and ends at the first
//! larger key or gap. Because order does not depend on capacity, the table grows in place, by a
//! sixteenth at a time, in one pass over memory that was reserved at the start: nothing is
//! allocated, ever, and once there are many keys between 70 % and 75 % of the slots are taken: as
//! few as memory allows, because every slot that a search passes may be in another cache line.

mod room;
mod search;

use std::ops::Range;
use std::sync::Arc;

pub(super) use room::Room;
pub(super) use search::Newcomer;

use super::shard_memory::{NO_KEY, ShardMemory, Slot};
use super::shares::Shares;
use crate::Moment;
use crate::algorithm::{Algorithm, Owner};

/// Homes that a new table starts with.
const CAPACITY_MIN: usize = 64;
/// Slots behind the last home, for keys that were pushed past it. Being pushed this far takes a
/// coincidence that no hash of real keys will produce.
const TAIL_SLOTS: usize = 128;
/// The smallest table there is, in slots.
pub(super) const SLOTS_MIN: usize = 4 * TAIL_SLOTS;
/// Of so many parts of the capacity a table takes one more when it grows.
const GROWTH: usize = 16;
/// How many slots, from its home on, are looked at at once for a key. Most keys are in one of them.
const NEAR_SLOTS: usize = 4;
/// What every search needs comes first.
#[repr(C)]
pub(super) struct ShardTable<A: Algorithm> {
    memory: ShardMemory<A>,
    /// How many homes there are now.
    capacity: usize,
    capacity_max: usize,
    /// How many keys there are.
    len: usize,
    /// Whose they are, in all shards together.
    shares: Arc<Shares>,
    /// Times may step back: who is idle now may not have been then.
    is_stepping_back: bool,
    tally: Tally,
}

/// What became of keys for want of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys that were forgotten although they owed something.
    pub evicted: u64,
    /// Tokens they owed.
    pub tokens_forgiven: u64,
    /// Asks that were denied because nothing could be forgotten for them.
    pub turned_away: u64,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    At(usize),
    Absent,
}

impl<A: Algorithm> ShardTable<A> {
    /// How long the beginning is that every search needs.
    #[cfg(not(feature = "shuttle"))]
    pub(super) const HOT_BYTES: usize = std::mem::offset_of!(Self, capacity_max);

    /// An empty table in a memory of `slots` slots, at least [`SLOTS_MIN`].
    pub(super) fn new(memory: ShardMemory<A>, slots: usize, shares: Arc<Shares>) -> Self {
        Self {
            memory,
            capacity: CAPACITY_MIN,
            capacity_max: slots - TAIL_SLOTS,
            len: 0,
            shares,
            is_stepping_back: false,
            tally: Tally::default(),
        }
    }

    /// How many keys a memory of `slots` slots holds at most.
    pub(super) fn keys_max(slots: usize) -> usize {
        load_max(slots - TAIL_SLOTS)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn capacity_max(&self) -> usize {
        self.capacity_max
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// From now on times may step back.
    pub(super) fn expect_steps_back(&mut self) {
        self.is_stepping_back = true;
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    #[inline]
    pub(super) fn find(&self, key: u128) -> Place {
        match self.seek(key) {
            (place, slot) if slot.key() == key => Place::At(place),
            _ => Place::Absent,
        }
    }

    /// The slot of a key that is there, to read and write its cell.
    ///
    /// This is for memory that has been asked for long before. How far a key stands from its home
    /// cannot be guessed, so the processor would often guess wrong and begin again: near its home it
    /// need not.
    #[inline]
    pub(super) fn slot_soon(&self, key: u128) -> Option<Slot<'_, A>> {
        match self.slot_near_home(key) {
            Some(slot) => Some(slot),
            None => self.slot_anywhere(key),
        }
    }

    /// A key whose neighbours have the same upper half may not be found.
    #[inline]
    fn slot_near_home(&self, key: u128) -> Option<Slot<'_, A>> {
        let row = self.memory.row(home(key, self.capacity), NEAR_SLOTS)?;
        // Wrapping, as below.
        let is_before =
            |nth| row.slot(nth).upper_key().wrapping_sub(1) < upper(key).wrapping_sub(1);
        let nth = (0..NEAR_SLOTS - 1).map(|nth| usize::from(is_before(nth))).sum();
        let slot = row.slot(nth);
        (slot.key() == key).then_some(slot)
    }

    /// The slot of a key that is there, to read and write its cell.
    ///
    /// This is for memory that is still on its way. Meanwhile the processor guesses where the key is,
    /// goes on by that to whatever comes next, and asks for the memory of that too.
    #[inline]
    pub(super) fn slot_of(&self, key: u128) -> Option<Slot<'_, A>> {
        let mut place = home(key, self.capacity);
        loop {
            let slot = self.memory.slot(place);
            let found = slot.key();
            if found == key {
                return Some(slot);
            }
            // Wrapping, so that "no key" counts as larger than any.
            if found.wrapping_sub(1) > key.wrapping_sub(1) {
                return None;
            }
            place += 1;
        }
    }

    #[inline(never)]
    fn slot_anywhere(&self, key: u128) -> Option<Slot<'_, A>> {
        self.slot_of(key)
    }

    /// Where the key is, or would be put.
    #[inline]
    fn seek(&self, key: u128) -> (usize, Slot<'_, A>) {
        let mut place = home(key, self.capacity);
        loop {
            let slot = self.memory.slot(place);
            // Wrapping, so that "no key" counts as larger than any.
            if slot.key().wrapping_sub(1) >= key.wrapping_sub(1) {
                return (place, slot);
            }
            place += 1;
        }
    }

    #[inline]
    pub(super) fn cell(&self, slot: usize) -> A::Cell {
        self.memory.slot(slot).cell()
    }

    /// Has the key in a slot have this cell. It may be another owner's with it.
    pub(super) fn set_cell(&mut self, book: &A::Book, slot: usize, cell: A::Cell) {
        let slot = self.memory.slot(slot);
        let (before, after) = (A::owner(book, &slot.cell()), A::owner(book, &cell));
        if before != after {
            self.shares.take(before);
            self.shares.add(after);
        }
        slot.set_cell(cell);
    }

    pub(super) fn count_turned_away(&mut self, owner: Owner) {
        self.tally.turned_away += 1;
        self.shares.count_turned_away(owner);
    }

    /// Puts a key that [`Self::find`] did not find.
    pub(super) fn insert(&mut self, book: &A::Book, key: u128, cell: A::Cell, now: Moment) {
        loop {
            let (slot, _) = self.seek(key);
            if let Some(gap) = self.gap_from(book, slot, now) {
                if self.key(gap) == NO_KEY {
                    self.len += 1;
                } else {
                    self.shares.take(A::owner(book, &self.cell(gap)));
                }
                self.shares.add(A::owner(book, &cell));
                for moved in (slot..gap).rev() {
                    self.copy_slot(moved, moved + 1);
                }
                self.set_key(slot, key);
                self.memory.slot(slot).set_cell(cell);
                return;
            }
            // The run reaches the end of the table: shorten it.
            self.forget_in_last_run(book, now);
        }
    }

    /// Whether there is memory for `keys` keys.
    pub(super) fn fits(&self, keys: usize) -> bool {
        keys <= load_max(self.capacity_max)
    }

    /// Makes room for `keys` keys at once, as long as there are none.
    pub(super) fn expect(&mut self, keys: usize) {
        if self.len == 0 {
            // A little more than there must be: not all shards get as many.
            let capacity = keys.saturating_add(keys / 7 * 3);
            self.capacity = capacity.clamp(CAPACITY_MIN, self.capacity_max);
        }
    }

    /// All keys with their cells, in order.
    pub(super) fn cells(&self) -> impl Iterator<Item = (u128, A::Cell)> {
        self.slots().map(|slot| (self.key(slot), self.cell(slot)))
    }

    /// The first slot from `slot` on that is free, or holds a key that may be forgotten for free.
    fn gap_from(&self, book: &A::Book, slot: usize, now: Moment) -> Option<usize> {
        (slot..self.end()).find(|&gap| self.key(gap) == NO_KEY || self.is_forgotten(book, gap, now))
    }

    /// Whether what stands in a slot may be forgotten for free: it answers like a key that is absent.
    fn is_forgotten(&self, book: &A::Book, slot: usize, now: Moment) -> bool {
        !self.is_stepping_back && A::is_idle(book, &self.cell(slot), now)
    }

    pub(super) fn remove(&mut self, book: &A::Book, slot: usize) {
        self.shares.take(A::owner(book, &self.cell(slot)));
        let mut last = slot;
        loop {
            let next = self.key(last + 1);
            if next == NO_KEY || home(next, self.capacity) == last + 1 {
                break;
            }
            last += 1;
        }
        for moved in slot..last {
            self.copy_slot(moved + 1, moved);
        }
        self.set_key(last, NO_KEY);
        self.len -= 1;
    }

    /// Puts what `change` makes of each cell in its place.
    pub(super) fn rewrite(&mut self, book: &A::Book, change: impl Fn(A::Cell) -> A::Cell) {
        for slot in 0..self.end() {
            if self.key(slot) != NO_KEY {
                self.set_cell(book, slot, change(self.cell(slot)));
            }
        }
    }

    /// Forgets the cells for which `goes` says so, by what they are. What it can call tells whether they
    /// may be forgotten for free.
    pub(super) fn remove_where(
        &mut self,
        book: &A::Book,
        now: Moment,
        mut goes: impl FnMut(A::Cell, &dyn Fn() -> bool) -> bool,
    ) {
        let mut slot = 0;
        while slot < self.end() {
            let is_taken = self.key(slot) != NO_KEY;
            if is_taken && goes(self.cell(slot), &|| self.is_forgotten(book, slot, now)) {
                // Another may stand there now.
                self.remove(book, slot);
            } else {
                slot += 1;
            }
        }
    }

    /// Forgets what may be forgotten for free and, if that is not enough, takes more memory.
    fn grow(&mut self, book: &A::Book, now: Moment) {
        let more = (self.capacity / GROWTH).max(CAPACITY_MIN);
        let grown = (self.capacity + more).min(self.capacity_max);
        let packed = self.pack(book, end(grown), now);
        // With less room it would be done again too soon.
        let is_enough = packed.len() <= self.capacity / 3 * 2;
        if !is_enough {
            self.capacity = grown;
        }
        self.spread(book, packed, now);
    }

    /// Moves keys, without those that may be forgotten for free, back to the slots before `end`.
    fn pack(&mut self, book: &A::Book, end: usize, now: Moment) -> Range<usize> {
        let mut write = end;
        for read in (0..self.end()).rev() {
            if self.key(read) == NO_KEY {
                continue;
            }
            if self.is_forgotten(book, read, now) {
                self.shares.take(A::owner(book, &self.cell(read)));
            } else {
                write -= 1;
                self.copy_slot(read, write);
            }
            if read != write {
                self.set_key(read, NO_KEY);
            }
        }
        write..end
    }

    /// Moves keys, packed at the end, forward to their homes or the next slot behind.
    fn spread(&mut self, book: &A::Book, packed: Range<usize>, now: Moment) {
        let mut next = 0;
        self.len = 0;
        for read in packed {
            let slot = next.max(home(self.key(read), self.capacity));
            if slot > read {
                // They do not all fit behind the last home; see `TAIL_SLOTS`.
                let cell = self.cell(read);
                self.shares.take(A::owner(book, &cell));
                self.count_forgotten(book, &cell, now);
                self.set_key(read, NO_KEY);
                continue;
            }
            if slot < read {
                self.copy_slot(read, slot);
                self.set_key(read, NO_KEY);
            }
            self.len += 1;
            next = slot + 1;
        }
    }

    /// Unlike [`Self::find_room`] this cannot be refused: it is for a run that is too long.
    fn forget_in_last_run(&mut self, book: &A::Book, now: Moment) {
        self.forget(book, self.end() - 1, now);
    }

    fn forget(&mut self, book: &A::Book, slot: usize, now: Moment) {
        self.count_forgotten(book, &self.cell(slot), now);
        self.remove(book, slot);
    }

    fn count_forgotten(&mut self, book: &A::Book, cell: &A::Cell, now: Moment) {
        let tokens = A::owed(book, cell, now);
        if tokens > 0 {
            self.tally.evicted += 1;
            self.tally.tokens_forgiven += tokens;
            self.shares.count_evicted(A::owner(book, cell), tokens);
        }
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        (0..self.end()).filter(|&slot| self.key(slot) != NO_KEY)
    }

    fn end(&self) -> usize {
        end(self.capacity)
    }

    #[inline]
    fn key(&self, slot: usize) -> u128 {
        self.memory.slot(slot).key()
    }

    fn set_key(&mut self, slot: usize, key: u128) {
        self.memory.slot(slot).set_key(key);
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        self.memory.slot(to).copy(&self.memory.slot(from));
    }
}

/// Where a key belongs among `capacity` homes.
#[inline]
fn home(key: u128, capacity: usize) -> usize {
    home_of(upper(key), capacity)
}

const fn upper(key: u128) -> u64 {
    (key >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half of it")]
const fn lower(key: u128) -> u64 {
    key as u64
}

/// Where a key with this upper half belongs among `capacity` homes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below capacity")]
pub(super) fn home_of(upper: u64, capacity: usize) -> usize {
    ((u128::from(upper) * capacity as u128) >> 64) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
const fn low_bits(key: u128) -> usize {
    (key >> 32) as u32 as usize
}

/// The slot behind the last that a key can stand in. It stays free, so that every search ends.
const fn end(capacity: usize) -> usize {
    capacity + TAIL_SLOTS - 1
}

/// How many keys a table of this capacity holds before it grows.
const fn load_max(capacity: usize) -> usize {
    capacity * 3 / 4
}

#[cfg(test)]
mod tests;
