//! What a transaction's asks were answered, in memory that is used again.

use std::cell::Cell;
use std::ops::Deref;

use super::Decision;

thread_local! {
    static SPARE: Cell<Vec<Decision>> = const { Cell::new(Vec::new()) };
}

/// What each ask of a transaction was answered, in order.
///
/// Its memory stays with the thread that drops it, for the next transaction there, so that no
/// transaction allocates once a thread has had one as long.
#[must_use = "a denial is no error: whoever does not look at `allowed` lets everybody pass"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions(Vec<Decision>);

impl Decisions {
    pub(super) fn new() -> Self {
        let mut decisions = SPARE.try_with(Cell::take).unwrap_or_default();
        decisions.clear();
        Self(decisions)
    }

    pub(super) fn push(&mut self, decision: Decision) {
        self.0.push(decision);
    }
}

impl Deref for Decisions {
    type Target = [Decision];

    fn deref(&self) -> &[Decision] {
        &self.0
    }
}

impl Drop for Decisions {
    fn drop(&mut self) {
        let (mine, other) = (std::mem::take(&mut self.0), SPARE.try_with(Cell::take));
        let other = other.unwrap_or_default();
        let larger = if mine.capacity() > other.capacity() { mine } else { other };
        // A thread that is ending keeps nothing.
        let _is_kept = SPARE.try_with(|spare| spare.set(larger));
    }
}
