//! What an ask does to a bucket of tokens, wherever the bucket's rule is kept: in a book
//! ([`Gcra`](super::book::Gcra)) or in its cell ([`InlineGcra`](super::inline_rule::InlineGcra)).

use super::cell::{EMPTIED, emptied_at, flags_after};
use super::gcra::{self, Debt, Outcome, Rule, Tat, Verdict};
use super::{Change, EvictionRank};
use crate::Moment;

/// A bucket of which this part or more is missing is as protected as an empty one.
const PROTECTED_PART: f64 = 0.5;

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

/// A bucket that was asked before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// What it owes now, by the rule of the ask.
    pub(super) debt: Debt,
    pub(super) flags: u128,
    /// Whether its time is counted under the rule of the ask.
    pub(super) is_under: bool,
}

/// The answer, and what the bucket owes from now on, with its flags.
#[inline]
pub(super) fn decide(
    rule: &Rule,
    found: Option<Bucket>,
    action: Action,
    cost: u64,
    now: Moment,
) -> (Outcome, Change<(Debt, u128)>) {
    let before = found.map_or(Debt::NONE, |bucket| bucket.debt);
    let (after, outcome) = match action {
        Action::Refund => gcra::refund_debt(rule, before, cost, now),
        Action::Reset => (Debt::NONE, gcra::reset(rule).1),
        Action::CheckAndSpend | Action::CheckOnly | Action::SpendOnly => {
            let (shown, outcome) = gcra::spend(rule, before.shown, cost, now);
            (Debt { shown, ..before }, outcome)
        }
    };
    let change = match (action, outcome.verdict, found) {
        (Action::CheckAndSpend | Action::SpendOnly | Action::Refund, Verdict::Allow, _)
            if cost > 0 =>
        {
            let flags = found.map_or(0, |bucket| bucket.flags);
            let over_at = before.over_at(rule);
            Change::Put((after, flags_after(flags, rule, over_at, outcome.remaining, now)))
        }
        (Action::Reset, ..) => Change::Remove,
        (Action::CheckOnly | Action::CheckAndSpend, Verdict::Deny, Some(bucket))
            if bucket.flags == 0 || !bucket.is_under =>
        {
            Change::Mark((before, EMPTIED))
        }
        // It was written under another rule: by an ask that a reload overtook, or that brought its own.
        // If no token is left by the rule of the ask, the bucket counts as emptied.
        (.., Some(bucket)) if !bucket.is_under => {
            Change::Mark((before, bucket.flags | emptied_at(rule, before.shown, now)))
        }
        _ => Change::Keep,
    };
    (outcome, change)
}

/// Whether the ask takes nothing, and was told that it would pass if it did.
pub(super) fn is_dry_run(action: Action, cost: u64, outcome: &Outcome) -> bool {
    action == Action::CheckOnly && cost > 0 && outcome.verdict == Verdict::Allow
}

/// Whether this answer forbids the transaction that the ask is part of.
pub(super) fn vetoes(action: Action, is_shadow: bool, outcome: &Outcome) -> bool {
    match outcome.verdict {
        Verdict::Allow => false,
        Verdict::Deny => matches!(action, Action::CheckAndSpend | Action::CheckOnly) && !is_shadow,
        Verdict::Never => !is_shadow,
    }
}

/// What forgetting a bucket would give away that is full again at `full_at`; none if it is full.
#[inline]
pub(super) fn eviction_rank(
    rule: &Rule,
    full_at: Tat,
    flags: u128,
    now: Moment,
) -> Option<EvictionRank> {
    let rank = gcra::missing_part(rule, full_at, now)?;
    // If only empty buckets were protected, a client that leaves one token could have a flood give all
    // others back.
    Some(EvictionRank { rank, is_protected: rank >= PROTECTED_PART || flags != 0 })
}

/// How many tokens are forgiven if a bucket is forgotten that owes this.
pub(super) fn owed(rule: &Rule, debt: Debt, now: Moment) -> u64 {
    let (_, peek) = gcra::spend(rule, debt.shown, 0, now);
    rule.burst().saturating_sub(peek.remaining).saturating_add(debt.hidden)
}
