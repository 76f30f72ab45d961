//! The rules of limits, by what they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::unused::Numbers;
use crate::algorithm::book::{Book, BookFull, RuleId};
use crate::algorithm::gcra::Rule;
use crate::algorithm::{Owner, Share};
use crate::limits::{Limits, NamedLimit};

/// Rules by what they are for. A limit that returns to what it was not long ago gets the rule that it
/// had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    pub(super) book: Book,
    pub(super) ids: HashMap<RuleKey, RuleId>,
    /// Who holds the keys of each name, from 1 on.
    pub(super) owners: HashMap<Box<str>, Owner>,
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
        if let Some(id) = self.ids.get(&key).copied().filter(|id| !self.is_far(*id)) {
            self.use_again(id);
            return Ok(id);
        }
        let id = self.add(rule)?;
        let owner = self.owner(name);
        self.book.set_owner(id, owner);
        self.ids.insert(key, id);
        Ok(id)
    }

    /// Who holds the keys of a name. More names at a time than a store has accounts for have the last one
    /// in common.
    pub(super) fn owner(&mut self, name: &str) -> Owner {
        if let Some(owner) = self.owners.get(name) {
            return *owner;
        }
        let owner = self.new_owner();
        self.owners.insert(name.into(), owner);
        owner
    }

    /// From the next book on, these limits have the shares of a full memory that they ask for, and all
    /// others an ordinary one.
    pub(crate) fn share_out(&mut self, limits: &Limits) {
        self.shares.clear();
        for named in limits {
            let place = self.owner(named.name()).number() as usize;
            if self.shares.len() <= place {
                self.shares.resize(place + 1, Share::default());
            }
            self.shares[place] = named.share();
        }
    }

    /// Whose keys each owner holds, by number. The first number, [`Owner::NOBODY`], is no limit's.
    pub(crate) fn names(&self) -> Vec<Option<&str>> {
        let last = self.owners.values().map(|owner| owner.number() as usize).max();
        let mut names = vec![None; last.unwrap_or(0) + 1];
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
