//! Lengths of time as they are kept and counted with, at every request.

use std::num::NonZeroU64;

use ratekeeper_time::Nanos;
use serde::{Deserialize, Serialize};

/// A length in 64 bits, which is 584 years and half of what [`Nanos`] takes.
///
/// It is kept as one more than it is, which is never zero: so one that may be missing takes no more
/// room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Length(NonZeroU64);

impl Length {
    pub(crate) const ZERO: Self = Self(NonZeroU64::MIN);

    /// What is longer than it can be is cut: no window or wait is.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }
}

impl From<Nanos> for Length {
    fn from(length: Nanos) -> Self {
        Self::from_nanos(u64::try_from(length.get()).unwrap_or(u64::MAX))
    }
}

impl From<Length> for Nanos {
    fn from(length: Length) -> Self {
        Self::new(u128::from(length.0.get() - 1))
    }
}
