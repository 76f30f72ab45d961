//! The book of GCRA rules, by which cells are read.
//!
//! A cell says which rule its time is counted under, because the ticks of one rule mean nothing
//! under another. Rules of limits never change: a limit that changes gets a new rule, and the old one
//! points to it. A rule leaves the book when nobody needs it, and later its number is another's.

use std::collections::HashMap;
use std::sync::Arc;

pub use super::cell::BucketCell;
use super::cell::spend_plain;
use super::gcra::{self, Debt, Outcome, Rule, Verdict};
pub use super::tokens::Action;
use super::tokens::{self, Bucket};
use super::{Algorithm, Change, EvictionRank, Owner, Share};
use crate::{Moment, Nanos};

/// How many rules of named limits one book can hold.
pub const RULES_MAX: usize = 1 << 24;

/// A rule's place in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u32);

impl RuleId {
    /// In no book.
    pub(crate) const NONE: Self = Self(u32::MAX >> 3);

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Which of the rules of its book it is, from zero.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    rule: Rule,
    /// The rule that asks under this one are decided by today; itself while it is in force.
    successor: RuleId,
    /// Whose keys are under it.
    owner: Owner,
}

impl Entry {
    /// Whether its rule has left the book.
    fn is_gone(&self) -> bool {
        self.successor == RuleId::NONE
    }
}

/// All rules that a cell may have been written under.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    /// What each owner may have of a full store, by number.
    shares: Arc<Vec<Share>>,
    /// Which one it is, if whoever asks by it wants to know whether a store still has it.
    edition: u64,
}

/// The book has no room for another rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are {RULES_MAX} different rules, and no more can be held: use fewer, or wait until buckets are \
     full that are under rules of old"
)]
pub struct BookFull;

impl Book {
    /// Adds a rule, unless the book is full.
    pub fn add(&mut self, rule: Rule) -> Result<RuleId, BookFull> {
        if self.entries.len() >= RULES_MAX {
            return Err(BookFull);
        }
        let id = RuleId(u32::try_from(self.entries.len()).map_err(|_| BookFull)?);
        self.entries.push(Entry { rule, successor: id, owner: Owner::NOBODY });
        Ok(id)
    }

    /// Adds a rule under a number that no rule has any more.
    pub(crate) fn put(&mut self, id: RuleId, rule: Rule) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            *entry = Entry { rule, successor: id, owner: Owner::NOBODY };
        }
    }

    /// Has no rule under this number from now on. Nobody may ask by it, and no cell may be under it.
    pub(crate) fn remove(&mut self, id: RuleId) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            entry.successor = RuleId::NONE;
        }
    }

    /// Whether no rule has a higher number.
    pub(crate) fn is_last(&self, id: RuleId) -> bool {
        self.entries.len() == (id.0 as usize).saturating_add(1)
    }

    /// Has one number less: the last one, which no rule has any more.
    pub(crate) fn cut_last(&mut self) {
        self.entries.pop();
    }

    /// Whether rules of named limits have left since `old` was this book.
    pub fn has_lost_since(&self, old: &Self) -> bool {
        let mut both = old.entries.iter().zip(&self.entries);
        both.any(|(old, new)| !old.is_gone() && new.is_gone())
    }

    /// Has keys under a rule be an owner's.
    pub fn set_owner(&mut self, id: RuleId, owner: Owner) {
        if let Some(entry) = self.entries.get_mut(id.0 as usize) {
            entry.owner = owner;
        }
    }

    /// Has each owner have this share of a full store, by number.
    pub fn set_shares(&mut self, shares: Arc<Vec<Share>>) {
        self.shares = shares;
    }

    /// Whose keys are under a rule.
    #[inline]
    pub fn owner(&self, id: RuleId) -> Owner {
        self.entries.get(id.0 as usize).map_or(Owner::NOBODY, |entry| entry.owner)
    }

    /// From now on each rule on the left is decided as the one on the right, and so is all that
    /// was decided as it.
    pub fn replace(&mut self, rules: &HashMap<RuleId, RuleId>) {
        for entry in &mut self.entries {
            if let Some(new) = rules.get(&entry.successor) {
                entry.successor = *new;
            }
        }
        for new in rules.values() {
            if let Some(entry) = self.entries.get_mut(new.0 as usize) {
                entry.successor = *new;
            }
        }
    }

    /// The rule that a cell is under, where it stands: a copy takes longer than what searches do with it.
    #[inline]
    fn rule_of(&self, cell: &BucketCell) -> Option<&Rule> {
        self.entries.get(cell.rule().0 as usize).map(|entry| &entry.rule)
    }

    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    pub(crate) fn set_edition(&mut self, edition: u64) {
        self.edition = edition;
    }

    /// How many rules of named limits there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The rules of named limits that are in force.
    pub fn all_in_force(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        let numbered = (0..).map(RuleId).zip(&self.entries);
        numbered.filter(|(id, entry)| entry.successor == *id).map(|(id, entry)| (id, &entry.rule))
    }

    /// Every rule of a named limit, by number, each with the number of the one in force in its place.
    /// None where it has left.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<(&Rule, RuleId)>> {
        let there = |entry: &Entry| !entry.is_gone();
        self.entries.iter().map(move |it| there(it).then_some((&it.rule, it.successor)))
    }

    /// The rule of this number, if the book has it.
    pub fn rule(&self, id: RuleId) -> Option<Rule> {
        self.entries.get(id.0 as usize).filter(|entry| !entry.is_gone()).map(|entry| entry.rule)
    }

    /// The rule in force for asks under `id`, and its number.
    #[inline]
    pub fn in_force(&self, id: RuleId) -> Option<(RuleId, Rule)> {
        let entry = self.entries.get(id.0 as usize)?;
        if entry.successor == id {
            return Some((id, entry.rule));
        }
        self.rule(entry.successor).map(|rule| (entry.successor, rule))
    }

    /// What a bucket owes under the rule `id`, as of `now`.
    fn debt(&self, cell: &BucketCell, id: RuleId, rule: &Rule, now: Moment) -> Debt {
        if cell.rule() == id {
            return cell.debt(rule).settled(rule, now);
        }
        let old = self.rule(cell.rule());
        old.map_or(Debt::NONE, |old| gcra::carry_over(&old, rule, cell.debt(&old), now))
    }

    /// What a bucket owes as of `now`, under the rule that asks by `id` are decided by, and that rule.
    pub fn owed(&self, cell: Option<BucketCell>, id: RuleId, now: Moment) -> Option<(Rule, Debt)> {
        let (id, rule) = self.in_force(id)?;
        let debt = cell.map_or(Debt::NONE, |cell| self.debt(&cell, id, &rule, now));
        Some((rule, debt))
    }
}

