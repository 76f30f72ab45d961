//! Tokens by rules that come with their asks, as `CL.THROTTLE` brings them.
//!
//! A cell holds the rule that its time is counted under, next to what [`BucketCell`] holds: 32 bytes
//! instead of 16. So there is no table of such rules that a client could fill, and a rule costs
//! nothing once its bucket is full. All asks of a key share its bucket, whatever rules they bring:
//! with each new rule what was spent stays spent and comes back as that rule says.

use std::num::NonZeroU64;

use super::cell::{BucketCell, spend_plain};
use super::gcra::{self, Debt, Outcome, Rule, Verdict};
use super::tokens::{self, Action, Bucket};
use super::{Algorithm, Cell, Change, EvictionRank, Owner, Share};
use crate::algorithm::book::RuleId;
use crate::{Moment, Nanos};

/// A rule in 16 bytes.
///
/// From the lowest bit: ticks per token (63 bits and one that is not used); the burst less one and
/// the ticks per nanosecond less one, 32 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InlineRule([u64; 2]);

impl InlineRule {
    /// The rule, packed.
    #[expect(clippy::cast_possible_truncation, reason = "both are from 1 to 2^32")]
    pub const fn new(rule: &Rule) -> Self {
        let (step, rate) = rule.emission_interval();
        let (burst, rate) = (rule.burst().wrapping_sub(1) as u32, rate.wrapping_sub(1) as u32);
        Self([step, burst as u64 | (rate as u64) << u32::BITS])
    }

    /// The rule, to decide by.
    #[inline]
    pub fn rule(self) -> Rule {
        let [step, both] = self.0;
        let rate = (both >> u32::BITS).saturating_add(1);
        // None is zero, unless a cell was damaged; then the rule is one that exists all the same.
        let positive = |number| NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN);
        Rule::in_ticks(self.burst(), positive(step), positive(rate))
    }

    /// How many tokens a full bucket holds.
    #[inline]
    pub const fn burst(self) -> u64 {
        (self.0[1] & u32::MAX as u64).saturating_add(1)
    }

    /// Whether [`Rule::new`] could have made it.
    fn is_sound(self) -> bool {
        let [step, _] = self.0;
        let (_, rate) = self.rule().emission_interval();
        let again = Rule::new(self.burst(), rate, Nanos::new(step.into()));
        again.is_ok_and(|again| Self::new(&again) == self)
    }
}

/// One question to one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The rule that it brings.
    pub rule: InlineRule,
    /// What is wanted.
    pub action: Action,
    /// How many tokens.
    pub cost: u64,
}

/// What is kept of a bucket whose rule came with an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineCell {
    bucket: BucketCell,
    rule: InlineRule,
}

/// The number in place of a rule's: the rule itself stands beside it.
const BESIDE: RuleId = RuleId::new(0);

impl InlineCell {
    /// The bucket that was found `at` to be full again after `full_in`, with so many tokens hidden.
    pub fn filling(rule: InlineRule, full_in: Nanos, hidden: u64, at: Moment) -> Self {
        let bucket = BucketCell::filling(BESIDE, &rule.rule(), full_in, hidden, at);
        Self { bucket, rule }
    }

    /// The rule that its time is counted under.
    #[inline]
    pub const fn rule(&self) -> InlineRule {
        self.rule
    }

    /// Whether asks can have led to it.
    pub(crate) fn is_sound(&self) -> bool {
        self.rule.is_sound() && self.bucket.rule() == BESIDE
    }

    /// What it owes as of `now`, by the rule of an ask.
    fn debt(&self, rule: InlineRule, now: Moment) -> Debt {
        let own = self.rule.rule();
        let debt = self.bucket.debt(&own);
        if self.rule == rule {
            return debt.settled(&own, now);
        }
        gcra::carry_over(&own, &rule.rule(), debt, now)
    }

    /// When nothing of it will be owed any more.
    #[inline]
    fn over_at(&self, rule: &Rule) -> gcra::Tat {
        self.bucket.over_at(rule)
    }
}

/// GCRA by rules that come with their asks.
#[derive(Clone, Copy, Debug)]
pub struct InlineGcra;

