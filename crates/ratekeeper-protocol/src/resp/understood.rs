//! Which command a request is, and why it is not done if it is not.

use super::access::Gatekeeper;
use super::command::Command;
use super::connection::Client;
use crate::{Counts, foreign};

/// How much of a word is repeated to who sent it.
const SHOWN_BYTES: usize = 128;

/// Why a request is not done.
pub(super) enum Misunderstood<'w> {
    /// It is from no client of ours: a browser, which a foreign page has send requests to us, says
    /// these words first.
    Stranger,
    Refused([&'w [u8]; 3]),
}

/// The command of a request, if there is such a command and the client may use it.
#[inline]
pub(super) fn understood<'w>(
    name: &'w [u8],
    arguments: &[&[u8]],
    client: &Client,
    keeper: Option<&dyn Gatekeeper>,
    counts: &mut Counts,
) -> Result<&'static Command, Misunderstood<'w>> {
    let refused = match Command::named(name) {
        Some(command) if !command.takes(arguments.len().saturating_add(1)) => {
            let name = command.name.as_bytes();
            [b"ERR wrong number of arguments for '", name, b"' command"]
        }
        Some(command) => {
            counts.requests = counts.requests.saturating_add(1);
            return match client.refusal(command.verb, keeper) {
                Some(why) => Err(Misunderstood::Refused([why, b"", b""])),
                None => Ok(command),
            };
        }
        None => [b"ERR unknown command '", name.get(..SHOWN_BYTES).unwrap_or(name), b"'"],
    };
    counts.malformed = counts.malformed.saturating_add(1);
    let is_browser = name.eq_ignore_ascii_case(b"post") || foreign::are_words(name, arguments);
    Err(if is_browser { Misunderstood::Stranger } else { Misunderstood::Refused(refused) })
}
