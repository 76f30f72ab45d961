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
mod tests {
    use super::*;

    fn refused(name: &str, text: &str) -> Option<String> {
        let given = [("PATH".into(), "/bin".into()), (name.into(), text.into())].into();
        let refused = refuse_unknown(&given, &crate::args::variables());
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn a_variable_that_nobody_reads_is_refused_with_the_nearest_that_somebody_does() {
        let told = refused("RATEKEEPER_LIMIT", "limits.yaml").unwrap();
        assert!(told.contains("`RATEKEEPER_LIMIT`"), "{told}");
        assert!(told.contains("did you mean `RATEKEEPER_LIMITS`?"), "{told}");
        assert!(refused("RATEKEEPER_PORT", "8080").is_some(), "somebody wanted a port");
        assert!(refused("RATEKEEPER_", "").is_some());
        for known in
            ["RATEKEEPER_LIMITS", "RATEKEEPER_TOKEN", "RATEKEEPER_CONFIG", "RATEKEEPER_URL"]
        {
            assert_eq!(refused(known, "x"), None);
        }
    }

    #[test]
    fn the_threads_of_throttrs_container_are_workers() {
        let mut settings = Settings::default();
        set_threads(&mut settings, "4").unwrap();
        assert_eq!(settings.workers.map(usize::from), Some(4));
        set_threads(&mut settings, "").unwrap();
        assert_eq!(settings.workers.map(usize::from), Some(4));
        let refused = set_threads(&mut settings, "many").unwrap_err().with_causes();
        assert!(refused.contains("THREADS is `many`: expected a whole number"), "{refused}");
    }

    #[test]
    fn what_kubernetes_says_of_a_service_is_no_setting() {
        for (name, text) in [
            ("RATEKEEPER_SERVICE_HOST", "10.0.0.1"),
            ("RATEKEEPER_SERVICE_PORT", "8080"),
            ("RATEKEEPER_SERVICE_PORT_HTTP_API", "8080"),
            ("RATEKEEPER_PORT", "tcp://10.0.0.1:8080"),
            ("RATEKEEPER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("RATEKEEPER_PORT_2000_UDP_PROTO", "udp"),
            ("RATEKEEPER_REDIS_PORT_6379_TCP_ADDR", "10.0.0.2"),
        ] {
            assert_eq!(refused(name, text), None, "{name}");
        }
    }
}
