//! Clients of every door: each sends a request and waits for its answer. With the arguments that say which
//! server is asked, and for how long.
//!
//! They print nothing. The commands that use them do, and say how the process ends.

mod address;
mod args;
pub mod bucket;
mod connection;
mod deadline;
mod error;
pub mod http;
pub mod resp;
pub mod throttr;
pub mod udp;

pub use address::Server;
pub use args::RawPatience;
pub use error::Failure;
