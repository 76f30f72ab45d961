//! The book of GCRA rules, and the cells that are read by it.
//!
//! A cell says which rule its time is counted under, because the ticks of one rule mean nothing
//! under another. Rules of limits never change and never leave the book: a limit that changes gets a
//! new rule, and the old one points to it. Those that come with asks leave it when nobody needs them.

use std::collections::HashMap;
use std::sync::Arc;

use super::carried::CarriedRules;
use super::gcra::{self, Outcome, Rule, TAT_BITS, Tat, Verdict};
use super::{Algorithm, Cell, Change, Owner, Share, Standing};
use crate::{Moment, Nanos};

/// How many rules one book can hold, over the life of a process and of the state it saves.
pub const RULES_MAX: usize = 1 << 24;

/// A rule's place in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u32);

impl RuleId {
    /// In no book.
    pub(crate) const NONE: Self = Self(u32::MAX >> 2);

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

/// All rules that a cell may have been written under.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    /// What each owner may have of a full store, by number.
    shares: Arc<Vec<Share>>,
    /// Those that come with asks, in common with all clones of this book.
    carried: Arc<CarriedRules>,
    /// Which one it is, if whoever asks by it wants to know whether a store still has it.
    edition: u64,
}

/// The book has no room for another rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there were {RULES_MAX} different rules, and no more can be held: start without saved state"
)]
pub struct BookFull;

impl Book {
    /// Adds a rule, unless the book is full.
    pub fn add(&mut self, rule: Rule) -> Result<RuleId, BookFull> {
        if self.entries.len() >= RULES_MAX {
            return Err(BookFull);
        }
        let id = RuleId(u32::try_from(self.entries.len()).map_err(|_| BookFull)?);
        self.entries.push(Entry { rule, successor: id, owner: Owner::CARRIED });
        Ok(id)
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
        self.entries.get(id.0 as usize).map_or(Owner::CARRIED, |entry| entry.owner)
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

    #[inline]
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    pub(crate) fn set_edition(&mut self, edition: u64) {
        self.edition = edition;
    }

    /// The rules that come with asks.
    pub(crate) fn carried(&self) -> &Arc<CarriedRules> {
        &self.carried
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rule, RuleId)> {
        self.entries.iter().map(|entry| (&entry.rule, entry.successor))
    }

    /// The rule of this number, if the book has it.
    pub fn rule(&self, id: RuleId) -> Option<Rule> {
        match self.entries.get(id.0 as usize) {
            Some(entry) => Some(entry.rule),
            None => self.carried.rule(id),
        }
    }

    /// The rule in force for asks under `id`, and its number.
    #[inline]
    pub fn in_force(&self, id: RuleId) -> Option<(RuleId, Rule)> {
        let Some(entry) = self.entries.get(id.0 as usize) else {
            return self.carried.rule(id).map(|rule| (id, rule));
        };
        if entry.successor == id {
            return Some((id, entry.rule));
        }
        self.rule(entry.successor).map(|rule| (entry.successor, rule))
    }

    /// The bucket of `cell` under the rule `id`, as of `now`.
    fn tat(&self, cell: &BucketCell, id: RuleId, rule: &Rule, now: Moment) -> Tat {
        if cell.rule() == id {
            return cell.tat();
        }
        let old = self.rule(cell.rule());
        old.map_or(Tat::FULL, |old| gcra::carry_over(&old, rule, cell.tat(), now))
    }
}

/// What an ask wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take the tokens if the whole transaction is allowed; deny it if they are not there.
    CheckAndSpend,
    /// Deny the transaction if the tokens are not there; take none.
    CheckOnly,
    /// Take the tokens if they are there; never deny.
    SpendOnly,
    /// Give the tokens back.
    Refund,
    /// Fill the bucket.
    Reset,
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

/// What is kept of a bucket: 16 bytes.
///
/// From the lowest bit: the TAT; whether the bucket was empty since it was last full; a bit that is not
/// used; the number of the rule. They stay packed, because a decision only moves them about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCell(u128);

/// The bucket was empty, or denied an ask, since it was last full.
const EMPTIED: u128 = 1 << TAT_BITS;
const RULE_SHIFT: u32 = TAT_BITS + 2;

impl BucketCell {
    /// A full bucket, under no rule.
    pub const FULL: Self = Self((RuleId::NONE.0 as u128) << RULE_SHIFT);

    /// The bucket of `rule` that was found `at` to be full again after `full_in`.
    pub fn filling(id: RuleId, rule: &Rule, full_in: Nanos, at: Moment) -> Self {
        let tat = gcra::filling(rule, full_in, at);
        let (_, peek) = gcra::spend(rule, tat, 0, at);
        Self::new(tat, id, emptied(peek.remaining))
    }

    #[inline]
    fn new(tat: Tat, rule: RuleId, flags: u128) -> Self {
        Self(tat.as_ticks() | flags | u128::from(rule.0) << RULE_SHIFT)
    }

    #[inline]
    const fn tat(self) -> Tat {
        Tat::from_ticks(self.0 & (EMPTIED - 1))
    }

    /// The rule that its time is counted under.
    #[inline]
    pub const fn rule(self) -> RuleId {
        RuleId((self.0 >> RULE_SHIFT) as u32)
    }

    #[inline]
    const fn flags(self) -> u128 {
        self.0 & EMPTIED
    }

