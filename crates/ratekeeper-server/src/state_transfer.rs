//! Moving what was spent, between state directories and stores that are shared.
//!
//! It is moved as [`Entry`]s, each a line of JSON: the name of a bucket, and the value that Redis
//! keeps under it. Nothing is moved in the caller's favour: what is owed is rounded up, and is
//! written only where less is owed.

mod line;
mod saved;
mod shared;

pub use line::{BadLine, from_line, to_line};
pub use ratekeeper_redis::{Entry, Page, Put};
pub use saved::SavedState;
pub use shared::SharedState;

use ratekeeper::Mistake;
use ratekeeper_redis::{AddressError, Failure, TooSlow};

use crate::server::StartError;
use crate::state::StateError;

/// Why something was not moved.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum TransferError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error("nothing is saved in {}: name the --state of a server that was stopped", folder.display())]
    Nothing { folder: std::path::PathBuf },
    #[error("reserving memory for the buckets")]
    Memory(#[source] std::io::Error),
    #[error("there is not enough memory for all buckets")]
    Full,
    #[error(transparent)]
    Settings(#[from] StartError),
    #[error("the store")]
    Address(#[from] AddressError),
    #[error("starting to talk to the store")]
    Runtime(#[source] std::io::Error),
    #[error("moving to or from the store")]
    Store(#[from] Failure),
    #[error("{0}")]
    Ask(#[from] Mistake),
    #[error("`{bucket}` cannot be kept in Redis")]
    TooSlow { bucket: String, source: TooSlow },
}

impl TransferError {
    /// Whether it is that the store does not answer.
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}
