//! Why there is no pass.

use tollgate::Moment;

use crate::Limited;

/// Why there is no pass.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// A limit stands in the way.
    #[error("{} is limited ({:?}): try again in {}", .0.bucket, .0.reason, .0.retry_in)]
    Limited(Limited),
    /// The gate's task is gone, and its runtime most likely too.
    #[error("the task that keeps the gate has ended")]
    Closed,
}

impl Refused {
    /// When it would be the request's turn, on the gate's clock.
    pub fn retry_at(&self) -> Option<Moment> {
        match self {
            Self::Limited(limited) => Some(limited.retry_at),
            Self::Closed => None,
        }
    }
}

impl From<Limited> for Refused {
    fn from(limited: Limited) -> Self {
        Self::Limited(limited)
    }
}
