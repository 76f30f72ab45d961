//! Rules and names that leave the registry, so that a reload costs what the limits in force cost, and not
//! what they cost ever.
//!
//! A rule may leave if four things are true:
//!
//! - The limits in force do not name it. The limits tell.
//! - No ask by it is under way. A reload waits for all asks by the limits that it replaces, so this is true of
//!   all rules that the last reload replaced. It does not wait for asks of buckets that another process
//!   decides: if there are such, a rule has to be unused for [`ASK_TIME_MAX`] first.
//! - No bucket is under it. All buckets are looked at for that, so it is only done once there are twice as
//!   many rules as the limits in force name and as buckets kept last.
//! - No rule that stays points to it.
//!
//! A name may leave if the limits in force do not have it, and none of its rules is left. Its number is that of
//! an account of the store.
//!
//! A number is free for one edition before it is given to another rule or name. So a comparison of what a
//! bucket was and is decided by never takes one rule for the other.

use std::collections::{BTreeSet, HashSet};

use super::{Entry, Registry, Resolver};
use crate::algorithm::Owner;
use crate::algorithm::book::{BookFull, RuleId};
use crate::algorithm::gcra::Rule;
use crate::{Moment, Nanos};

/// No ask that another process decides is under way for longer: for as long a rule stays that no limit names
/// any more.
pub const ASK_TIME_MAX: Nanos = Nanos::from_secs(30);
/// How many rules there may be, besides twice as many as are needed, before some leave.
pub(super) const SPARE_RULES: usize = 64;

/// What became of the numbers of rules and names that left.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Those that the next rules have, the smallest first.
    free: BTreeSet<RuleId>,
    /// Those of rules that left with this edition.
    leaving: Vec<RuleId>,
    /// The same of names.
    free_owners: Vec<Owner>,
    leaving_owners: Vec<Owner>,
    /// No rule in force should have this number or a higher one, if it is not zero.
    far: u32,
    /// Rules with such numbers have others now, and should leave soon.
    is_stretched: bool,
    /// How many rules and names stayed when some left last, besides those that the limits named.
    kept: usize,
    /// The rules that nobody has named since that moment.
    unused: Option<(Moment, HashSet<RuleId>)>,
}

/// Rules that leave the book unless a bucket is under one.
pub(crate) struct Leaving(HashSet<RuleId>);

impl Leaving {
    /// Whether this rule is one of them.
    #[inline]
    pub(crate) fn has(&self, id: RuleId) -> bool {
        self.0.contains(&id)
    }

    /// Has a rule stay, because a bucket is under it.
    pub(crate) fn keep(&mut self, id: RuleId) {
        self.0.remove(&id);
    }
}

impl Registry {
    /// Adds a rule under a number that is free.
    pub(super) fn add(&mut self, rule: Rule) -> Result<RuleId, BookFull> {
        let Some(id) = self.numbers.free.pop_first() else { return self.book.add(rule) };
        self.book.put(id, rule);
        Ok(id)
    }

    /// Whether a rule in force keeps the book much longer than it has to be. Then it gets another number,
    /// as if it had changed, so that all those behind can be cut off.
    pub(super) fn is_far(&mut self, id: RuleId) -> bool {
        let Numbers { free, far, is_stretched, .. } = &mut self.numbers;
        let is_far = *far > 0 && id.number() >= *far && free.first().is_some_and(|free| *free < id);
        *is_stretched |= is_far;
        is_far
    }

    /// A number for a name that has none.
    pub(super) fn new_owner(&mut self) -> Owner {
        let Numbers { free_owners, leaving_owners, .. } = &mut self.numbers;
        // The first is [`Owner::NOBODY`].
        let next = self.owners.len() + leaving_owners.len() + 1;
        free_owners.pop().unwrap_or(Owner::new(u32::try_from(next).unwrap_or(u32::MAX)))
    }

    /// A rule is named again.
    pub(super) fn use_again(&mut self, id: RuleId) {
        if let Some((_, unused)) = &mut self.numbers.unused {
            unused.remove(&id);
        }
    }

    /// No rule has this number, as was saved.
    pub(super) fn is_free(&mut self, id: RuleId) {
        self.book.remove(id);
        self.numbers.free.insert(id);
    }

    /// Whether the book has this rule.
    pub(super) fn has(&self, id: RuleId) -> bool {
        self.book.rule(id).is_some()
    }

    /// How many rules of named limits there are.
    fn len(&self) -> usize {
        let Numbers { free, leaving, .. } = &self.numbers;
        self.book.len().saturating_sub(free.len()).saturating_sub(leaving.len())
    }

    /// How many rules or names there are, whichever are more.
    fn size_now(&self) -> usize {
        self.len().max(self.owners.len())
    }

    /// How much a reload goes through besides the limits: the book with its gaps, and all rules by name.
    #[cfg(test)]
    pub(crate) fn size(&self) -> [usize; 5] {
        let accounts = self.owners.values().map(|owner| owner.number() as usize).max();
        let names = self.owners.len();
        [self.book.len(), self.ids.len(), self.defaults.len(), names, accounts.unwrap_or(0)]
    }

