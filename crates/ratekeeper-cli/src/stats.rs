//! `ratekeeper stats`: the counters of a running server.

use std::cmp::Reverse;

use ratekeeper_client::http::HttpClient;
use ratekeeper_console::{Format, Output, OutputError, shown, table};
use ratekeeper_server::read_stats;
use ratekeeper_server::settings::ControlSetting;
use ratekeeper_server::stats::{BusyOf, DoorStats, Latency, LimitMemory, Rulings, Stats, Store};

use crate::counted::{OTHERS, asked, count, so_far, sum, time};
use crate::error::{Error, Exit};
use crate::source::Source;

/// How many limits people are shown, and how many ids of each list. Programs read all.
const LIMITS_SHOWN: usize = 20;
const IDS_SHOWN: usize = 5;
/// And of those who hold memory.
const HOLDERS_SHOWN: usize = 10;

/// Prints the counters of a server: of the one at the usual control socket, if nobody says.
pub(crate) fn run(source: &Source, format: Format) -> Result<Exit, Error> {
    let stats = match source {
        Source::Control(path) => read_stats(path)?,
        Source::Usual(_) => read_stats(&ControlSetting::usual_path())?,
        Source::Http(place) => HttpClient::new(&place.place()?)?.get("/v1/stats")?,
    };
    let mut output = Output::stdout();
    match format {
        Format::Json => output.json(&stats)?,
        Format::Text => print(&stats, &mut output)?,
    }
    output.finish()?;
    Ok(Exit::Allowed)
}

fn print(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let uptime = so_far(stats.uptime_secs);
    output.line(format_args!("ratekeeper {}, running for {uptime}", shown(&stats.version)))?;
    output.line("")?;
    print_doors(stats, output)?;
    output.line("")?;
    print_stores(stats, output)?;
    print_memory(stats, output)?;
    print_shared(stats, output)?;
    print_limits(stats, output)?;
    print_busy("busiest", "asks", &stats.busiest, output)?;
    print_busy("most denied", "denied", &stats.most_denied, output)?;
    output.line("")?;
    let Stats { reloads, saves, .. } = stats;
    output.line(format_args!("reloads: {} done, {} refused", reloads.done, reloads.failed))?;
    output.line(format_args!("saves: {} done, {} failed", saves.done, saves.failed))
}

fn print_doors(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let doors = stats.doors.iter().map(|(name, door)| {
        let DoorStats { requests, allowed, denied, ignored, malformed, .. } = door.counts;
        let DoorStats { connections, accepted, refused, dropped, .. } = door.counts;
        let asked = [requests, allowed, denied, ignored, malformed];
        let connected = [connections, accepted, refused, dropped];
        let Latency { p50_us, p99_us, max_us } = door.latency;
        let words = [shown(name), door.address.to_string()].into_iter();
        let counts = asked.into_iter().chain(connected).map(|count| count.to_string());
        let times = [p50_us, p99_us, max_us].map(|micros| time(micros, requests));
        words.chain(counts).chain(times).collect()
    });
    let head = "door,address,requests,allowed,denied,ignored,malformed,\
                open,accepted,refused,dropped,p50,p99,longest";
    let head: Vec<&str> = head.split(',').collect();
    table(&head, doors.collect(), output)
}

fn print_stores(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let stores = stats.stores.iter().map(|(name, store)| {
        let Store { keys, bytes, bytes_max, evicted, tokens_forgiven, turned_away, .. } = *store;
        let words = [shown(name), keys.to_string(), bytes.to_string(), bytes_max.to_string()];
        let counts = [evicted, tokens_forgiven, turned_away].map(|count| count.to_string());
        words.into_iter().chain(counts).collect()
    });
    let head = ["store", "keys", "bytes", "of", "evicted", "forgiven", "turned away"];
    table(&head, stores.collect(), output)
}

/// Who holds the keys, and what is short of memory.
fn print_memory(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let holders = stats
        .stores
        .iter()
        .flat_map(|(name, store)| store.by_limit.iter().map(move |it| (name, it)));
    let mut holders: Vec<_> = holders.collect();
    holders.sort_by_key(|(_, it)| Reverse((it.under_pressure, it.keys)));
    let row = |(store, it): &(&String, &LimitMemory)| {
        let counts = [it.keys, it.share].map(|count| count.to_string());
        let lost = [it.evicted, it.tokens_forgiven, it.turned_away, it.share_full];
        let lost = lost.map(|count| count.to_string());
        [shown(&it.limit), shown(store)].into_iter().chain(counts).chain(lost).collect()
    };
    let rows: Vec<Vec<String>> = holders.iter().take(HOLDERS_SHOWN).map(row).collect();
    if !rows.is_empty() {
        output.line("")?;
        let head = "memory of,store,keys,share,evicted,forgiven,turned away,share full";
        let head: Vec<&str> = head.split(',').collect();
        table(&head, rows, output)?;
    }
    let Some(sentence) = &stats.pressure else { return Ok(()) };
    output.line("")?;
    output.line(shown(sentence))
}

/// How it goes with the store that is shared with other servers.
fn print_shared(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let Some(shared) = &stats.shared else { return Ok(()) };
    output.line("")?;
    let address = shown(&shared.address);
    match (&shared.why, shared.down_secs) {
        (Some(why), Some(secs)) => output.line(format_args!(
            "shared store {address}: away for {}: {}",
            so_far(secs),
            shown(why)
        ))?,
        _ => output.line(format_args!("shared store {address}: up"))?,
    }
    output.line(format_args!(
        "  {} trips; asks: {} decided there, {} known denials, {} from leases",
        shared.trips, shared.decided, shared.remembered, shared.leased
    ))?;
    output.line(format_args!(
        "  while it was away: {} decided here, {} let through, {} turned away",
        shared.local, shared.let_through, shared.turned_away
    ))
}

/// The limits that were asked most. Where there are more, the rest is one line.
fn print_limits(stats: &Stats, output: &mut Output) -> Result<(), OutputError> {
    let mut limits: Vec<_> = stats.limits.iter().filter(|(_, it)| asked(**it) > 0).collect();
    limits.sort_by_key(|(_, it)| Reverse(asked(**it)));
    let not_shown = limits.iter().skip(LIMITS_SHOWN).map(|(_, it)| *it);
    let others = sum(not_shown.chain([&stats.others]));
    let row = |name: String, it: &Rulings| {
        let counts = [it.allowed, it.denied, it.shadow].map(|count| count.to_string());
        [name].into_iter().chain(counts).collect()
    };
    let shown = limits.iter().take(LIMITS_SHOWN).map(|(name, it)| row(shown(name), it));
    let mut rows: Vec<Vec<String>> = shown.collect();
    if asked(others) > 0 {
        rows.push(row(OTHERS.into(), &others));
    }
    if rows.is_empty() {
        return Ok(());
    }
    output.line("")?;
    table(&["limit", "allowed", "denied", "shadow"], rows, output)
}

/// A few ids, each with how often it was counted: exactly, or between two numbers.
fn print_busy(
    title: &str,
    counted: &str,
    ids: &[BusyOf],
    output: &mut Output,
) -> Result<(), OutputError> {
    if ids.is_empty() {
        return Ok(());
    }
    let row = |it: &BusyOf| vec![shown(&it.limit), shown(&it.id), count(it)];
    output.line("")?;
    let of = format!("{title} of");
    table(&[&of, "id", counted], ids.iter().take(IDS_SHOWN).map(row).collect(), output)
}
