//! Several asks as one decision.

use std::cmp::Reverse;

use crate::oracle::{Answer, Bucket, Mistake};

/// What an ask of a transaction checks and spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Checked, and spent if the whole transaction is allowed.
    CheckAndSpend,
    /// Checked, never spent.
    CheckOnly,
    /// Not checked; spent if the whole transaction is allowed and there is room.
    SpendOnly,
}

impl Mode {
    fn is_checked(self) -> bool {
        self != Self::SpendOnly
    }

    fn spends(self) -> bool {
        self != Self::CheckOnly
    }
}

/// What a transaction answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The merged decision.
    pub merged: Answer,
    /// Which ask decided; the first where several are equally strict.
    pub decided_by: usize,
    /// What each ask would have been answered alone, before the transaction.
    pub own: Vec<Answer>,
}

/// Decides all asks at once: any checked denial spends nothing anywhere.
///
/// Refuses, as a whole, a list without asks or with a cost above its bucket's burst in any mode.
pub fn transaction(asks: &mut [(&mut Bucket, u64, Mode)], now: u64) -> Result<Verdict, Mistake> {
    let own = asks
        .iter()
        .map(|(bucket, cost, _)| bucket.check(*cost, now))
        .collect::<Result<Vec<_>, _>>()?;
    let checked = (0..asks.len()).filter(|&i| asks[i].2.is_checked());
    let decided_by = strictest(&own, checked).or_else(|| strictest(&own, 0..own.len()));
    let decided_by = decided_by.ok_or(Mistake::NoAsks)?;
    // Only where nothing is checked can a spend-only ask decide, and it never denies.
    let unchecked = !asks[decided_by].2.is_checked();
    let merged = Answer { allowed: own[decided_by].allowed || unchecked, ..own[decided_by] };
    if merged.allowed {
        for (bucket, cost, _) in asks.iter_mut().filter(|(_, _, mode)| mode.spends()) {
            bucket.spend(*cost, now)?;
        }
    }
    Ok(Verdict { merged, decided_by, own })
}

/// The strictest of the answers at `places`: denied beats allowed, then the longer `retry_in`,
/// then fewer `remaining`, then the first.
pub fn strictest(answers: &[Answer], places: impl IntoIterator<Item = usize>) -> Option<usize> {
    // `min_by_key` keeps the first of equals.
    places.into_iter().min_by_key(|&place| {
        let Answer { allowed, remaining, retry_in, .. } = answers[place];
        (allowed, Reverse(retry_in), remaining)
    })
}
