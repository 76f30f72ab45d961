//! `ratekeeper override`: what a server allows to some, changed while it runs.

pub(crate) mod args;
mod file;
mod list;
mod pages;

use ratekeeper::Nanos;
use ratekeeper_server::overrides::Utc;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Exit};

pub(crate) use args::Override;
use args::{Add, Import, Remove};
use ratekeeper_client::http::{HttpClient, Method, segment};
use ratekeeper_console::{Format, Output, say, shown};

/// Does what is asked for, and says what changed.
pub(crate) fn run(over: &Override) -> Result<Exit, Error> {
    let done = match over {
        Override::Add(add) => run_add(add),
        Override::List(list) => list::run(list),
        Override::Remove(remove) => run_remove(remove),
        Override::Import(import) => run_import(import),
        Override::Export(export) => list::export(export),
    };
    done.map(|()| Exit::Allowed)
}

/// An override as it is sent, and as export writes it.
#[derive(Debug, PartialEq, Serialize)]
struct NewOverride {
    limit: String,
    id: String,
    #[serde(flatten)]
    terms: Terms,
}

/// What it says.
#[derive(Debug, PartialEq, Serialize)]
struct Terms {
    burst: u64,
    count: u64,
    /// As limits files write it, which is exact.
    period: String,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Utc>,
}

#[derive(Serialize)]
struct PutOne<'a> {
    #[serde(flatten)]
    terms: &'a Terms,
    lower: bool,
}

#[derive(Serialize)]
struct PutMany<'a> {
    overrides: &'a [NewOverride],
    lower: bool,
}

/// What of an answer is looked at.
#[derive(Deserialize)]
struct Changed {
    change: String,
    lowers: bool,
    dry_run: bool,
    durable: bool,
}

#[derive(Deserialize)]
struct ManyChanged {
    changes: Vec<Changed>,
    dry_run: bool,
    durable: bool,
}

fn run_add(add: &Add) -> Result<(), Error> {
    let terms = Terms {
        burst: add.burst,
        count: add.count,
        period: add.period.to_string(),
        why: add.why.clone(),
        until: add.until.map(|until| Utc(until.moment())),
    };
    let body = PutOne { terms: &terms, lower: add.lower };
    let client = HttpClient::new(&add.place.place()?)?;
    let path = path(&add.limit, &add.id, &[], add.dry_run);
    let answer = client.send_and_read(&Method::PUT, &path, &body, |changed: Changed| changed)?;
    tell(&answer, add.format)
}

fn run_remove(remove: &Remove) -> Result<(), Error> {
    let client = HttpClient::new(&remove.place.place()?)?;
    let why = format!("why={}", segment(&remove.why));
    let path = path(&remove.limit, &remove.id, &[why], remove.dry_run);
    let answer = client.call_and_read(&Method::DELETE, &path, |changed: Changed| changed)?;
    tell(&answer, remove.format)
}

fn run_import(import: &Import) -> Result<(), Error> {
    let client = HttpClient::new(&import.place.place()?)?;
    let overrides = file::read(&import.file, import.why.as_deref(), &client)?;
    let body = PutMany { overrides: &overrides, lower: import.lower };
    let path = format!("/v1/overrides{}", query(&[], import.dry_run));
    let made = |many: ManyChanged| many;
    let (many, text) = client.send_and_read(&Method::PUT, &path, &body, made)?;
    let mut output = Output::stdout();
    match import.format {
        Format::Json => output.json(&text)?,
        Format::Text => {
            many.changes.iter().try_for_each(|changed| output.line(shown(&changed.change)))?;
        }
    }
    output.finish()?;
    let count = many.changes.len();
    let noun = if count == 1 { "override" } else { "overrides" };
    if !many.dry_run {
        say(format_args!("{count} {noun} made"));
    }
    warn(many.changes.iter().any(|changed| changed.lowers), many.dry_run, many.durable);
    Ok(())
}

/// Prints what one change did.
fn tell((changed, text): &(Changed, Box<RawValue>), format: Format) -> Result<(), Error> {
    let mut output = Output::stdout();
    match format {
        Format::Json => output.json(text)?,
        Format::Text => output.line(shown(&changed.change))?,
    }
    output.finish()?;
    warn(changed.lowers, changed.dry_run, changed.durable);
    Ok(())
}

/// Says what an operator would not want to miss.
fn warn(lowers: bool, dry_run: bool, durable: bool) {
    if lowers {
        say("note: this allows less than before");
    }
    if dry_run {
        say("note: a dry run: nothing has changed");
    } else if !durable {
        say("warning: the server has no state directory, so this is forgotten when it stops: \
             start it with --state DIR");
    }
}

fn path(limit: &str, id: &str, parts: &[String], dry_run: bool) -> String {
    let query = query(parts, dry_run);
    format!("/v1/overrides/{}/{}{query}", segment(limit), segment(id))
}

fn query(parts: &[String], dry_run: bool) -> String {
    let dry_run = dry_run.then(|| "dry_run=1".to_owned());
    let parts: Vec<String> = parts.iter().cloned().chain(dry_run).collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// The period as limits files write it.
fn period(nanos: u64) -> String {
    Nanos::new(nanos.into()).to_string()
}
