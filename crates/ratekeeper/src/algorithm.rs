//! The arithmetic: pure functions of a rule, a cell, a cost and a moment.
//!
//! They cannot fail, overflow or panic, whatever they are given. Three ways of limiting share one
//! shape, [`Algorithm`], so that a store needs to be written once:
//!
//! - [`gcra`]: tokens that come back one by one, for named limits and token buckets, and by rules
//!   that come with their asks ([`inline_rule`]);
//! - [`average`]: a decaying average of uses, the UDP limiter's rate;
//! - [`quota`]: a counter with a lifetime, Throttr's.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

pub mod average;
pub mod book;
mod cell;
pub mod gcra;
pub mod inline_rule;
pub mod quota;
pub mod tokens;

use crate::{Moment, Nanos};

/// One way of limiting: what is kept per bucket, and what an ask does to it.
pub trait Algorithm: Sized + 'static {
    /// What is kept per bucket. A bucket without a cell was never used, or might as well not have
    /// been.
    type Cell: Cell;
    /// One question to one bucket.
    type Ask: Copy;
    /// The answer to it.
    type Outcome: Copy;
    /// What it takes to read any cell: the rules it may have been written under.
    type Book: Send + Sync;

    /// The answer, and what becomes of the cell if the transaction as a whole is allowed.
    fn decide(
        book: &Self::Book,
        cell: Option<Self::Cell>,
        ask: &Self::Ask,
        now: Moment,
    ) -> (Self::Outcome, Change<Self::Cell>);

    /// What [`decide`](Self::decide) answers to an ask on its own of a cell that is there, and the
    /// cell after it, where that takes few steps; else nothing. This is the way of most asks.
    #[inline]
    fn renew(
        book: &Self::Book,
        cell: Self::Cell,
        ask: &Self::Ask,
        now: Moment,
    ) -> Option<(Self::Outcome, Self::Cell)> {
        match Self::decide(book, Some(cell), ask, now) {
            (outcome, Change::Put(after) | Change::Mark(after)) => Some((outcome, after)),
            (outcome, Change::Keep) => Some((outcome, cell)),
            (_, Change::Remove) => None,
        }
    }

    /// Whether the ask takes nothing, and was told that it would pass if it did.
    fn is_dry_run(_ask: &Self::Ask, _outcome: &Self::Outcome) -> bool {
        false
    }

    /// Whether this answer forbids the transaction that the ask is part of.
    fn vetoes(ask: &Self::Ask, outcome: &Self::Outcome) -> bool;

    /// The answer where memory is full and nothing may be forgotten for `wait`.
    fn turn_away(book: &Self::Book, ask: &Self::Ask, wait: Nanos) -> Self::Outcome;

    /// From when on forgetting the cell changes no answer.
    fn idle_at(book: &Self::Book, cell: &Self::Cell) -> Moment;

    /// Whether forgetting the cell changes no answer.
    fn is_idle(book: &Self::Book, cell: &Self::Cell, now: Moment) -> bool {
        Self::idle_at(book, cell) <= now
    }

    /// What forgetting the cell would give away; none if it is idle. Searches ask this of many cells.
    fn eviction_rank(book: &Self::Book, cell: &Self::Cell, now: Moment) -> Option<EvictionRank>;

    /// How many tokens are forgiven if the cell is forgotten; none if that is free.
    fn owed(book: &Self::Book, cell: &Self::Cell, now: Moment) -> u64;

    /// Whose key the cell is.
    fn owner(book: &Self::Book, cell: &Self::Cell) -> Owner;

    /// Whose key the cell would be that `ask` makes.
    fn asker(book: &Self::Book, ask: &Self::Ask) -> Owner;

    /// What share of a full store an owner has.
    fn share(book: &Self::Book, owner: Owner) -> Share;

    /// Whether cells written under `old` may have to be carried over to `new`.
    fn differ(old: &Self::Book, new: &Self::Book) -> bool;

    /// The cell carried over at `at` to the rule in force: for `ask` if there is one, else for
    /// whoever asked before.
    fn carry_over(
        book: &Self::Book,
        cell: Self::Cell,
        ask: Option<&Self::Ask>,
        at: Moment,
    ) -> Self::Cell;
}

/// What becomes of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change<C> {
    /// It stays as it is.
    Keep,
    /// It becomes this.
    Put(C),
    /// It becomes this even if the transaction is denied, because it changes no answer.
    Mark(C),
    /// It goes.
    Remove,
}

impl<C> Change<C> {
    /// The same change, of what `make` makes of it.
    #[inline]
    pub(crate) fn map<D>(self, make: impl FnOnce(C) -> D) -> Change<D> {
        match self {
            Self::Keep => Change::Keep,
            Self::Put(cell) => Change::Put(make(cell)),
            Self::Mark(cell) => Change::Mark(make(cell)),
            Self::Remove => Change::Remove,
        }
    }
}

/// What forgetting a cell would give away, for choosing one when memory is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRank {
    /// The least goes first.
    pub rank: f64,
    /// Half of the bucket or more is missing, or it was empty or denied an ask and is not full again:
    /// unless its owner says otherwise or has to give way to others, it stays.
    pub is_protected: bool,
}

/// Who holds keys of a store: a limit, or all that have no limit of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u32);

impl Owner {
    /// Keys that are of no limit: all those of a store whose clients bring their own rules.
    pub const NOBODY: Self = Self(0);

    /// The owner of this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Which owner it is.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// What an owner may have of a store that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    hundredths: u32,
    on_full: OnFull,
}

/// What becomes of a new key whose owner holds its share of a full store, if all that the owner holds
/// nearby is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The ask is denied.
    #[default]
    Deny,
    /// Another key of the same owner is forgotten, although its bucket was empty.
    Forget,
}

impl Share {
    /// The largest weight, in hundredths.
    pub const HUNDREDTHS_MAX: u32 = 100_000;

    /// A share of so many hundredths of an ordinary one. Nothing if that is zero or more than
    /// [`Self::HUNDREDTHS_MAX`].
    pub const fn of_hundredths(hundredths: u32, on_full: OnFull) -> Option<Self> {
        if hundredths == 0 || hundredths > Self::HUNDREDTHS_MAX {
            return None;
        }
        Some(Self { hundredths, on_full })
    }

    /// The weight, in hundredths of an ordinary one.
    pub const fn hundredths(self) -> u32 {
        self.hundredths
    }

    /// How many ordinary shares it is.
    pub fn weight(self) -> f64 {
        f64::from(self.hundredths) / 100.0
    }

    /// What becomes of a new key that finds no room in the share.
    pub const fn on_full(self) -> OnFull {
        self.on_full
    }
}

/// `share: 2, on_full: forget`
impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "share: {}, on_full: {}", self.weight(), self.on_full)
    }
}

/// As a limits file says it.
impl std::fmt::Display for OnFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Deny => "deny",
            Self::Forget => "forget",
        })
    }
}

impl Default for Share {
    fn default() -> Self {
        Self { hundredths: 100, on_full: OnFull::Deny }
    }
}

/// What a store keeps: so many words of 64 bits.
pub trait Cell: Copy + Send {
    /// How many words.
    const WORDS: usize;

    /// Reads it, each word by its number.
    fn read(word: impl Fn(usize) -> u64) -> Self;

    /// Writes it, each word with its number.
    fn write(self, put: impl FnMut(usize, u64));
}

#[cfg(test)]
mod tests;
