//! Obeying other people's limits.
//!
//! An API that limits its callers says so in the header fields of its answers. This crate reads
//! them, keeps account of what is left, and says before each request whether it may be sent now,
//! and if not, when.
//!
//! [`Tracker`] is all of that without a clock, a lock or a task. It needs a [`Profile`]: what is
//! known of the API before it has answered, which may be nothing.

mod arena;
mod bucket;
mod budget;
mod credit;
#[cfg(feature = "tokio")]
pub mod gate;
pub mod headers;
mod invalid;
#[cfg(feature = "tower")]
pub mod layer;
#[cfg(feature = "reqwest")]
pub mod middleware;
mod pace;
pub mod profile;
mod recent;
mod refusal;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub mod replay;
mod request;
#[cfg(feature = "sharing")]
pub mod share;
mod tracker;
mod verdict;

#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use gate::Group;
#[cfg(feature = "tokio")]
pub use gate::{Gate, Pass, Refused, Strategy};
#[cfg(feature = "tower")]
pub use layer::TrackLayer;
pub use profile::Profile;
pub use refusal::BODY_BYTES_MAX;
pub use request::{Costs, Request, Response};
pub use tracker::{
    BUCKETS_MAX, IN_FLIGHT_MAX, QUEUE_DEFAULT, ROUTES_MAX, Snapshot, State, Tracker, UNSAID_MAX,
    WAITERS_MAX,
};
pub use verdict::{Limited, Permit, Reason, Ticket, Verdict};
