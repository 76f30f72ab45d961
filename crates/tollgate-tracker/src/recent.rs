//! A bounded table that forgets what was not used for long.
//!
//! Each value has a mark that it was used, and the values stand in a row. To forget one, the row
//! is walked from its old end: who was used loses the mark and goes to the other end, and the
//! first without a mark is forgotten. So using a value touches nothing but the value.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::arena::{Arena, Slot};

/// How many unused values are looked at to find one that may be forgotten. Those that may not go
/// to the other end, so the next search looks at others.
const TRIES_MAX: usize = 8;

/// At most `max` values by a 64-bit key, which is a good hash already.
#[derive(Clone, Debug)]
pub(crate) struct Recent<T> {
    nodes: Arena<Node<T>>,
    by_key: HashTable<(u64, Slot)>,
    newest: Option<Slot>,
    oldest: Option<Slot>,
    max: usize,
}

#[derive(Clone, Debug)]
struct Node<T> {
    key: u64,
    newer: Option<Slot>,
    older: Option<Slot>,
    used: bool,
    value: T,
}

impl<T> Recent<T> {
    pub(crate) const fn new(max: usize) -> Self {
        Self { nodes: Arena::new(), by_key: HashTable::new(), newest: None, oldest: None, max }
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

    /// From the newest to the oldest in the row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let nodes = std::iter::successors(self.newest, |&slot| self.nodes.at(slot)?.older);
        nodes.filter_map(|slot| self.at(slot))
    }

    /// All of them, in no order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    /// The value, which counts as used now.
    pub(crate) fn touch(&mut self, slot: Slot) -> Option<&mut T> {
        let node = self.nodes.at_mut(slot)?;
        node.used = true;
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
        let slot = self.nodes.insert(Node { key, newer: None, older: None, used: false, value })?;
        self.enter(key, slot);
        self.link(slot);
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
            let slot = self.oldest?;
            let node = self.nodes.at_mut(slot)?;
            let was_used = std::mem::take(&mut node.used);
            let goes = !was_used && may_go(&node.value);
            self.unlink(slot);
            if goes {
                let node = self.nodes.remove(slot)?;
                self.leave(node.key, slot);
                return Some(node.value);
            }
            self.link(slot);
            tries += usize::from(!was_used);
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

    fn link(&mut self, slot: Slot) {
        let older = self.newest.replace(slot);
        if let Some(node) = self.nodes.at_mut(slot) {
            node.older = older;
            node.newer = None;
        }
        match older.and_then(|older| self.nodes.at_mut(older)) {
            Some(node) => node.newer = Some(slot),
            None => self.oldest = Some(slot),
        }
    }

    fn unlink(&mut self, slot: Slot) {
        let Some(node) = self.nodes.at(slot) else { return };
        let (newer, older) = (node.newer, node.older);
        match newer.and_then(|newer| self.nodes.at_mut(newer)) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match older.and_then(|older| self.nodes.at_mut(older)) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests;
