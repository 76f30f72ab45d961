//! How a distance grows because of refusals that come one at a time.
//!
//! Where it was too short, either many are refused, or some in a row, and none once it is long enough.
//! Refusals that are few and still come at a much greater distance have another reason.

use serde::{Deserialize, Serialize};

/// A distance so many times as great is much greater.
const MUCH: u64 = 2;
/// So many refusals, if they are one of so many requests, show that the distance was too short.
const REFUSED_MIN: u64 = 3;
const REFUSED_ONE_OF: u64 = 4;
/// So many times as many requests without a refusal as lay between two before show that it is long
/// enough now.
const RARER: u64 = 6;

/// One climb, and what came of the requests since it began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Climb {
    /// The distance at which it began.
    pub(super) from: u64,
    requests: u64,
    refused: u64,
    /// How many were served since the last refusal.
    since: u64,
}

impl Climb {
    pub(super) const fn new(from: u64) -> Self {
        Self { from, requests: 0, refused: 0, since: 0 }
    }

    /// A request was served, and the distance is this.
    pub(super) const fn serve(&mut self, distance: u64) {
        self.since += 1;
        if self.since * self.refused > RARER * self.requests {
            *self = Self::new(distance);
        }
    }

    /// A request was refused that came alone, and the distance is this now.
    pub(super) const fn refuse(&mut self, distance: u64) {
        self.requests += self.since + 1;
        self.since = 0;
        self.refused += 1;
        if self.refused >= REFUSED_MIN && self.refused * REFUSED_ONE_OF >= self.requests {
            *self = Self::new(distance);
        }
    }

    /// Whether a refusal at this distance shows that a greater one is of no use.
    pub(super) const fn is_in_vain(&self, distance: u64) -> bool {
        distance / MUCH >= self.from
    }
}
