//! The rules of limits, by what they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::unused::Numbers;
use crate::algorithm::book::{Book, BookFull, RuleId};
use crate::algorithm::carried::CarriedRules;
use crate::algorithm::gcra::Rule;
use crate::algorithm::{Owner, Share};
use crate::limits::NamedLimit;

/// Rules by what they are for. A limit that returns to what it was not long ago gets the rule that it
/// had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    pub(super) book: Book,
    pub(super) ids: HashMap<RuleKey, RuleId>,
    /// Who holds the keys of each name, from 1 on, over the life of a process.
    owners: HashMap<Box<str>, Owner>,
    /// What each owner has of a full memory, by number, as of the last files read.
    shares: Vec<Share>,
    /// The rule of each name's default, as of the last files read.
    pub(super) defaults: HashMap<Box<str>, RuleId>,
    /// Rules of defaults that others have taken the place of, since the last book was made.
    replaced: std::collections::HashMap<RuleId, RuleId>,
    pub(super) numbers: Numbers,
}

/// The next edition of limits and their book, of whatever limiter in this process.
static EDITIONS: AtomicU64 = AtomicU64::new(NO_EDITION + 1);
/// That of limits which nobody asks by.
pub(crate) const NO_EDITION: u64 = 0;

/// A default and an override that say the same are still two rules: one may change alone.
type RuleKey = (Box<str>, Scope, Rule);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Default,
    Override,
}

impl Registry {
    pub(super) fn rule(
        &mut self,
        name: &str,
        scope: Scope,
        rule: Rule,
    ) -> Result<RuleId, BookFull> {
        let key = (name.into(), scope, rule);
        if let Some(id) = self.ids.get(&key).copied() {
            self.use_again(id);
            return Ok(id);
        }
        let id = self.add(rule)?;
        let owner = self.owner(name);
        self.book.set_owner(id, owner);
        self.ids.insert(key, id);
        Ok(id)
    }

    /// Who holds the keys of a name. More names than a store has accounts for, over the life of a
    /// process, have the last one in common.
    pub(super) fn owner(&mut self, name: &str) -> Owner {
        // The first is for asks that bring their rule along.
        let next = Owner::new(u32::try_from(self.owners.len() + 1).unwrap_or(u32::MAX));
        *self.owners.entry_ref(name).or_insert(next)
    }

    /// From the next book on, keys of a name have this share of a full memory.
    pub(super) fn share(&mut self, named: &NamedLimit) {
        let place = self.owner(named.name()).number() as usize;
        if self.shares.len() <= place {
            self.shares.resize(place + 1, Share::default());
        }
        self.shares[place] = named.share();
    }

    /// Whose keys each owner holds, by number; asks that bring their rule along have no name.
    pub(crate) fn names(&self) -> Vec<Option<&str>> {
        let mut names = vec![None; self.owners.len() + 1];
        for (name, owner) in &self.owners {
            names[owner.number() as usize] = Some(&**name);
        }
        names
    }

    /// What an owner has of a full memory.
    pub(crate) fn share_of(&self, owner: Owner) -> Share {
        self.shares.get(owner.number() as usize).copied().unwrap_or_default()
    }

    pub(super) fn default(&mut self, named: &NamedLimit) -> Result<Option<RuleId>, BookFull> {
        let Some(default) = named.default() else {
            return Ok(None);
        };
        let id = self.rule(named.name(), Scope::Default, *default.limit.rule())?;
        let old = self.defaults.insert(named.name().into(), id);
        if let Some(old) = old.filter(|&old| old != id) {
            self.replaced.insert(old, id);
        }
        Ok(Some(id))
    }

    /// The rules that come with asks.
    pub(crate) fn carried(&self) -> Arc<CarriedRules> {
        Arc::clone(self.book.carried())
    }

    /// From now on the book is another.
    pub(super) fn turn_over(&mut self) -> u64 {
        let edition = EDITIONS.fetch_add(1, Ordering::Relaxed);
        self.book.set_edition(edition);
        edition
    }

    /// The rules so far, for a store.
    pub(crate) fn book(&mut self) -> Arc<Book> {
        self.book.replace(&std::mem::take(&mut self.replaced));
        self.book.set_shares(Arc::new(self.shares.clone()));
        Arc::new(self.book.clone())
    }
}
