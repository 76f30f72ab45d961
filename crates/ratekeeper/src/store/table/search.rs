//! What is forgotten in a full table for a new key.

use super::super::shard_memory::NO_KEY;
use super::{Room, ShardTable, home, home_of, low_bits, lower};
use crate::Moment;
use crate::algorithm::{Algorithm, EvictionRank, OnFull, Owner};

/// How many slots beside each other are looked at for a key that may be forgotten: first those around
/// the home of the new key, then others.
pub(super) const RUN_SLOTS: usize = 32;
/// How many such runs are looked at, so at most 256 slots for one ask.
pub(super) const RUNS_MAX: usize = 8;
/// The search for an owner beyond its share ends with the run in which it has seen so many keys of its
/// own, all protected. One run has about 24 keys, so that is one run if half of all keys are its own: where one
/// key in twenty is free, seven searches in ten find one if all keys are its own.
const PROTECTED_ENOUGH: usize = 10;
/// The search for an owner within its share ends when it has seen so many keys of owners beyond theirs: the
/// least of these is forgotten.
const OTHERS_ENOUGH: usize = 8;

/// The keys that a search could choose so far.
#[derive(Default)]
struct Found {
    /// The least of those.
    least: Option<(usize, EvictionRank)>,
    /// How many keys of owners beyond their shares could be chosen.
    others: usize,
    /// How many keys of the owner's own were protected.
    own_protected: usize,
}

impl Found {
    fn own(&mut self, slot: usize, eviction_rank: EvictionRank, on_full: OnFull) {
        self.own_protected += usize::from(eviction_rank.is_protected);
        if on_full == OnFull::Forget || !eviction_rank.is_protected {
            self.keep_least(slot, eviction_rank);
        }
    }

    fn other(&mut self, slot: usize, eviction_rank: EvictionRank) {
        self.others += 1;
        self.keep_least(slot, eviction_rank);
    }

    fn keep_least(&mut self, slot: usize, eviction_rank: EvictionRank) {
        if self.least.is_none_or(|(_, least)| weighs(&eviction_rank) < weighs(&least)) {
            self.least = Some((slot, eviction_rank));
        }
    }

    /// Whether looking further would not pay.
    fn is_enough(&self, is_beyond: bool, is_end_of_run: bool) -> bool {
        if !is_beyond {
            return self.others >= OTHERS_ENOUGH || is_end_of_run && self.others > 0;
        }
        let has_free = self.least.is_some_and(|(_, own)| !own.is_protected);
        is_end_of_run && (has_free || self.own_protected >= PROTECTED_ENOUGH)
    }
}

/// What is protected weighs more than what is not; among both, what gives more away.
pub(super) fn weighs(eviction_rank: &EvictionRank) -> (bool, f64) {
    (eviction_rank.is_protected, eviction_rank.rank)
}

/// For whom a key is looked for that may be forgotten.
#[derive(Clone, Copy)]
pub(in crate::store) struct Newcomer {
    /// The owner of the new key.
    pub(in crate::store) owner: Owner,
    /// The new key.
    pub(in crate::store) key: u128,
    /// What the owner wants done if it is beyond its share.
    pub(in crate::store) on_full: OnFull,
}

/// Spreads runs over the table.
const ODD_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl<A: Algorithm> ShardTable<A> {
    /// What may be forgotten for a new key: any key that is idle; else, if the owner of the new key is
    /// within its share, a key of an owner beyond its own; else one of its own that is not protected, or
    /// any of its own if it wants that. Of several, the one of which forgetting gives away least. Keys in
    /// `spoken_for` are left out. Where no key may be forgotten, tells when the first is idle of those it
    /// looked at.
    pub(super) fn search(
        &self,
        book: &A::Book,
        newcomer: Newcomer,
        spoken_for: &[u128],
        now: Moment,
    ) -> Result<Room, Moment> {
        let Newcomer { owner, key: new_key, on_full } = newcomer;
        let is_beyond = self.shares.is_full(owner, A::share(book, owner));
        let mut found = Found::default();
        // Most keys of a full table are often one owner's.
        let mut last = (owner, is_beyond);
        let mut looked = 0;
        for slot in self.way(new_key) {
            looked += 1;
            let key = self.key(slot);
            if key != NO_KEY && !spoken_for.contains(&key) {
                let cell = self.cell(slot);
                let Some(eviction_rank) = A::eviction_rank(book, &cell, now) else {
                    let is_share_full = is_beyond && looked > RUN_SLOTS;
                    return Ok(Room { victim: Some(key), is_share_full });
                };
                let whose = A::owner(book, &cell);
                if last.0 != whose {
                    last = (whose, self.is_beyond(book, whose, owner));
                }
                match (last.1, is_beyond, whose == owner) {
                    (true, false, _) => found.other(slot, eviction_rank),
                    (true, true, true) => found.own(slot, eviction_rank, on_full),
                    // An owner within its share keeps all it has, and one beyond its share takes
                    // nothing from others.
                    (false, ..) | (true, true, false) => {}
                }
            }
            if found.is_enough(is_beyond, looked % RUN_SLOTS == 0) {
                break;
            }
        }
        let Some((slot, _)) = found.least else {
            if !is_beyond {
                self.shares.doubt();
            }
            return Err(self.first_idle(book, new_key, looked, now));
        };
        Ok(Room { victim: Some(self.key(slot)), is_share_full: is_beyond })
    }

    /// When the first key in so many slots on the way of `key` will be idle.
    fn first_idle(&self, book: &A::Book, key: u128, slots: usize, now: Moment) -> Moment {
        let taken = self.way(key).take(slots).filter(|&slot| self.key(slot) != NO_KEY);
        taken.map(|slot| A::idle_at(book, &self.cell(slot))).min().unwrap_or(now)
    }

    /// The slots in which a key is looked for that may be forgotten for `key`: a run around its home, then
    /// others anywhere.
    pub(super) fn way(&self, key: u128) -> impl Iterator<Item = usize> + use<A> {
        let (capacity, slots) = (self.capacity, self.end());
        (0..RUNS_MAX).flat_map(move |run| {
            let anywhere = lower(key).wrapping_add(run as u64).wrapping_mul(ODD_MIX);
            let middle = if run == 0 { home(key, capacity) } else { home_of(anywhere, capacity) };
            let first = middle.saturating_sub(RUN_SLOTS / 2).min(slots - RUN_SLOTS);
            // Among equals the first is taken, so the search starts anywhere: if it always were the
            // leftmost, keys would pile up at the right end.
            (0..RUN_SLOTS).map(move |nth| first + (low_bits(key) + nth) % RUN_SLOTS)
        })
    }

    /// Whether `owner` may lose keys to `newcomer`: with one more key, if it is that itself.
    fn is_beyond(&self, book: &A::Book, owner: Owner, newcomer: Owner) -> bool {
        let share = A::share(book, owner);
        if owner == newcomer {
            self.shares.is_full(owner, share)
        } else {
            self.shares.is_beyond(owner, share)
        }
    }
}
