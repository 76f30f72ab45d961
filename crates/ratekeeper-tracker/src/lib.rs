#![cfg_attr(
    all(feature = "tower", feature = "reqwest", feature = "sharing"),
    doc = include_str!("../README.md")
)]
#![cfg_attr(
    not(all(feature = "tower", feature = "reqwest", feature = "sharing")),
    doc = "Obeying other people's limits: begin with [`Tracker`], or switch features on."
)]

mod arena;
mod block;
mod bucket;
mod budget;
mod cost_estimate;
mod credit;
mod dialect;
#[cfg(feature = "tokio")]
pub mod gate;
mod invalid;
#[cfg(feature = "tower")]
pub mod layer;
mod length;
mod lines;
#[cfg(feature = "reqwest")]
pub mod middleware;
mod origin;
mod pace;
mod paces;
pub mod profile;
mod recent;
#[cfg(feature = "reqwest")]
pub mod redirect;
mod refusal;
mod refused_limit;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub mod replay;
mod request;
#[cfg(feature = "sharing")]
pub mod share;
mod tracker;
mod unstated_limit;
mod verdict;

pub use block::UNSAID_MAX;
#[cfg(feature = "tokio")]
pub use gate::{Gate, Refused, Retry, RetryMethods, SendPermit, Strategy};
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use gate::{Group, Waited};
#[cfg(feature = "tower")]
pub use layer::TrackLayer;
pub use origin::Origin;
pub use profile::Profile;
pub use ratekeeper_headers as headers;
pub use ratekeeper_time::{Clock, Moment, Nanos};
pub use refusal::BODY_BYTES_MAX;
pub use request::{Costs, Request, Response};
pub use tracker::{
    BUCKETS_MAX, IN_FLIGHT_MAX, LoadError, ORIGINS_MAX, QUEUE_DEFAULT, ROUTES_MAX, SAVED_BYTES_MAX,
    Snapshot, State, Tracker, WAITERS_MAX,
};
pub use verdict::{Limited, Reason, Reservation, Verdict, WaiterId};

/// The guide, whose examples are tests. It exists in the documentation only.
#[cfg(all(doc, feature = "tower", feature = "reqwest", feature = "sharing"))]
#[doc = include_str!("../../../docs/tracker.md")]
pub mod guide {}
