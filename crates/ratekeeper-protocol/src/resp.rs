//! RESP: the commands of Redis clients.
//!
#![doc = include_str!("resp/README.md")]

mod access;
mod codec;
mod command;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod gather;
mod inline_rule;
mod replies;
mod reply;
mod requests;
mod session;
mod shape;
#[cfg(test)]
mod tests;
mod transaction;
mod understood;

pub use access::{Gatekeeper, Pass};
pub use codec::{
    ARGUMENTS_MAX, LINE_BYTES_MAX, REQUEST_BYTES_MAX, STRANGER_ARGUMENT_BYTES_MAX,
    STRANGER_ARGUMENTS_MAX,
};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_one;
pub use session::{Door, Session};
pub use transaction::QUEUE_BYTES_MAX;