    /// The flags after tokens were taken or given back at `now`, so that so many are left. A bucket
    /// that was empty counts as such until it is full again: if it did not, who waits for one token
    /// would have it forgotten by a flood.
    #[inline]
    fn flags_after(self, rule: &Rule, remaining: u64, now: Moment) -> u128 {
        let before = if gcra::is_full(rule, self.tat(), now) { 0 } else { self.flags() };
        before | emptied(remaining)
    }
}

#[inline]
const fn emptied(remaining: u64) -> u128 {
    if remaining == 0 { EMPTIED } else { 0 }
}

impl Cell for BucketCell {
    const WORDS: usize = 2;

    #[inline]
    fn read(word: impl Fn(usize) -> u64) -> Self {
        Self(u128::from(word(0)) | u128::from(word(1)) << 64)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of it")]
    fn write(self, mut put: impl FnMut(usize, u64)) {
        put(0, self.0 as u64);
        put(1, (self.0 >> 64) as u64);
    }
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
        let carried;
        let rule = match book.entries.get(ask.rule.0 as usize) {
            Some(entry) if entry.successor == ask.rule => &entry.rule,
            Some(_) => return None,
            None => {
                carried = book.carried.rule(ask.rule)?;
                &carried
            }
        };
        if cell.rule() != ask.rule {
            return None;
        }
        if ask.action != Action::CheckAndSpend || ask.cost == 0 {
            return None;
        }
        let (after, outcome) = gcra::spend_short(rule, cell.tat(), ask.cost, now)?;
        let renewed = match outcome.verdict {
            Verdict::Allow => {
                let flags = cell.flags_after(rule, outcome.remaining, now);
                BucketCell::new(after, ask.rule, flags)
            }
            _ => BucketCell(cell.0 | EMPTIED),
        };
        Some((outcome, renewed))
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
        let before = cell.as_ref().map_or(Tat::FULL, |cell| book.tat(cell, id, &rule, now));
        let (after, outcome) = match ask.action {
            Action::Refund => gcra::refund(&rule, before, ask.cost, now),
            Action::Reset => gcra::reset(&rule),
            Action::CheckAndSpend | Action::CheckOnly | Action::SpendOnly => {
                gcra::spend(&rule, before, ask.cost, now)
            }
        };
        let change = match (ask.action, outcome.verdict, cell) {
            (Action::CheckAndSpend | Action::SpendOnly | Action::Refund, Verdict::Allow, _)
                if ask.cost > 0 =>
            {
                let cell = BucketCell::new(before, id, cell.map_or(0, BucketCell::flags));
                let flags = cell.flags_after(&rule, outcome.remaining, now);
                Change::Put(BucketCell::new(after, id, flags))
            }
            (Action::Reset, ..) => Change::Remove,
            (Action::CheckOnly | Action::CheckAndSpend, Verdict::Deny, Some(cell))
                if cell.flags() == 0 || cell.rule() != id =>
            {
                Change::Mark(BucketCell::new(before, id, EMPTIED))
            }
            // It was written under another rule: by an ask that a reload overtook, or that brought
            // its own.
            (.., Some(cell)) if cell.rule() != id => {
                Change::Mark(BucketCell::new(before, id, cell.flags()))
            }
            _ => Change::Keep,
        };
        (outcome, change)
    }

    fn vetoes(ask: &Ask, outcome: &Outcome) -> bool {
        match outcome.verdict {
            Verdict::Allow => false,
            Verdict::Deny => {
                let is_condition = matches!(ask.action, Action::CheckAndSpend | Action::CheckOnly);
                is_condition && !ask.is_shadow
            }
            Verdict::Never => !ask.is_shadow,
        }
    }

    fn turn_away(book: &Book, ask: &Ask, wait: Nanos) -> Outcome {
        // The bucket itself is full; it is the store that has to wait.
        let remaining = book.in_force(ask.rule).map_or(0, |(_, rule)| rule.burst());
        Outcome { verdict: Verdict::Deny, remaining, retry_in: wait, reset_in: Nanos::ZERO }
    }

    fn idle_at(book: &Book, cell: &BucketCell) -> Moment {
        book.rule(cell.rule()).map_or(Moment::EPOCH, |rule| gcra::full_at(&rule, cell.tat()))
    }

    fn is_idle(book: &Book, cell: &BucketCell, now: Moment) -> bool {
        book.rule(cell.rule()).is_none_or(|rule| gcra::is_full(&rule, cell.tat(), now))
    }

    #[inline]
    fn standing(book: &Book, cell: &BucketCell, now: Moment) -> Option<Standing> {
        let carried;
        let rule = if let Some(entry) = book.entries.get(cell.rule().0 as usize) {
            &entry.rule
        } else {
            carried = book.carried.rule(cell.rule())?;
            &carried
        };
        let rank = gcra::missing_part(rule, cell.tat(), now)?;
        Some(Standing { rank, is_protected: cell.flags() != 0 })
    }

    fn owed(book: &Book, cell: &BucketCell, now: Moment) -> u64 {
        book.rule(cell.rule()).map_or(0, |rule| {
            let (_, peek) = gcra::spend(&rule, cell.tat(), 0, now);
            rule.burst().saturating_sub(peek.remaining)
        })
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
        old.entries.iter().zip(&new.entries).any(|(old, new)| old.successor != new.successor)
    }

    fn carry_over(book: &Book, cell: BucketCell, ask: Option<&Ask>, at: Moment) -> BucketCell {
        match book.in_force(ask.map_or(cell.rule(), |ask| ask.rule)) {
            Some((id, rule)) if id != cell.rule() => {
                BucketCell::new(book.tat(&cell, id, &rule, at), id, cell.flags())
            }
            _ => cell,
        }
    }
}
