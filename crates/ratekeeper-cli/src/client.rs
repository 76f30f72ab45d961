//! `ratekeeper ask udp|bucket|throttr|resp`: a client for each door, for people to try a server with.

mod address;
pub(crate) mod args;
pub(crate) mod bucket;
mod connection;
mod deadline;
mod error;
pub(crate) mod http;
pub(crate) mod resp;
mod source;
pub(crate) mod throttr;
mod udp;
pub(crate) mod wire;

use crate::error::{Error, Exit};

pub(crate) use address::Server;
pub(crate) use error::Failure;
pub(crate) use source::Source;

/// Which server is asked, and what.
#[derive(Debug)]
pub(crate) enum Client {
    Udp(udp::Udp),
    Bucket(bucket::Bucket),
    Throttr(throttr::Throttr),
    Resp(resp::Resp),
}

/// Asks, and says what was answered.
pub(crate) fn run(client: &Client) -> Result<Exit, Error> {
    match client {
        Client::Udp(udp) => udp::run(udp),
        Client::Bucket(bucket) => bucket::run(bucket),
        Client::Throttr(throttr) => throttr::run(throttr),
        Client::Resp(resp) => resp::run(resp),
    }
}
