#![cfg_attr(
    all(feature = "tower", feature = "reqwest", feature = "sharing"),
    doc = include_str!("../README.md")
)]
#![cfg_attr(
    not(all(feature = "tower", feature = "reqwest", feature = "sharing")),
    doc = "Obeying other people's limits: begin with [`Tracker`], or switch features on."
)]

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
mod length;
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

/// The guide, whose examples are tests. It exists in the documentation only.
#[cfg(all(doc, feature = "tower", feature = "reqwest", feature = "sharing"))]
#[doc = include_str!("../../../docs/tracker.md")]
pub mod guide {}
