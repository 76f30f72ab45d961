//! What is forgotten in a full region for a new key.

use super::super::strip::NO_KEY;
use super::{Region, home, home_of, low_bits, lower};
use crate::Moment;
use crate::algorithm::{Algorithm, OnFull, Owner, Standing};

/// How many slots beside each other are looked at for a key that may be forgotten: first those around
/// the home of the new key, then others.
const RUN_SLOTS: usize = 32;
/// How many such runs are looked at, so at most 256 slots for one ask.
const RUNS_MAX: usize = 8;
/// An owner beyond its share that saw so many keys of its own, all protected, looks no further.
const PROTECTED_ENOUGH: usize = 8;
/// An owner within its share that saw so many keys of owners beyond theirs takes the least of these.
const OTHERS_ENOUGH: usize = 8;

/// The keys that a search could choose so far.
#[derive(Default)]
struct Found {
    /// The least of the owner's own.
    own: Option<(usize, Standing)>,
    /// The least of owners beyond their shares.
    other: Option<(usize, Standing)>,
    /// How many keys of the owner's own were protected, and how many others could be chosen.
    own_protected: usize,
    others: usize,
}

impl Found {
    fn own(&mut self, slot: usize, standing: Standing, forgets: bool) {
        self.own_protected += usize::from(standing.is_protected);
        if forgets || !standing.is_protected {
            keep_least(&mut self.own, slot, standing);
        }
    }

    fn other(&mut self, slot: usize, standing: Standing) {
        self.others += 1;
        keep_least(&mut self.other, slot, standing);
    }

    /// Whether looking further would not pay.
    fn is_enough(&self, is_beyond: bool, is_end_of_run: bool) -> bool {
        if !is_beyond {
            return self.others >= OTHERS_ENOUGH || is_end_of_run && self.others > 0;
        }
        let has_free = self.own.is_some_and(|(_, own)| !own.is_protected);
        let is_hopeless = self.own_protected >= PROTECTED_ENOUGH;
        if has_free { is_end_of_run } else { is_hopeless }
    }
}

/// What a search for a key that may be forgotten came to.
pub(super) enum Search {
    /// This key can be forgotten for free.
    Idle(usize),
    /// This key goes, and that gives something away.
    Goes(usize, Standing),
    /// No key may be forgotten before the first of them is idle.
    Nothing { idle_at: Moment },
}

/// What is protected weighs more than what is not; among both, what gives more away.
pub(super) fn weighs(standing: &Standing) -> (bool, f64) {
    (standing.is_protected, standing.rank)
}

fn keep_least(least: &mut Option<(usize, Standing)>, slot: usize, standing: Standing) {
    if least.is_none_or(|(_, least)| weighs(&standing) < weighs(&least)) {
        *least = Some((slot, standing));
    }
}

/// Spreads runs over the table.
const ODD_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl<A: Algorithm> Region<A> {
    /// What may be forgotten for a new key of `owner`: any key that is idle; else, if the owner is within
    /// its share, a key of an owner beyond its own; else one of its own that is not protected, or any of
    /// its own if it wants that. Of several, the one of which forgetting gives away least.
    pub(super) fn search(&self, book: &A::Book, owner: Owner, key: u128, now: Moment) -> Search {
        self.shares.survey_if_old(|owner| A::share(book, owner));
        let is_beyond = self.is_beyond(book, owner, 1);
        let forgets = A::share(book, owner).on_full() == OnFull::Forget;
        let mut found = Found::default();
        // Most keys of a full table are often one owner's.
        let mut last = (owner, is_beyond);
        let mut looked = 0;
        for slot in self.way(key) {
            looked += 1;
            if self.key(slot) != NO_KEY {
                let cell = self.cell(slot);
                let Some(standing) = A::standing(book, &cell, now) else {
                    return Search::Idle(slot);
                };
                let whose = A::owner(book, &cell);
                if last.0 != whose {
                    last = (whose, self.is_beyond(book, whose, usize::from(whose == owner)));
                }
                match (last.1, is_beyond, whose == owner) {
                    (true, false, _) => found.other(slot, standing),
                    (true, true, false) if forgets => found.other(slot, standing),
                    (true, true, true) => found.own(slot, standing, forgets),
                    // An owner within its share keeps all it has.
                    (false, ..) | (true, true, false) => {}
                }
            }
            if found.is_enough(is_beyond, looked % RUN_SLOTS == 0) {
                break;
            }
        }
        match found.own.or(found.other) {
            Some((slot, standing)) => Search::Goes(slot, standing),
            None => Search::Nothing { idle_at: self.first_idle(book, key, looked, now) },
        }
    }

    /// When the first key in so many slots on the way of `key` will be idle.
    fn first_idle(&self, book: &A::Book, key: u128, slots: usize, now: Moment) -> Moment {
        let taken = self.way(key).take(slots).filter(|&slot| self.key(slot) != NO_KEY);
        taken.map(|slot| A::idle_at(book, &self.cell(slot))).min().unwrap_or(now)
    }

    /// The slots in which a key is looked for that may be forgotten for `key`: a run around its home, then
    /// others anywhere.
    fn way(&self, key: u128) -> impl Iterator<Item = usize> + use<A> {
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

    pub(super) fn is_beyond(&self, book: &A::Book, owner: Owner, more: usize) -> bool {
        self.shares.is_beyond(owner, A::share(book, owner), more)
    }
}
