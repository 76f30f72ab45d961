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

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
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
        if self.nodes.len() >= self.max {
            self.forget(may_go)?;
        }
        let slot = self.nodes.insert(Node { key, used: false, value })?;
        self.enter(key, slot);
        Some(slot)
    }

    /// Lets a value be found by another key, and no longer by its old one.
    pub(crate) fn rename(&mut self, slot: Slot, key: u64) {
        let Some(node) = self.nodes.at_mut(slot) else { return };
        let old = std::mem::replace(&mut node.key, key);
        self.leave(old, slot);
        self.enter(key, slot);
    }

    fn forget(&mut self, may_go: impl Fn(&T) -> bool) -> Option<T> {
        let mut tries = 0;
        while tries < TRIES_MAX {
            let slot = self.nodes.slot(self.hand);
            self.hand = (self.hand + 1) % self.max;
            let slot = slot?;
            let node = self.nodes.at_mut(slot)?;
            if std::mem::take(&mut node.used) {
                continue;
            }
            if may_go(&node.value) {
                let node = self.nodes.remove(slot)?;
                self.leave(node.key, slot);
                return Some(node.value);
            }
            tries += 1;
        }
        None
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
