//! Lengths of time as they are kept and counted with, at every request.

use tollgate::Nanos;

/// A length in 64 bits, which is 584 years and half of what [`Nanos`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Length(u64);

impl Length {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

/// What is longer than 64 bits can say is cut: no window or wait is.
impl From<Nanos> for Length {
    fn from(length: Nanos) -> Self {
        Self(u64::try_from(length.get()).unwrap_or(u64::MAX))
    }
}

impl From<Length> for Nanos {
    fn from(length: Length) -> Self {
        Self::new(length.0.into())
    }
}
