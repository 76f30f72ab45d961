//! Every door beside a server that only echoes, and beside those of others: one table.
//!
//! Servers run on one processor and whoever asks them on another. What is compared is measured in
//! turns, in short runs; a ratio is made of the runs of one round, and the middle one decides.

mod cases;
mod client;
pub(crate) mod echo;
mod goal;
mod in_process;
mod measure;
mod page;
mod peers;
mod process;
mod redis_benchmark;
mod servers;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Failure;
use cases::{DOORS, KEYS, KEYS_QUICK, Keys};
use client::Timing;
use goal::Verdict;
use servers::{Programs, Servers};

/// What `--only` may name besides the doors.
const IN_PROCESS: &str = "engine";

const USUAL: Timing =
    Timing { warm_up: Duration::from_millis(200), length: Duration::from_secs(1), rounds: 11 };
const QUICK: Timing =
    Timing { warm_up: Duration::from_millis(50), length: Duration::from_millis(300), rounds: 3 };

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fewer and shorter runs, and fewer keys: to see whether it works
    #[arg(long)]
    quick: bool,
    /// Only these: udp, bucket, throttr, resp, http, engine
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = parse_part)]
    only: Vec<String>,
    /// Write the tables and charts there too; beside DIR.md, into that page
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn parse_part(text: &str) -> Result<String, String> {
    let is_known = DOORS.contains(&text) || text == IN_PROCESS;
    is_known.then(|| text.to_owned()).ok_or(format!("{} or {IN_PROCESS}", DOORS.join(", ")))
}

impl Args {
    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    fn keys(&self) -> Keys {
        if self.quick { KEYS_QUICK } else { KEYS }
    }

    fn timing(&self) -> Timing {
        if self.quick { QUICK } else { USUAL }
    }

    /// What whoever reads the results has to know, unless everything was measured as usual.
    fn reservation(&self) -> String {
        let (Timing { length, rounds, .. }, keys) = (self.timing(), self.keys().usual);
        let quick = self.quick.then(|| {
            let runs = format!("only {rounds} rounds of {} ms each", length.as_millis());
            format!(" This was a quick look: {runs}, and {keys} keys instead of {}.", KEYS.usual)
        });
        let only = (!self.only.is_empty())
            .then(|| format!(" Only this was measured: {}.", self.only.join(", ")));
        quick.into_iter().chain(only).collect()
    }
}

/// Measures, prints and draws. Refuses if a goal was not reached.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    process::can_pin()?;
    let folder = std::env::temp_dir().join(format!("ratekeeper-bench-all-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let done = measure_all(args, &folder);
    let _ = fs::remove_dir_all(&folder);
    done
}

fn measure_all(args: &Args, folder: &Path) -> Result<(), Failure> {
    let mut servers = Servers::new(programs(args, folder)?);
    // What is installed is there the next time.
    let begin = now();
    let (rows, past) = measure_doors(args, &mut servers);
    let engine = if args.wants(IN_PROCESS) {
        in_process::measure(&[1_000, args.keys().usual], args.timing().rounds)?
    } else {
        Vec::new()
    };
    let about = [page::machine(&past), args.reservation()].concat();
    println!("{about}\n");
    println!("{}", table::text(&rows));
    let notes: BTreeSet<&String> = rows.iter().flat_map(|row| &row.notes).collect();
    for note in &notes {
        println!("not measured: {note}");
    }
    if !engine.is_empty() {
        println!("{}", in_process::text(&engine));
    }
    if let Some(out) = &args.out {
        let notes = notes.iter().map(|note| format!("Not measured: {note}.\n\n"));
        let doors: Vec<&str> = DOORS.into_iter().filter(|door| args.wants(door)).collect();
        let charts = page::charts(&mut servers, &doors, out, args.timing(), args.keys())?;
        let tables = [table::markdown(&rows), in_process::markdown(&engine)].join("\n");
        let about = format!("{about} It took {}.", page::length(begin.elapsed()));
        let text = format!("{about}\n\n{tables}\n{}{charts}", notes.collect::<String>());
        eprintln!("written: {}", page::write(out, &text)?.display());
    }
    println!("it took {}", page::length(begin.elapsed()));
    judge(&rows)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark tells how long it took")]
fn now() -> Instant {
    Instant::now()
}

fn measure_doors(args: &Args, servers: &mut Servers) -> (Vec<table::Row>, measure::Past) {
    let groups = cases::all(args.keys());
    let groups: Vec<_> = groups.into_iter().filter(|group| args.wants(group.door)).collect();
    let (mut rows, mut past) = (Vec::new(), measure::Past::default());
    for (index, group) in groups.iter().enumerate() {
        eprintln!("[{}/{}] {}: {}", index + 1, groups.len(), group.door, group.load);
        let measured = measure::group(servers, group, args.timing(), &mut past);
        let new = table::rows(group, &measured);
        // The table comes at the end; whoever waits for it sees how it goes.
        for row in &new {
            eprintln!("    {}", row.brief());
        }
        rows.extend(new);
    }
    (rows, past)
}

/// What is started: `ratekeeper` was built beside this program.
fn programs(args: &Args, folder: &Path) -> Result<Programs, Failure> {
    let lab = std::env::current_exe()?;
    let ratekeeper = lab.with_file_name("ratekeeper");
    if !ratekeeper.exists() {
        let words = format!("{} is not there", ratekeeper.display());
        return Err(format!("{words}: `cargo xtask bench all` builds it").into());
    }
    let target = lab.parent().and_then(Path::parent).unwrap_or(folder).to_owned();
    let is_asked = DOORS.into_iter().any(|door| args.wants(door));
    let throttlecrab =
        if is_asked { peers::throttlecrab(&target) } else { Err("nobody asks it".into()) };
    Ok(Programs { ratekeeper, lab, folder: folder.to_owned(), throttlecrab })
}

fn judge(rows: &[table::Row]) -> Result<(), Failure> {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let (missed, unknown) = (count(Verdict::Missed), count(Verdict::NotMeasured));
    if missed + unknown == 0 {
        return Ok(());
    }
    Err(format!("{missed} goals were missed, and {unknown} were not measured").into())
}

#[cfg(test)]
mod tests;