    /// Begins another edition: the numbers that were left with the last one may be given out. Returns
    /// those of names, whose accounts begin anew.
    pub(crate) fn begin(&mut self) -> Vec<Owner> {
        let numbers = &mut self.numbers;
        numbers.free.extend(numbers.leaving.drain(..));
        while numbers.free.last().is_some_and(|id| self.book.is_last(*id)) {
            self.book.cut_last();
            numbers.free.pop_last();
        }
        let ended = std::mem::take(&mut numbers.leaving_owners);
        numbers.free_owners.extend(&ended);
        let far = self.len().saturating_mul(2).saturating_add(SPARE_RULES);
        self.numbers.far = u32::try_from(far).unwrap_or(u32::MAX);
        ended
    }

    /// The rules that may leave with this edition, which replaces `old` at `at`, if all buckets are to be
    /// looked at for that. Where `is_shared`, asks that are under way may be older than `old`.
    pub(crate) fn leaving(
        &mut self,
        old: &Resolver,
        at: Moment,
        is_shared: bool,
    ) -> Option<Leaving> {
        let needed = old.size().saturating_add(self.numbers.kept);
        let enough = needed.saturating_mul(2).saturating_add(SPARE_RULES);
        if self.size_now() < enough && !std::mem::take(&mut self.numbers.is_stretched) {
            return None;
        }
        if !is_shared {
            return Some(Leaving(self.unnamed(old)));
        }
        match self.numbers.unused.take() {
            None => self.numbers.unused = Some((at, self.unnamed(old))),
            Some((since, unused)) if at.since(since) >= ASK_TIME_MAX => {
                return Some(Leaving(unused));
            }
            young => self.numbers.unused = young,
        }
        None
    }

    /// The rules that these limits do not name.
    fn unnamed(&self, limits: &Resolver) -> HashSet<RuleId> {
        let numbered = (0..).map(RuleId::new).zip(self.book.iter());
        let there = numbered.filter_map(|(id, entry)| entry.map(|_| id));
        let mut unnamed: HashSet<_> = there.collect();
        for (_, entry) in &limits.entries {
            for id in entry.overrides.values().map(|(id, _)| id).chain(&entry.default) {
                unnamed.remove(id);
            }
        }
        unnamed
    }

    /// Has rules leave the book, and names that neither `old` nor any rule has any more.
    pub(crate) fn remove(&mut self, Leaving(mut leaving): Leaving, old: &Resolver) {
        // Where a rule stays, what it is decided by stays. That is never replaced itself.
        let numbered = (0..).map(RuleId::new).zip(self.book.iter());
        let there = numbered.filter_map(|(id, entry)| Some((id, entry?.1)));
        let needed: Vec<_> = there.filter(|(id, _)| !leaving.contains(id)).collect();
        for (_, successor) in needed {
            leaving.remove(&successor);
        }
        for id in &leaving {
            self.book.remove(*id);
        }
        self.ids.retain(|_, id| !leaving.contains(id));
        self.defaults.retain(|_, id| !leaving.contains(id));
        self.numbers.leaving = leaving.into_iter().collect();
        let names: HashSet<&str> = self.ids.keys().map(|(name, ..)| &**name).collect();
        let left = self
            .owners
            .extract_if(|name, _| !names.contains(&**name) && !old.places.contains_key(name));
        self.numbers.leaving_owners = left.map(|(_, owner)| owner).collect();
        self.numbers.kept = self.size_now().saturating_sub(old.size());
        // A reload makes a copy of these, which costs what they have room for.
        self.ids.shrink_to_fit();
        self.defaults.shrink_to_fit();
        self.owners.shrink_to_fit();
    }
}

impl Resolver {
    /// How many rules or names these limits have, whichever are more.
    fn size(&self) -> usize {
        let rules = |entry: &Entry| entry.overrides.len() + usize::from(entry.default.is_some());
        let rules: usize = self.entries.iter().map(|(_, entry)| rules(entry)).sum();
        rules.max(self.entries.len())
    }
}

impl Entry {
    /// The same of a name that is gone, without rules that left. None if nothing of it is left.
    pub(super) fn retired(&self, registry: &Registry) -> Option<Self> {
        let mut entry = self.clone();
        if !registry.numbers.leaving.is_empty() {
            entry.default = entry.default.filter(|id| registry.has(*id));
            entry.lapsed.retain(|_, id| registry.has(*id));
            if entry.overrides.values().any(|(id, _)| !registry.has(*id)) {
                std::sync::Arc::make_mut(&mut entry.overrides)
                    .retain(|_, (id, _)| registry.has(*id));
            }
        }
        let is_empty = entry.overrides.is_empty() && entry.lapsed.is_empty();
        (entry.default.is_some() || !is_empty).then_some(entry)
    }
}