impl Algorithm for InlineGcra {
    type Cell = InlineCell;
    type Ask = Ask;
    type Outcome = Outcome;
    type Book = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "returned through memory it takes longer")]
    fn renew((): &(), cell: InlineCell, ask: &Ask, now: Moment) -> Option<(Outcome, InlineCell)> {
        if cell.rule != ask.rule || ask.action != Action::CheckAndSpend || ask.cost == 0 {
            return None;
        }
        let rule = ask.rule.rule();
        let (outcome, bucket) = spend_plain(&rule, cell.bucket, BESIDE, ask.cost, now)?;
        Some((outcome, InlineCell { bucket, ..cell }))
    }

    fn decide(
        (): &(),
        cell: Option<InlineCell>,
        ask: &Ask,
        now: Moment,
    ) -> (Outcome, Change<InlineCell>) {
        let rule = ask.rule.rule();
        let found = cell.map(|cell| Bucket {
            debt: cell.debt(ask.rule, now),
            flags: cell.bucket.flags(),
            is_under: cell.rule == ask.rule,
        });
        let (outcome, change) = tokens::decide(&rule, found, ask.action, ask.cost, now);
        let owing = |(debt, flags)| {
            let bucket = BucketCell::owing(debt, BESIDE, &rule, flags);
            InlineCell { bucket, rule: ask.rule }
        };
        (outcome, change.map(owing))
    }

    fn is_dry_run(ask: &Ask, outcome: &Outcome) -> bool {
        tokens::is_dry_run(ask.action, ask.cost, outcome)
    }

    fn vetoes(ask: &Ask, outcome: &Outcome) -> bool {
        tokens::vetoes(ask.action, false, outcome)
    }

    fn turn_away((): &(), ask: &Ask, wait: Nanos) -> Outcome {
        let (verdict, remaining) = (Verdict::Deny, ask.rule.burst());
        Outcome { verdict, remaining, retry_in: wait, reset_in: Nanos::ZERO }
    }

    #[inline]
    fn idle_at((): &(), cell: &InlineCell) -> Moment {
        let rule = cell.rule.rule();
        gcra::full_at(&rule, cell.over_at(&rule))
    }

    fn is_idle((): &(), cell: &InlineCell, now: Moment) -> bool {
        let rule = cell.rule.rule();
        gcra::is_full(&rule, cell.over_at(&rule), now)
    }

    #[inline]
    fn eviction_rank((): &(), cell: &InlineCell, now: Moment) -> Option<EvictionRank> {
        let rule = cell.rule.rule();
        tokens::eviction_rank(&rule, cell.over_at(&rule), cell.bucket.flags(), now)
    }

    fn owed((): &(), cell: &InlineCell, now: Moment) -> u64 {
        let rule = cell.rule.rule();
        tokens::owed(&rule, cell.bucket.debt(&rule).settled(&rule, now), now)
    }

    /// Clients choose the rules, so all keys are one owner's.
    fn owner((): &(), _: &InlineCell) -> Owner {
        Owner::NOBODY
    }

    fn asker((): &(), _: &Ask) -> Owner {
        Owner::NOBODY
    }

    fn share((): &(), _: Owner) -> Share {
        Share::default()
    }

    fn differ((): &(), (): &()) -> bool {
        false
    }

    fn carry_over((): &(), cell: InlineCell, ask: Option<&Ask>, at: Moment) -> InlineCell {
        let Some(new) = ask.map(|ask| ask.rule).filter(|rule| *rule != cell.rule) else {
            return cell;
        };
        let debt = cell.debt(new, at);
        let bucket = BucketCell::carried_over(&cell.bucket, debt, BESIDE, &new.rule(), at);
        InlineCell { bucket, rule: new }
    }
}

impl Cell for InlineCell {
    const WORDS: usize = BucketCell::WORDS + 2;

    #[inline]
    fn read(word: impl Fn(usize) -> u64) -> Self {
        let rule = InlineRule([word(BucketCell::WORDS), word(BucketCell::WORDS + 1)]);
        Self { bucket: BucketCell::read(word), rule }
    }

    #[inline]
    fn write(self, mut put: impl FnMut(usize, u64)) {
        let InlineRule([step, both]) = self.rule;
        put(BucketCell::WORDS, step);
        put(BucketCell::WORDS + 1, both);
        self.bucket.write(put);
    }
}
