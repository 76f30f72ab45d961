//! `cargo xtask gate`: instructions of what is done most often, compared with those on record.
//!
//! They are the same on every run, however busy the machine. So a change that costs a few of them
//! shows, where a stopwatch would show noise.

mod doors;
mod engine;
mod record;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use ratekeeper::store::Secret;
use ratekeeper::{Moment, Nanos};

use crate::bench::Failure;
use record::{Record, Row};

/// Whatever is counted is done so often, once and again. What the two runs have in common falls
/// away: the start, and what happens only the first times. Both are so many whole reads.
const SHORT: usize = 64 * 100;
const LONG: usize = 6 * SHORT;

/// How many keys there are: few enough for the cache, many enough that no branch is learnt by heart.
const KEYS: usize = 1_000;
/// A burst that is not used up.
const WIDE: u64 = 1_000_000;
/// With a secret of its own, every run would walk through another table.
const SECRET: Secret = Secret::new(0x7261_7465_6b65_6570, 0x6570_6572);
const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
/// How much time passes from one request to the next.
const BETWEEN: Nanos = Nanos::new(10_000_000);

/// Beside the record: a page that shows some of it.
const PAGE: &str = "../../docs/engine.md";
const RECORD: &str = "instructions.txt";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Put what was counted on record
    #[arg(long)]
    update: bool,
    /// Be what is counted: do this
    #[arg(long, hide = true, requires = "times")]
    what: Option<String>,
    /// So often
    #[arg(long, hide = true)]
    times: Option<usize>,
}

/// What is counted: a name, and how to do it a number of times.
struct Subject {
    name: &'static str,
    work: fn(usize) -> Result<(), Failure>,
}

fn subjects() -> impl Iterator<Item = &'static Subject> {
    engine::SUBJECTS.iter().chain(&doors::SUBJECTS)
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let (Some(what), Some(times)) = (&args.what, args.times) {
        let subject = subjects().find(|subject| subject.name == what);
        return (subject.ok_or("nothing of this name is counted")?.work)(times);
    }
    let counted = Record { compiler: compiler()?, rows: count_all()? };
    if args.update {
        return update(&counted);
    }
    let recorded = Record::parse(&read(RECORD)?)?;
    let comparison = recorded.compare(&counted)?;
    print!("{comparison}");
    comparison.verdict()
}

fn update(counted: &Record) -> Result<(), Failure> {
    let page = counted.shown_in(&read(PAGE)?);
    write(RECORD, &counted.to_string())?;
    write(PAGE, &page)?;
    print!("{counted}");
    Ok(())
}

fn compiler() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.map_err(|error| format!("asking rustc for its version: {error}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Counts on every core: other work changes nothing.
fn count_all() -> Result<Vec<Row>, Failure> {
    let mut waiting: VecDeque<_> = subjects().collect();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    while !waiting.is_empty() {
        let some = waiting.drain(..cores.min(waiting.len()));
        let counting: Vec<_> = some.map(|it| thread::spawn(|| count(it))).collect();
        for counter in counting {
            rows.push(counter.join().map_err(|_| "counting has panicked")??);
        }
    }
    Ok(rows)
}

fn count(subject: &Subject) -> Result<Row, Failure> {
    let [short, long] = [total(subject, SHORT)?, total(subject, LONG)?];
    let times = u64::try_from(LONG - SHORT)?;
    Ok(Row { name: subject.name.to_owned(), count: long.saturating_sub(short) / times })
}

/// Runs this program again under callgrind, which tells its total on standard error.
fn total(subject: &Subject, times: usize) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(std::env::current_exe()?).args(["gate", "--what", subject.name, "--times"]);
    let output = command.arg(times.to_string()).output();
    let output = output.map_err(|error| format!("starting valgrind, which counts: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let total = text.lines().find_map(|line| line.split_once("Collected : "));
    match total {
        Some((_, total)) if output.status.success() => Ok(total.trim().parse()?),
        _ => Err(format!("counting `{}`: {text}", subject.name).into()),
    }
}

fn read(name: &str) -> Result<String, Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()).into())
}

fn write(name: &str, text: &str) -> Result<(), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::write(&path, text).map_err(|error| format!("writing {}: {error}", path.display()).into())
}

/// When a request comes, by its number.
fn moment(request: usize) -> Moment {
    let passed = BETWEEN.get().saturating_mul(request as u128);
    START.after(Nanos::new(passed))
}

/// Whom requests are for, 20 bytes each.
fn ids() -> Vec<String> {
    (0..KEYS).map(|key| format!("client-{key:013}")).collect()
}

/// Refuses to have counted something else than what was meant.
fn expect_all(allowed: u64, times: usize) -> Result<(), Failure> {
    if allowed == u64::try_from(times)? {
        return Ok(());
    }
    Err(format!("{allowed} of {times} were allowed, so something else was counted").into())
}
