//! The tracker and the gate from outside: one program, because linking takes longer than most tests.

mod clocks;
#[cfg(feature = "tokio")]
mod costs;
mod demands;
#[cfg(feature = "tokio")]
mod dialects;
mod discord;
mod hostile;
mod interleavings;
#[cfg(feature = "tokio")]
mod lone_numbers;
#[cfg(feature = "tokio")]
mod longest_wait;
mod models;
mod more;
#[cfg(feature = "tokio")]
mod one_window;
#[cfg(feature = "tokio")]
mod origins;
#[cfg(feature = "tokio")]
mod outages;
#[cfg(feature = "tokio")]
mod paces;
#[cfg(all(feature = "reqwest", feature = "tower"))]
mod redirects;
mod refusals;
mod resources;
#[cfg(feature = "tokio")]
mod saved;
#[cfg(feature = "tokio")]
mod silent;
#[cfg(feature = "tokio")]
mod simulation;
#[cfg(feature = "tokio")]
mod slow_first;
#[cfg(feature = "tokio")]
mod spans;
mod turns;
mod units;
#[cfg(feature = "tokio")]
mod unrelated;
mod waiters;
mod world;
