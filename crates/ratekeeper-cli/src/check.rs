//! `ratekeeper check`: what is wrong with limits, buckets and rules files, what is in them, and what they change.

use std::path::PathBuf;

use ratekeeper::algorithm::{OnFull, Share};
use ratekeeper::limits::{Change, Fault, Faults, NamedLimit, changes};
use ratekeeper::store::shared::OnFailure;
use ratekeeper::{Limits, Nanos};
use ratekeeper_console::{Format, Output, OutputError, say};
use ratekeeper_protocol::udp::Rules;
use ratekeeper_server::Text;
use ratekeeper_server::json::ListedLimit;
use ratekeeper_server::overrides::Seconds;
use serde::Serialize;

use crate::error::{Error, Exit};
use crate::files::Files;

/// What is to be checked.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) files: Option<Files>,
    pub(crate) buckets: Option<PathBuf>,
    pub(crate) rules: Option<PathBuf>,
    /// What is in force, to say what would change. Without overrides of its own it has those of
    /// `files`.
    pub(crate) against: Option<Files>,
    pub(crate) format: Format,
}

/// Checks the files.
pub(crate) fn run(check: &Check) -> Result<Exit, Error> {
    let mut output = Output::stdout();
    let exit = match (check.load(), check.format) {
        (Ok((limits, changes)), Format::Text) => {
            print(&mut output, &limits, changes.as_deref())?;
            Exit::Allowed
        }
        (Ok((limits, changes)), Format::Json) => {
            output.json(&JsonSummary::new(&limits, changes.as_deref()))?;
            Exit::Allowed
        }
        (Err(Error::Faults { faults, is_old }), Format::Json) => {
            output.json(&JsonFaults::new(&faults, is_old))?;
            Exit::Mistake
        }
        (Err(error), _) => return Err(error),
    };
    output.finish()?;
    Ok(exit)
}

impl Check {
    /// The limits with the buckets, and what the limits change if that was asked.
    fn load(&self) -> Result<(Limits, Option<Vec<Change>>), Error> {
        let Some(files) = &self.files else { return Ok((self.load_beside(&Limits::new())?, None)) };
        let texts = files.read()?;
        let limits = texts.parse()?;
        let changes = match &self.against {
            // Overrides that are given once are in force already: only the limits are to change.
            Some(old) => Some(changes(&old.read_old()?.parse_beside(&texts)?, &limits)),
            None => None,
        };
        Ok((self.load_beside(&limits)?, changes))
    }

    /// The limits with the buckets. Rules are looked at too, beside both.
    fn load_beside(&self, limits: &Limits) -> Result<Limits, Error> {
        let read = |what, path: &Option<PathBuf>| {
            path.as_ref().map(|path| Text::read(what, path)).transpose()
        };
        let (buckets, rules) = (read("buckets", &self.buckets)?, read("rules", &self.rules)?);
        let with_buckets = match &buckets {
            Some(text) => limits.clone().with_buckets(&text.source()),
            None => Ok(limits.clone()),
        };
        // Where the buckets are wrong, the rules are looked at without them.
        let beside = with_buckets.as_ref().unwrap_or(limits);
        let rules = rules.map_or(Ok(()), |text| Rules::parse(&text.source(), beside).map(drop));
        match (with_buckets, rules) {
            (Ok(limits), Ok(())) => Ok(limits),
            (Err(mut faults), Err(more)) => {
                faults.append(more);
                Err(faults)
            }
            (Err(faults), Ok(())) | (Ok(_), Err(faults)) => Err(faults),
        }
        .map_err(|faults| Error::Faults { faults, is_old: false })
    }
}

fn print(
    output: &mut Output,
    limits: &Limits,
    changes: Option<&[Change]>,
) -> Result<(), OutputError> {
    for hint in limits.hints() {
        say(format_args!("note: {hint}"));
    }
    match changes {
        None => print_summary(output, limits),
        Some([]) => output.line("no change in effect"),
        Some(changes) => changes.iter().try_for_each(|change| output.line(change)),
    }
}

fn print_summary(output: &mut Output, limits: &Limits) -> Result<(), OutputError> {
    let rows: Vec<[String; 5]> = limits.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 4] = std::array::from_fn(width);
    let names = count(rows.len(), "limit");
    output.line(format_args!("{names}, {}", count(overrides(limits), "override")))?;
    for [name, number, id_format, terms, notes] in &rows {
        let [a, b, c, d] = widths;
        let line = format!("{name:a$}  {number:>b$}  {id_format:c$}  {terms:d$}  {notes}");
        output.line(line.trim_end())?;
    }
    if limits.iter().any(|named| share(named).is_some()) {
        output.line(SHARES)?;
    }
    Ok(())
}

/// What the shares of limits are about.
const SHARES: &str = "shares: the limits that hold ids divide a full memory, by share (1 if not said); what one does \
                      not need goes to the others";

