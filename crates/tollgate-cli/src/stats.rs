//! `tollgate stats`: the counters of a running server.

use std::path::Path;

use tollgate_server::read_stats;
use tollgate_server::stats::{DoorStats, Stats, Store};

use crate::args::Format;
use crate::error::{Error, Exit};
use crate::output::Output;
use crate::table::table;

/// Prints the counters of the server that listens at `control`.
pub(crate) fn run(control: &Path, format: Format) -> Result<Exit, Error> {
    let stats = read_stats(control)?;
    let mut output = Output::new();
    match format {
        Format::Json => output.json(&stats)?,
        Format::Text => print(&stats, &mut output)?,
    }
    output.finish().map(|()| Exit::Allowed)
}

fn print(stats: &Stats, output: &mut Output) -> Result<(), Error> {
    let Stats { version, uptime_secs, doors, stores, reloads, saves } = stats;
    let uptime = tollgate::Nanos::from_secs(*uptime_secs);
    output.line(format_args!("tollgate {version}, running for {uptime}"))?;
    output.line("")?;
    let doors = doors.iter().map(|(name, door)| {
        let DoorStats {
            requests,
            allowed,
            denied,
            ignored,
            malformed,
            connections,
            accepted,
            refused,
            dropped,
        } = door.counts;
        let counts = [
            requests,
            allowed,
            denied,
            ignored,
            malformed,
            connections,
            accepted,
            refused,
            dropped,
        ];
        let words = [name.clone(), door.address.to_string()].into_iter();
        words.chain(counts.map(|count| count.to_string())).collect()
    });
    table(
        &[
            "door",
            "address",
            "requests",
            "allowed",
            "denied",
            "ignored",
            "malformed",
            "open",
            "accepted",
            "refused",
            "dropped",
        ],
        doors.collect(),
        output,
    )?;
    output.line("")?;
    let stores = stores.iter().map(|(name, store)| {
        let Store { keys, bytes, bytes_max, evicted, tokens_forgiven, turned_away } = *store;
        let words = [name.clone(), keys.to_string(), bytes.to_string(), bytes_max.to_string()];
        let counts = [evicted, tokens_forgiven, turned_away].map(|count| count.to_string());
        words.into_iter().chain(counts).collect()
    });
    table(
        &["store", "keys", "bytes", "of", "evicted", "forgiven", "turned away"],
        stores.collect(),
        output,
    )?;
    output.line("")?;
    output.line(format_args!("reloads: {} done, {} refused", reloads.done, reloads.failed))?;
    output.line(format_args!("saves: {} done, {} failed", saves.done, saves.failed))
}
