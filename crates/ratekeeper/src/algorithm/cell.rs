//! What is kept of a bucket, packed.

use super::Cell;
use super::book::RuleId;
use super::gcra::{self, Debt, Outcome, Rule, TAT_BITS, Tat, Verdict};
use crate::{Moment, Nanos};

/// What is kept of a bucket: 16 bytes.
///
/// From the lowest bit: the TAT; whether the bucket was empty since it was last full; a bit that is not
/// used; the number of the rule; whether something is hidden. They stay packed, because a decision only
/// moves them about.
///
/// Where tokens are hidden, they stand above the TAT, in those of its bits that it never needs under
/// this rule, `Rule::tat_bits`. For limits with a simple rate these are up to 32, enough for whatever
/// can be hidden. Where they are not enough, nothing is hidden: see [`gcra::carry_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCell(u128);

/// The bucket was empty, or denied an ask, since it was last full.
pub(super) const EMPTIED: u128 = 1 << TAT_BITS;
const RULE_SHIFT: u32 = TAT_BITS + 2;
/// Some of the bits of the TAT are hidden tokens. It is the highest bit of all, next to the number of
/// the rule, so that whoever compares both at once sees a bucket that goes the long way.
const HIDES: u128 = 1 << (u128::BITS - 1);

impl BucketCell {
    /// The bucket of `rule` that was found `at` to be full again after `full_in`, with so many tokens
    /// hidden.
    pub fn filling(id: RuleId, rule: &Rule, full_in: Nanos, hidden: u64, at: Moment) -> Self {
        let shown = gcra::filling(rule, full_in, at);
        Self::owing(Debt { shown, hidden }, id, rule, emptied_at(rule, shown, at))
    }

    /// The bucket that was `before`, owing this under another rule since `at`. If no token is left by that
    /// rule, the bucket counts as emptied.
    pub(super) fn carried_over(
        before: &Self,
        debt: Debt,
        id: RuleId,
        rule: &Rule,
        at: Moment,
    ) -> Self {
        Self::owing(debt, id, rule, before.flags() | emptied_at(rule, debt.shown, at))
    }

    /// The bucket that owes this under a rule.
    #[inline]
    pub(super) fn owing(debt: Debt, id: RuleId, rule: &Rule, flags: u128) -> Self {
        if debt.hidden == 0 {
            return Self::new(debt.shown, id, flags);
        }
        Self::hiding(debt, id, rule)
    }

    /// A bucket with hidden tokens. It counts as emptied, because it is not full before all of them have
    /// come back.
    #[inline(never)]
    fn hiding(debt: Debt, id: RuleId, rule: &Rule) -> Self {
        let (shown, bits) = (debt.shown.as_ticks(), rule.tat_bits());
        // What comes from elsewhere may be more than there is room for.
        if shown.checked_shr(bits).unwrap_or(0) > 0 || !rule.can_hide(debt.hidden) {
            let last = Tat::from_ticks(EMPTIED.saturating_sub(1));
            return Self::new(debt.over_at(rule).min(last), id, EMPTIED);
        }
        let both = shown | u128::from(debt.hidden).wrapping_shl(bits);
        Self(both | HIDES | Self::new(Tat::FULL, id, EMPTIED).0)
    }

    #[inline]
    pub(super) fn new(tat: Tat, rule: RuleId, flags: u128) -> Self {
        Self(tat.as_ticks() | flags | u128::from(rule.number()) << RULE_SHIFT)
    }

    /// What is shown, unless something is hidden.
    #[inline]
    pub(super) const fn tat(self) -> Tat {
        Tat::from_ticks(self.0 & (EMPTIED - 1))
    }

    /// What it owes, where `rule` is the one that it is under.
    #[inline]
    pub(super) fn debt(self, rule: &Rule) -> Debt {
        let ticks = self.tat().as_ticks();
        if !self.is(HIDES) {
            return Tat::from_ticks(ticks).into();
        }
        let bits = rule.tat_bits();
        let hidden = ticks.checked_shr(bits).unwrap_or(0);
        let shown = ticks ^ hidden.wrapping_shl(bits);
        let hidden = u64::try_from(hidden).unwrap_or(u64::MAX);
        Debt { shown: Tat::from_ticks(shown), hidden }
    }

    /// When nothing of it will be owed any more, where `rule` is the one that it is under.
    #[inline]
    pub(super) fn over_at(self, rule: &Rule) -> Tat {
        if self.is(HIDES) { self.debt(rule).over_at(rule) } else { self.tat() }
    }

    /// Whether its time is counted under this rule, and nothing is hidden.
    #[inline]
    pub(super) const fn is_plain_under(self, rule: RuleId) -> bool {
        (self.0 >> RULE_SHIFT) as u32 == rule.number()
    }

    /// The same bucket, which has denied an ask.
    #[inline]
    pub(super) const fn emptied(self) -> Self {
        Self(self.0 | EMPTIED)
    }

    /// The rule that its time is counted under.
    #[inline]
    pub const fn rule(self) -> RuleId {
        RuleId::new(((self.0 & !HIDES) >> RULE_SHIFT) as u32)
    }

    #[inline]
    pub(super) const fn flags(self) -> u128 {
        self.0 & EMPTIED
    }

    #[inline]
    const fn is(self, flag: u128) -> bool {
        self.0 & flag != 0
    }
}

/// Takes `cost` tokens of a bucket that is under this rule and hides nothing, in few steps; nothing where that
/// cannot be done. This is the way of most asks.
#[inline(always)]
#[expect(clippy::inline_always, reason = "called, it adds a tenth to the instructions of a batch")]
pub(super) fn spend_plain(
    rule: &Rule,
    cell: BucketCell,
    id: RuleId,
    cost: u64,
    now: Moment,
) -> Option<(Outcome, BucketCell)> {
    if !cell.is_plain_under(id) {
        return None;
    }
    let tat = cell.tat();
    let (after, outcome) = gcra::spend_short(rule, tat, cost, now)?;
    let after = match outcome.verdict {
        Verdict::Allow => {
            let flags = flags_after(cell.flags(), rule, tat, outcome.remaining, now);
            BucketCell::new(after, id, flags)
        }
        _ => cell.emptied(),
    };
    Some((outcome, after))
}

/// The flags of a bucket after tokens were taken or given back at `now`. Before, it had `flags`, and would
/// have been full at `full_at`; after it, `remaining` tokens are left. A bucket that was empty keeps its flag
/// until it is full: otherwise a caller could wait for one token and then have a flood push the bucket out.
#[inline]
pub(super) fn flags_after(
    flags: u128,
    rule: &Rule,
    full_at: Tat,
    remaining: u64,
    now: Moment,
) -> u128 {
    let before = if gcra::is_full(rule, full_at, now) { 0 } else { flags };
    before | emptied(remaining)
}

/// The flags of a bucket that shows this and had none.
pub(super) fn emptied_at(rule: &Rule, shown: Tat, at: Moment) -> u128 {
    let (_, peek) = gcra::spend(rule, shown, 0, at);
    emptied(peek.remaining)
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
