//! Whether a budget is full again at one moment although it is thought to fill up little by little.
//!
//! What fills up little by little is full the later the more is missing; what is full at one moment
//! is so however much is missing. Two answers tell which it is, as soon as they differ by more than
//! moments are rounded.

use ratekeeper_time::Moment;
use serde::{Deserialize, Serialize};

use super::Heard;

/// Moments are perhaps rounded to as much.
const ROUNDING: u64 = 1_000_000_000;

/// What one answer said, to compare others with.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct FixedEnd(pub(super) Option<Said>);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    missing: u64,
    /// How long it was until it is full, in nanoseconds, when the request was counted: at least and
    /// at most, as what is said counts from then or from the answer.
    fill_least: u64,
    fill_most: u64,
    /// Bounds of the moment when it is full.
    from: Moment,
    by: Moment,
}

impl FixedEnd {
    /// Compares what an answer says with one before. Whether only one moment fits both.
    pub(super) fn is_seen(&mut self, missing: u64, fill: u64, heard: &Heard) -> bool {
        let after = |from: Moment| Moment::from_nanos(from.as_nanos().saturating_add(fill));
        let trip = heard.now.as_nanos().saturating_sub(heard.sent.as_nanos());
        let said = Said {
            missing,
            fill_least: fill.saturating_sub(ROUNDING),
            fill_most: fill.saturating_add(ROUNDING).saturating_add(trip),
            from: after(heard.sent),
            by: after(heard.now),
        };
        match self.0.filter(|known| heard.now < known.from && missing > 0) {
            Some(known) if known.fills_up(&said) => false,
            Some(known) => {
                self.0 = Some(said);
                known.is_full_with(&said)
            }
            None => {
                self.0 = Some(said).filter(|_| missing > 0);
                false
            }
        }
    }
}

impl Said {
    /// Whether both can be of what fills up little by little.
    fn fills_up(&self, other: &Self) -> bool {
        let expected = |fill: u64| {
            u128::from(fill) * u128::from(other.missing) / u128::from(self.missing.max(1))
        };
        u128::from(other.fill_most) >= expected(self.fill_least)
            && u128::from(other.fill_least) <= expected(self.fill_most)
    }

    /// Whether both can be of what is full at one moment.
    fn is_full_with(&self, other: &Self) -> bool {
        let rounded = |at: Moment| Moment::from_nanos(at.as_nanos().saturating_add(ROUNDING));
        self.from <= rounded(other.by) && other.from <= rounded(self.by)
    }
}
