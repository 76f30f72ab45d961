//! The overrides in a file: what export wrote, or an overrides file in YAML.

use std::fmt::Write as _;
use std::path::Path;

use ratekeeper::Limits;
use ratekeeper::limits::{Override, Source};
use ratekeeper_client::http::HttpClient;
use ratekeeper_server::Text;
use ratekeeper_server::overrides::Utc;
use serde::Deserialize;

use super::pages::{Page, each};
use super::{NewOverride, Terms};
use crate::error::Error;

/// What export wrote.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    overrides: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    limit: String,
    id: String,
    burst: u64,
    count: u64,
    period: String,
    why: Option<String>,
    until: Option<Utc>,
}

/// Only enough to tell whose file it is.
#[derive(Deserialize)]
struct Exported {
    #[serde(rename = "overrides")]
    _overrides: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Names {
    limits: Vec<Named>,
    next: Option<String>,
}

/// A limit of a server, as far as an overrides file has to know it.
#[derive(Deserialize)]
struct Named {
    name: String,
    id_format: String,
    is_bucket: bool,
}

/// Reads the file. Refuses one with a fault, and an override for which nobody says why.
pub(super) fn read(
    path: &Path,
    why: Option<&str>,
    client: &HttpClient,
) -> Result<Vec<NewOverride>, Error> {
    let text = Text::read("overrides", path)?;
    let source = text.source();
    if serde_json::from_str::<Exported>(source.text).is_ok() {
        return read_exported(&source, why);
    }
    // Which ids there can be, the server knows.
    let mut names = Vec::new();
    each::<Names>(client, "/v1/limits", &[], |named| {
        names.push(named);
        Ok(())
    })?;
    read_yaml(&source, why, &names)
}

fn read_exported(source: &Source<'_>, why: Option<&str>) -> Result<Vec<NewOverride>, Error> {
    let document: Document = serde_json::from_str(source.text)
        .map_err(|error| Error::Document { file: source.name.to_owned(), source: error })?;
    let read = |entry: Entry| {
        let Entry { limit, id, burst, count, period, why: own, until } = entry;
        let own = own.filter(|why| !why.trim().is_empty());
        let why = reason(own.as_deref(), why, || format!("{limit}:{id} in {}", source.name))?;
        Ok(NewOverride { limit, id, terms: Terms { burst, count, period, why, until } })
    };
    document.overrides.into_iter().map(read).collect()
}

fn read_yaml(
    source: &Source<'_>,
    why: Option<&str>,
    names: &[Named],
) -> Result<Vec<NewOverride>, Error> {
    let defaults = limits_file(names);
    let defaults = Source { name: "the limits of the server", text: &defaults };
    let limits = Limits::parse(&defaults, Some(source))
        .map_err(|faults| Error::Faults { faults, is_old: false })?;
    let all = limits.iter().flat_map(|named| named.overrides().iter().map(move |it| (named, it)));
    all.map(|(named, over)| {
        let Override { id, limit, origin, comment } = over;
        let place = || format!("{}:{id} at {origin}", named.name());
        let terms = Terms {
            burst: limit.burst(),
            count: limit.count(),
            period: limit.period().to_string(),
            why: reason(comment.as_deref(), why, place)?,
            until: None,
        };
        Ok(NewOverride { limit: named.name().to_owned(), id: id.to_string(), terms })
    })
    .collect()
}

/// Why an override is made: as the file says, or else as the caller does.
fn reason(
    own: Option<&str>,
    given: Option<&str>,
    place: impl FnOnce() -> String,
) -> Result<String, Error> {
    let why = own.or(given).map(str::to_owned);
    why.ok_or_else(|| Error::NoWhy { place: place() })
}

/// A limits file with these names. Only names and formats of ids matter to overrides.
fn limits_file(names: &[Named]) -> String {
    let mut text = String::new();
    for Named { name, id_format, .. } in names.iter().filter(|it| !it.is_bucket) {
        // In quotes, and escaped as JSON does, which is YAML too.
        let name = serde_json::Value::from(&**name);
        let terms = "burst: 1, count: 1, period: 1s";
        // A string takes whatever is written to it.
        let _ = writeln!(text, "{name}: {{{terms}, id: \"{id_format}\"}}");
    }
    text
}

impl Page for Names {
    type Entry = Named;

    fn into_parts(self) -> (Vec<Named>, Option<String>) {
        (self.limits, self.next)
    }
}

#[cfg(test)]
mod tests;