fn row(named: &NamedLimit) -> [String; 5] {
    let terms = named.default().map_or("no default".into(), |default| default.limit.to_string());
    let number = named.number().map_or("-".into(), |number| number.to_string());
    let overrides = Some(named.overrides().len()).filter(|&some| some > 0);
    let overrides = overrides.map(|some| count(some, "override"));
    let shadow = named.is_shadow().then(|| "in shadow".to_owned());
    let away = on_failure(named).map(|what| format!("on_store_failure: {what}"));
    let memory = [share(named).map(|share| format!("share {share}")), on_full(named)];
    let memory = memory.into_iter().flatten();
    let notes: Vec<String> =
        overrides.into_iter().chain(shadow).chain(memory).chain(away).chain(lease(named)).collect();
    [named.name().to_owned(), number, named.id_format().name().to_owned(), terms, notes.join(", ")]
}

/// How many ordinary shares of a full memory a limit has, if that is said.
fn share(named: &NamedLimit) -> Option<f64> {
    let share = named.share();
    (share.hundredths() != Share::default().hundredths()).then(|| share.weight())
}

/// What becomes of new ids that find no room in the share, if it is said.
fn on_full(named: &NamedLimit) -> Option<String> {
    let on_full = named.share().on_full();
    (on_full != OnFull::default()).then(|| format!("on_full: {on_full}"))
}

/// What becomes of asks that a shared store does not answer, if it is said.
fn on_failure(named: &NamedLimit) -> Option<OnFailure> {
    Some(named.sharing().on_failure).filter(|what| *what != OnFailure::default())
}

/// What a lease comes to, where servers share buckets.
fn lease(named: &NamedLimit) -> Option<String> {
    let (lease, tokens) = (named.sharing().lease?, leased(named));
    Some(match tokens {
        0 | 1 => format!("lease {lease}: less than two tokens, so every ask is exact"),
        _ => format!(
            "lease {lease}: each server may pass {tokens} above the limit, and lose {tokens}"
        ),
    })
}

/// How many tokens a server takes in advance at most, of any bucket of the limit.
fn leased(named: &NamedLimit) -> u64 {
    let default = named.default().map(|default| &default.limit);
    let limits = default.into_iter().chain(named.overrides().iter().map(|over| &over.limit));
    limits.map(|limit| named.sharing().leased(limit.rule())).max().unwrap_or_default()
}

fn overrides(limits: &Limits) -> usize {
    limits.iter().map(|named| named.overrides().len()).sum()
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[derive(Serialize)]
struct JsonSummary<'a> {
    limits: Vec<JsonLimit>,
    overrides: usize,
    hints: Vec<JsonHint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<JsonChange<'a>>>,
}

/// A limit as `/v1/limits` tells it, with what matters where buckets are shared.
#[derive(Serialize)]
struct JsonLimit {
    #[serde(flatten)]
    listed: ListedLimit,
    /// Only where it is not what it is if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_store_failure: Option<String>,
    /// How many tokens a server takes in advance at most, and for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<JsonLease>,
}

#[derive(Serialize)]
struct JsonLease {
    /// In seconds.
    length: Seconds,
    length_ns: u128,
    tokens: u64,
}

#[derive(Serialize)]
struct JsonHint<'a> {
    file: &'a str,
    line: u32,
    message: &'a str,
}

#[derive(Serialize)]
struct JsonChange<'a> {
    limit: &'a str,
    id: Option<&'a str>,
    change: String,
}

impl<'a> JsonSummary<'a> {
    fn new(limits: &'a Limits, changes: Option<&'a [Change]>) -> Self {
        let hint = |hint: &'a ratekeeper::limits::Hint| JsonHint {
            file: hint.origin.file(),
            line: hint.origin.line(),
            message: &hint.text,
        };
        let change = |change: &'a Change| JsonChange {
            limit: &change.name,
            id: change.id.as_deref(),
            change: change.effect.to_string(),
        };
        Self {
            limits: limits.iter().map(JsonLimit::from).collect(),
            overrides: overrides(limits),
            hints: limits.hints().iter().map(hint).collect(),
            changes: changes.map(|changes| changes.iter().map(change).collect()),
        }
    }
}

impl From<&NamedLimit> for JsonLimit {
    fn from(named: &NamedLimit) -> Self {
        let lease = |length: Nanos| JsonLease {
            length: Seconds(length),
            length_ns: length.get(),
            tokens: leased(named),
        };
        Self {
            listed: ListedLimit::from(named),
            on_store_failure: on_failure(named).map(|what| what.to_string()),
            lease: named.sharing().lease.map(lease),
        }
    }
}

#[derive(Serialize)]
struct JsonFaults<'a> {
    faults: Vec<JsonFault<'a>>,
    /// How many there are beyond those.
    untold: usize,
    /// Whether it is the limits in force that are wrong, not the ones to be checked.
    old: bool,
}

#[derive(Serialize)]
struct JsonFault<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    message: &'a str,
    help: &'a str,
}

impl<'a> JsonFaults<'a> {
    fn new(faults: &'a Faults, old: bool) -> Self {
        let fault = |fault: &'a Fault| JsonFault {
            file: &fault.file,
            line: fault.line,
            column: fault.column,
            message: &fault.message,
            help: &fault.help,
        };
        Self { faults: faults.iter().map(fault).collect(), untold: faults.untold(), old }
    }
}
