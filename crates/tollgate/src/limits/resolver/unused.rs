//! Rules that leave the book, so that a reload costs what the limits in force cost, and not what they
//! cost ever.
//!
//! A rule may leave if the limits in force do not name it, no ask by it is under way, no bucket is under
//! it, and no rule that stays points to it. The first is known from the limits. The second holds for
//! whatever the last reload replaced, because that waited for all asks; unless buckets are asked for
//! elsewhere, which nobody waits for: then a rule has to be unused for an [`ERA`] first. For the third all
//! buckets are looked at, so that is only done once there are twice as many rules as were needed last.
//!
//! A number stays without a rule for one edition before it is another's. So whoever compares what a bucket
//! was and is decided by never takes one rule for the other.

use std::collections::HashSet;

use super::{Entry, Registry, Resolver};
use crate::Moment;
use crate::algorithm::book::{BookFull, RuleId};
use crate::algorithm::carried::ERA;
use crate::algorithm::gcra::Rule;

/// How many rules there may be, besides twice as many as were needed last, before some leave.
pub(super) const SPARE_RULES: usize = 64;

/// What became of the numbers of rules that left.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Those that the next rules have.
    free: Vec<RuleId>,
    /// Those of rules that left with this edition.
    leaving: Vec<RuleId>,
    /// How many rules stayed when some left last.
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
        let Some(id) = self.numbers.free.pop() else { return self.book.add(rule) };
        self.book.put(id, rule);
        Ok(id)
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
        self.numbers.free.push(id);
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

    /// How much a reload goes through besides the limits: the book with its gaps, and all rules by name.
    #[cfg(test)]
    pub(crate) fn size(&self) -> [usize; 3] {
        [self.book.len(), self.ids.len(), self.defaults.len()]
    }

    /// Begins another edition at `at`, in place of `old`. Something if rules may leave, and buckets have
    /// to be looked at for that. Where `is_shared`, asks that are under way may be older than `old`.
    pub(crate) fn begin(&mut self, old: &Resolver, at: Moment, is_shared: bool) -> Option<Leaving> {
        let ended = std::mem::take(&mut self.numbers.leaving);
        self.numbers.free.extend(ended);
        if self.len() < self.numbers.kept.saturating_mul(2).saturating_add(SPARE_RULES) {
            return None;
        }
        if !is_shared {
            return Some(Leaving(self.unnamed(old)));
        }
        match self.numbers.unused.take() {
            None => self.numbers.unused = Some((at, self.unnamed(old))),
            Some((since, unused)) if at.since(since) >= ERA => return Some(Leaving(unused)),
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

    /// Has rules leave the book.
    pub(crate) fn remove(&mut self, Leaving(mut leaving): Leaving) {
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
        self.numbers.kept = self.len();
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
