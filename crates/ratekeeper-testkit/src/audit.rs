//! The auditor of the first law: no window of time admits more than it may.

use std::fmt;

use num_bigint::BigInt;

use crate::terms::Terms;

/// Watches the admitted spends of one bucket under constant terms and time that never goes back.
///
/// In every window `[t1, t2]` that begins and ends with an admission, both included, the total must
/// be at most `burst + floor((t2 - t1) * count / period)`. Totals are whole, so the floor changes
/// nothing, and times `period` the law for the events `i <= j` reads
///
/// `(sum_j * period - t_j * count) - (sum_before_i * period - t_i * count) <= burst * period`
///
/// so the lowest second bracket seen so far is all there is to remember.
#[derive(Debug, Clone)]
pub struct Audit {
    terms: Terms,
    total: BigInt,
    last_at: u64,
    lowest: Option<BigInt>,
}

/// Why an audit failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// Some window that ends here admitted more than the law allows.
    TooMuch {
        /// The end of the window.
        at: u64,
        /// How many tokens too many, rounded up.
        excess: u64,
    },
    /// An event is older than the one before, so the law says nothing.
    TimeWentBack {
        /// The event that came too late.
        at: u64,
        /// The event before it.
        last_at: u64,
    },
}

impl Audit {
    /// An auditor that has seen nothing.
    pub fn new(terms: Terms) -> Self {
        Self { terms, total: BigInt::ZERO, last_at: 0, lowest: None }
    }

    /// Records an admitted spend; refuses one that breaks the law, or that is older than the last.
    pub fn record(&mut self, at: u64, cost: u64) -> Result<(), Breach> {
        if at < self.last_at {
            return Err(Breach::TimeWentBack { at, last_at: self.last_at });
        }
        self.last_at = at;
        let before = self.level(at);
        let lowest = self.lowest.take().map_or(before.clone(), |lowest| lowest.min(before));
        self.total += cost;
        let excess = self.level(at) - &lowest - self.terms.price(self.terms.burst);
        self.lowest = Some(lowest);
        if excess > BigInt::ZERO { Err(self.too_much(at, &excess)) } else { Ok(()) }
    }

    fn level(&self, at: u64) -> BigInt {
        &self.total * self.terms.period_ns - self.terms.ticks(at)
    }

    fn too_much(&self, at: u64, excess: &BigInt) -> Breach {
        let tokens = crate::terms::ceil_div(excess, self.terms.period_ns);
        Breach::TooMuch { at, excess: u64::try_from(tokens).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch { at, excess } => {
                write!(f, "a window ending at {at} ns admits {excess} tokens too many")
            }
            Self::TimeWentBack { at, last_at } => {
                write!(f, "an event at {at} ns comes after one at {last_at} ns")
            }
        }
    }
}

impl std::error::Error for Breach {}
