//! Overrides that are made while the server runs.
//!
//! Somebody calls, says what an id is to be allowed and why, and from the next ask on it is; until
//! a time, if one is said. What was spent stays spent, because a change of overrides is a reload:
//! the files as they were read last, with the overrides on top. Changes are kept in the state
//! directory, if there is one, and each is told in the audit.

mod active_overrides;
mod audit;
mod change;
mod document;
mod error;
mod expiry;
mod ledger;
mod list;
mod notation;
mod server;
mod step;
mod table;
#[cfg(test)]
mod tests;

use ratekeeper::limits::COMMENT_BYTES_MAX;

pub use active_overrides::OverrideCounts;
pub(crate) use active_overrides::{ActiveOverrides, Changing, Snapshot};
pub use audit::{Action, Record};
pub use change::{Changed, NewOverride, Who};
pub use error::{Lowered, OverrideError, Refused};
pub use list::{ListedOverride, Page, Place, Source};
pub use notation::{Seconds, Utc, UtcError};
pub use table::RunTimeOverride;

/// How many overrides can be made at run time.
pub const RUN_TIME_OVERRIDES_MAX: usize = 1 << 16;
/// How long a reason can be.
pub const WHY_BYTES_MAX: usize = COMMENT_BYTES_MAX;
/// How long the name of who makes a change can be: a DNS name with a few words before it fits.
pub const BY_BYTES_MAX: usize = 1 << 9;
/// Who ends an override when its time has come, in the audit.
pub(crate) const BY_ITSELF: &str = "ratekeeper";
/// How many records of the audit stay in memory where there is no state directory.
pub const AUDIT_KEPT: usize = 1000;
/// How many records of the audit can be read at once.
pub const AUDIT_LAST_MAX: usize = 1000;
/// How many overrides one page of them can have.
pub const OVERRIDES_PAGE_MAX: usize = 1000;
