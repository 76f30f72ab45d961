//! The share of requests that were refused lately.

use serde::{Deserialize, Serialize};

/// All of them.
const ALL: u32 = 1 << 16;
/// About so many requests are lately (as a shift).
const LATELY: u32 = 5;

/// A decaying mean, in parts of [`ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(super) struct RefusedShare(u32);

impl RefusedShare {
    /// What a share may be off by, by chance.
    const CHANCE: u32 = ALL / 16;

    pub(super) const fn serve(&mut self) {
        self.0 -= self.0 >> LATELY;
    }

    pub(super) const fn refuse(&mut self) {
        self.0 += (ALL - self.0) >> LATELY;
    }

    /// What is surely more than this.
    pub(super) fn more(self) -> Self {
        Self(2 * self.0 + Self::CHANCE)
    }
}
