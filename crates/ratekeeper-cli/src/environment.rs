//! Variables of the environment that name no setting.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ratekeeper::limits::document::nearest;
use ratekeeper_server::settings::{Setting, Settings};

use crate::error::Error;

/// How many threads the container of Throttr is given.
pub(crate) const THREADS: &str = "THREADS";

const PREFIX: &str = "RATEKEEPER_";
/// What the values of ports begin with that Kubernetes tells of.
const SCHEMES: [&str; 3] = ["tcp://", "udp://", "sctp://"];

/// All variables of this process, by name. Those that are no text are shown as well as can be.
pub(crate) fn read() -> BTreeMap<String, String> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Refuses a variable that begins as ours do and that no command reads: somebody has mistyped it, and
/// what he wanted would not be so.
pub(crate) fn refuse_unknown(
    given: &BTreeMap<String, String>,
    known: &[String],
) -> Result<(), Error> {
    for (name, text) in given {
        if !name.starts_with(PREFIX) || known.contains(name) || is_of_kubernetes(name, text) {
            continue;
        }
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        return Err(Error::Variable { name: name.clone(), nearest });
    }
    Ok(())
}

/// Whether Kubernetes has set this in all containers, because a service is called `ratekeeper`.
fn is_of_kubernetes(name: &str, text: &str) -> bool {
    let has_scheme = SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    let is_port = |part: &str| {
        let mut words = part.split('_');
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
        words.next().is_some_and(is_number)
            && matches!(words.next(), Some("TCP" | "UDP" | "SCTP"))
            && matches!(words.next(), None | Some("PROTO" | "PORT" | "ADDR"))
    };
    (name.ends_with("_PORT") && has_scheme)
        || name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || name
            .match_indices("_PORT_")
            .any(|(at, word)| name.get(at + word.len()..).is_some_and(is_port))
}

/// Sets the number of workers as the container of Throttr is told it. A variable that is empty, as Compose
/// makes one for `${THREADS:-}`, says nothing.
pub(crate) fn set_threads(settings: &mut Settings, text: &str) -> Result<(), Error> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let Some(workers) = Setting::named("workers") else { return Ok(()) };
    workers.set(settings, text).map_err(|source| Error::Setting {
        name: THREADS.to_owned(),
        text: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