/// One question to one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The rule to decide by.
    pub rule: RuleId,
    /// What is wanted.
    pub action: Action,
    /// Whether its limit is in shadow: its denial is told, but denies no transaction.
    pub is_shadow: bool,
    /// How many tokens.
    pub cost: u64,
}

/// GCRA over the rules of a [`Book`].
#[derive(Clone, Copy, Debug)]
pub struct Gcra;

impl Algorithm for Gcra {
    type Cell = BucketCell;
    type Ask = Ask;
    type Outcome = Outcome;
    type Book = Book;

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "called, it adds a tenth to the instructions of a batch"
    )]
    fn renew(
        book: &Book,
        cell: BucketCell,
        ask: &Ask,
        now: Moment,
    ) -> Option<(Outcome, BucketCell)> {
        let entry = book.entries.get(ask.rule.0 as usize)?;
        let is_in_force = entry.successor == ask.rule;
        if !is_in_force || ask.action != Action::CheckAndSpend || ask.cost == 0 {
            return None;
        }
        spend_plain(&entry.rule, cell, ask.rule, ask.cost, now)
    }

    #[inline]
    fn decide(
        book: &Book,
        cell: Option<BucketCell>,
        ask: &Ask,
        now: Moment,
    ) -> (Outcome, Change<BucketCell>) {
        let Some((id, rule)) = book.in_force(ask.rule) else {
            return (Outcome::default(), Change::Keep);
        };
        let found = cell.map(|cell| Bucket {
            debt: book.debt(&cell, id, &rule, now),
            flags: cell.flags(),
            is_under: cell.rule() == id,
        });
        let (outcome, change) = tokens::decide(&rule, found, ask.action, ask.cost, now);
        (outcome, change.map(|(debt, flags)| BucketCell::owing(debt, id, &rule, flags)))
    }

    fn is_dry_run(ask: &Ask, outcome: &Outcome) -> bool {
        tokens::is_dry_run(ask.action, ask.cost, outcome)
    }

    fn vetoes(ask: &Ask, outcome: &Outcome) -> bool {
        tokens::vetoes(ask.action, ask.is_shadow, outcome)
    }

    fn turn_away(book: &Book, ask: &Ask, wait: Nanos) -> Outcome {
        // The bucket itself is full; it is the store that has to wait.
        let remaining = book.in_force(ask.rule).map_or(0, |(_, rule)| rule.burst());
        Outcome { verdict: Verdict::Deny, remaining, retry_in: wait, reset_in: Nanos::ZERO }
    }

    #[inline]
    fn idle_at(book: &Book, cell: &BucketCell) -> Moment {
        let full_at = |rule: &_| gcra::full_at(rule, cell.over_at(rule));
        book.rule_of(cell).map_or(Moment::EPOCH, full_at)
    }

    fn is_idle(book: &Book, cell: &BucketCell, now: Moment) -> bool {
        let is_full = |rule: &_| gcra::is_full(rule, cell.over_at(rule), now);
        book.rule_of(cell).is_none_or(is_full)
    }

    #[inline]
    fn eviction_rank(book: &Book, cell: &BucketCell, now: Moment) -> Option<EvictionRank> {
        let rule = book.rule_of(cell)?;
        tokens::eviction_rank(rule, cell.over_at(rule), cell.flags(), now)
    }

    fn owed(book: &Book, cell: &BucketCell, now: Moment) -> u64 {
        let owed = |rule| tokens::owed(&rule, cell.debt(&rule).settled(&rule, now), now);
        book.rule(cell.rule()).map_or(0, owed)
    }

    #[inline]
    fn owner(book: &Book, cell: &BucketCell) -> Owner {
        book.owner(cell.rule())
    }

    #[inline]
    fn asker(book: &Book, ask: &Ask) -> Owner {
        book.owner(ask.rule)
    }

    fn share(book: &Book, owner: Owner) -> Share {
        book.shares.get(owner.number() as usize).copied().unwrap_or_default()
    }

    fn differ(old: &Book, new: &Book) -> bool {
        // No cell is under a rule that has left, or that has come since.
        let is_there = |(old, new): &(&Entry, &Entry)| !old.is_gone() && !new.is_gone();
        let mut both = old.entries.iter().zip(&new.entries).filter(is_there);
        both.any(|(old, new)| old.successor != new.successor)
    }

    fn carry_over(book: &Book, cell: BucketCell, ask: Option<&Ask>, at: Moment) -> BucketCell {
        match book.in_force(ask.map_or(cell.rule(), |ask| ask.rule)) {
            Some((id, rule)) if id != cell.rule() => {
                let debt = book.debt(&cell, id, &rule, at);
                BucketCell::carried_over(&cell, debt, id, &rule, at)
            }
            _ => cell,
        }
    }
}
