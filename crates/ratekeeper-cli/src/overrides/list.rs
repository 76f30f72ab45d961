//! `ratekeeper override list` and `export`: reading the overrides of a server.

use ratekeeper::Clock;
use ratekeeper_client::http::{HttpClient, HttpError, segment};
use ratekeeper_console::{Format, Output, shown, table};
use ratekeeper_server::overrides::Utc;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::args::{Export, List};
use super::pages::{Page, each};
use super::{NewOverride, Terms, period};
use crate::error::Error;

const HEAD: [&str; 7] = ["limit", "id", "terms", "from", "until", "by", "why"];

const PATH: &str = "/v1/overrides";

#[derive(Deserialize)]
struct Overrides {
    overrides: Vec<Box<RawValue>>,
    next: Option<String>,
}

impl Page for Overrides {
    type Entry = Box<RawValue>;

    fn into_parts(self) -> (Vec<Box<RawValue>>, Option<String>) {
        (self.overrides, self.next)
    }
}

/// What of an override is looked at.
#[derive(Deserialize)]
struct Listed {
    limit: String,
    id: String,
    burst: u64,
    count: u64,
    period_ns: u64,
    terms: String,
    source: Source,
    why: Option<String>,
    by: Option<String>,
    until: Option<Utc>,
    origin: Option<Place>,
    in_force: bool,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Source {
    RunTime,
    File,
}

#[derive(Deserialize)]
struct Place {
    file: String,
    line: u32,
}

/// Prints the overrides of a server.
pub(super) fn run(list: &List) -> Result<(), Error> {
    let client = HttpClient::new(&list.place.place()?)?;
    let mut output = Output::stdout();
    let mut rows = Vec::new();
    let limit = list.limit.iter().map(|limit| format!("limit={}", segment(limit)));
    let parts: Vec<String> = limit.collect();
    each::<Overrides>(&client, PATH, &parts, |text| match list.format {
        Format::Json => Ok(output.json(&text)?),
        Format::Text => {
            rows.push(read(&client, &text)?.row());
            Ok(())
        }
    })?;
    match list.format {
        Format::Text if rows.is_empty() => output.line("no overrides")?,
        Format::Text => table(&HEAD, rows, &mut output)?,
        Format::Json => {}
    }
    Ok(output.finish()?)
}

/// Prints those that were made at run time, one per line, as a document that can be imported.
pub(super) fn export(export: &Export) -> Result<(), Error> {
    let client = HttpClient::new(&export.place.place()?)?;
    let mut output = Output::stdout();
    let now = Utc(Clock::start().now());
    let mut before = "{\"overrides\": [\n";
    each::<Overrides>(&client, PATH, &[], |text| {
        let listed = read(&client, &text)?;
        // One that is over could not be imported.
        if listed.source == Source::RunTime && listed.until.is_none_or(|until| until > now) {
            output.text(before)?;
            before = ",\n";
            output.json_part(&listed.new_override())?;
        }
        Ok(())
    })?;
    output.text(if before == ",\n" { "\n]}\n" } else { "{\"overrides\": []}\n" })?;
    Ok(output.finish()?)
}

fn read(client: &HttpClient, text: &RawValue) -> Result<Listed, HttpError> {
    serde_json::from_str(text.get()).map_err(|_| client.strange_part(PATH, text.get()))
}

impl Listed {
    fn row(&self) -> Vec<String> {
        let from = match (&self.source, &self.origin) {
            (Source::File, Some(Place { file, line })) => format!("{file}:{line}"),
            (Source::File, None) => "a file".to_owned(),
            (Source::RunTime, _) => "run time".to_owned(),
        };
        let why = match (&self.why, &self.reason) {
            (why, Some(reason)) if !self.in_force => {
                format!("{} (not in force: {reason})", why.as_deref().unwrap_or("-"))
            }
            (why, _) => or_dash(why.clone()),
        };
        let until = or_dash(self.until.map(|until| until.to_string()));
        let [limit, id, terms] = [&self.limit, &self.id, &self.terms].map(Clone::clone);
        let row = [limit, id, terms, from, until, or_dash(self.by.clone()), why];
        row.map(|text| shown(&text)).to_vec()
    }

    fn new_override(self) -> NewOverride {
        let Self { limit, id, burst, count, period_ns, why, until, .. } = self;
        let why = why.unwrap_or_default();
        let terms = Terms { burst, count, period: period(period_ns), why, until };
        NewOverride { limit, id, terms }
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
