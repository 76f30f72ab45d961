//! A bounded table that forgets what was not used for long.
//!
//! Each value has a mark that it was used, and the values stand in a circle. To forget one, a hand
//! goes round: who was used loses the mark, and the first without one is forgotten. So using a
//! value touches nothing but the value.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::arena::{Arena, Slot};

/// How many unused values are looked at to find one that may be forgotten. The next search goes on
/// where this one ends, so it looks at others.
const TRIES_MAX: usize = 8;
/// In a table of at most so many values all are looked at.
const SMALL_MAX: usize = 100;

/// At most `max` values by a 64-bit key, which is a good hash already.
#[derive(Clone, Debug)]
pub(crate) struct Recent<T> {
    nodes: Arena<Node<T>>,
    by_key: HashTable<(u64, Slot)>,
    /// Who is looked at next when something must be forgotten.
    hand: usize,
    max: usize,
}

#[derive(Clone, Debug)]
struct Node<T> {
    key: u64,
    used: bool,
    value: T,
}

impl<T> Recent<T> {
    pub(crate) const fn new(max: usize) -> Self {
        Self { nodes: Arena::new(), by_key: HashTable::new(), hand: 0, max }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn find(&self, key: u64) -> Option<Slot> {
        self.by_key.find(key, |(known, _)| *known == key).map(|&(_, slot)| slot)
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&T> {
        self.nodes.at(slot).map(|node| &node.value)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.nodes.at_mut(slot).map(|node| &mut node.value)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().map(|node| &node.value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    /// The same, with their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &T)> {
        self.nodes.iter().map(|node| (node.key, &node.value))
    }

    /// All of them, with their slots and keys.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (Slot, u64, T)> {
        self.nodes.into_values().map(|(slot, node)| (slot, node.key, node.value))
    }

    /// The value, which counts as used now.
    pub(crate) fn touch(&mut self, slot: Slot) -> Option<&mut T> {
        let node = self.nodes.at_mut(slot)?;
        // Mostly it is; memory that is only read is cheaper.
        if !node.used {
            node.used = true;
        }
        Some(&mut node.value)
    }

    /// Adds a value under a key that is not there yet. Where the table is full, something that
    /// `may_go` agrees to is forgotten first; where nothing may go, the value is not added.
    pub(crate) fn insert(
        &mut self,
        key: u64,
        value: T,
        may_go: impl Fn(&T) -> bool,
    ) -> Option<Slot> {
        self.insert_with(key, |_| value, may_go)
    }

    /// Adds a value that knows where it is.
    pub(crate) fn insert_with(
        &mut self,
        key: u64,
        make: impl FnOnce(Slot) -> T,
        may_go: impl Fn(&T) -> bool,
    ) -> Option<Slot> {
        if self.nodes.len() >= self.max {
            self.forget(may_go)?;
        }
        let slot = self.nodes.insert_with(|slot| Node { key, used: false, value: make(slot) })?;
        self.enter(key, slot);
        Some(slot)
    }

    /// Keeps at most `max` from now on. What may not go stays beyond it.
    pub(crate) fn set_max(&mut self, max: usize, may_go: impl Fn(&T) -> bool) {
        self.max = max;
        // Those that were not used lately go first.
        for goes_if_used in [false, true] {
            for place in 0..self.nodes.places() {
                if self.nodes.len() <= max {
                    return;
                }
                let Some(slot) = self.nodes.slot(place) else { continue };
                let node = self.nodes.at(slot);
                let may_go = |node: &Node<T>| node.used <= goes_if_used && may_go(&node.value);
                if node.is_some_and(may_go) {
                    self.remove(slot);
                }
            }
        }
    }

    /// Lets a value be found by another key, and no longer by its old one.
    pub(crate) fn rename(&mut self, slot: Slot, key: u64) {
        let Some(node) = self.nodes.at_mut(slot) else { return };
        let old = std::mem::replace(&mut node.key, key);
        self.leave(old, slot);
        self.enter(key, slot);
    }

    fn forget(&mut self, may_go: impl Fn(&T) -> bool) -> Option<T> {
        let tries_max = if self.max <= SMALL_MAX { self.nodes.len() } else { TRIES_MAX };
        let mut tries = 0;
        while tries < tries_max {
            let slot = self.nodes.slot(self.hand);
            self.hand = (self.hand + 1) % self.nodes.places().max(1);
            let Some(slot) = slot else {
                if self.nodes.len() == 0 {
                    break;
                }
                continue;
            };
            let node = self.nodes.at_mut(slot)?;
            if std::mem::take(&mut node.used) {
                continue;
            }
            if may_go(&node.value) {
                return self.remove(slot);
            }
            tries += 1;
        }
        None
    }

    fn remove(&mut self, slot: Slot) -> Option<T> {
        let node = self.nodes.remove(slot)?;
        self.leave(node.key, slot);
        Some(node.value)
    }

    fn enter(&mut self, key: u64, slot: Slot) {
        match self.by_key.entry(key, |(known, _)| *known == key, |&(known, _)| known) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = slot,
            Entry::Vacant(entry) => {
                entry.insert((key, slot));
            }
        }
    }

    fn leave(&mut self, key: u64, slot: Slot) {
        if let Ok(entry) = self.by_key.find_entry(key, |&entry| entry == (key, slot)) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests;
