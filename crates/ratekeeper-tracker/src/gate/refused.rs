//! Why there is no permit.

use std::error::Error;

use ratekeeper_time::Moment;

use crate::Limited;

/// Why there is no permit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// A limit stands in the way.
    #[error("{} is limited ({:?}): try again in {}", .0.bucket, .0.reason, .0.retry_in)]
    Limited(Limited),
    /// The gate was closed; or its task is gone, and its runtime most likely too.
    #[error("the gate is closed, or the task that keeps it has ended")]
    Closed,
}

/// How many causes of an error are looked through.
const CAUSES_MAX: usize = 100;

impl Refused {
    /// The refusal in an error or in what caused it, however many errors are around it: those of
    /// the tower layer, of the reqwest middleware, and your own.
    pub fn of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let causes = std::iter::successors(Some(error), |error| cause(*error));
        causes.take(CAUSES_MAX).find_map(<dyn Error>::downcast_ref)
    }

    /// When it would be the request's turn, on the gate's clock.
    pub fn retry_at(&self) -> Option<Moment> {
        match self {
            Self::Limited(limited) => Some(limited.retry_at),
            Self::Closed => None,
        }
    }
}

/// The next inner error.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    // It passes for the error of a middleware, whose source is not that error but its cause.
    #[cfg(feature = "reqwest")]
    if let Some(reqwest_middleware::Error::Middleware(error)) = error.downcast_ref() {
        return Some(&**error);
    }
    error.source()
}

impl From<Limited> for Refused {
    fn from(limited: Limited) -> Self {
        Self::Limited(limited)
    }
}
