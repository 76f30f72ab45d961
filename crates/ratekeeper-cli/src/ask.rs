//! `ratekeeper ask`: may this id do one more? Of a server, through any door, or of limits files without one.

pub(crate) mod args;
mod doors;
mod offline;
mod page;
mod server;

use crate::error::{Error, Exit};

/// How often one command can ask.
pub(crate) const TIMES_MAX: u64 = 1_000_000;

/// Who is asked, and what.
#[derive(Debug)]
pub(crate) enum Ask {
    Server(server::ServerAsk),
    Offline(offline::Offline),
    Door(doors::DoorAsk),
}

/// Asks, and says what was answered.
pub(crate) fn run(ask: &Ask) -> Result<Exit, Error> {
    match ask {
        Ask::Server(ask) => server::run(ask),
        Ask::Offline(ask) => offline::run(ask),
        Ask::Door(ask) => doors::run(ask),
    }
}
