//! Whoever asks: `ratekeeper bench`, or Redis' own tool.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::super::Failure;
use super::cases::{Contender, Load};
use super::goal::Sample;
use super::process::{CLIENT_CORE, output, pinned};
use super::redis_benchmark;
use super::servers::{Server, Servers};

/// How long one run is.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub(super) warm_up: Duration,
    pub(super) length: Duration,
    pub(super) rounds: usize,
}

/// Says which keys a run draws: each time others than before.
#[derive(Default)]
pub(super) struct Seeds {
    last: u64,
}

impl Seeds {
    pub(super) fn draw(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// How often each key is asked for, on average, before anything counts.
const FILLS: f64 = 4.0;
/// How long to fill at a time, with our own tool, and how often at most.
const FILL_LENGTH: Duration = Duration::from_secs(2);
const FILL_RUNS_MAX: usize = 100;
/// Fewer keys than this are there before the first run is over.
const FEW: f64 = 10_000.0;
/// Which share of the answers may be a no.
const DENIED_SHARE_MAX: f64 = 0.01;
/// How many requests tell how fast Redis' own tool will be.
const TRIAL: f64 = 20_000.0;

/// Asks until most keys are there.
pub(super) fn fill(
    servers: &mut Servers,
    filler: &Contender,
    seeds: &mut Seeds,
) -> Result<(), Failure> {
    let wanted = FILLS * filler.keys();
    if filler.keys() < FEW || filler.kind.is_echo() {
        return Ok(());
    }
    if matches!(filler.load, Load::Redis { .. }) {
        return redis(servers, filler, wanted).map(drop);
    }
    let mut asked = 0.0;
    for _ in 0..FILL_RUNS_MAX {
        if asked >= wanted {
            break;
        }
        let timing = Timing { warm_up: Duration::ZERO, length: FILL_LENGTH, rounds: 1 };
        let rate = bench(servers, filler, timing, seeds.draw())?.rate;
        asked += rate * FILL_LENGTH.as_secs_f64();
    }
    Ok(())
}

/// How fast it will be, about. Refuses one that cannot be asked at all.
pub(super) fn try_out(servers: &mut Servers, contender: &Contender) -> Result<f64, Failure> {
    match contender.load {
        Load::Redis { .. } => Ok(redis(servers, contender, TRIAL)?.rate),
        Load::Bench { .. } => servers.of(contender.kind).map(|_| 0.0),
    }
}

/// One short run. What Redis' own tool is told is how many requests, so `rate` says what to expect; it
/// draws its keys as it likes.
pub(super) fn run(
    servers: &mut Servers,
    contender: &Contender,
    timing: Timing,
    seed: u64,
    rate: f64,
) -> Result<Sample, Failure> {
    match contender.load {
        Load::Bench { .. } => bench(servers, contender, timing, seed),
        Load::Redis { .. } => {
            let count = (rate * timing.length.as_secs_f64()).max(TRIAL);
            redis(servers, contender, count)
        }
    }
}

/// `ratekeeper bench`, on the client's processor.
pub(super) fn tool(ratekeeper: &Path, server: &Server, door: &str) -> Result<Command, Failure> {
    let address = server.address(door).ok_or_else(|| format!("the door {door} is not open"))?;
    let mut command = pinned(CLIENT_CORE, ratekeeper);
    command.args(["bench", door, "--server", address]).env_remove("RATEKEEPER_TOKEN");
    Ok(command)
}

fn bench(
    servers: &mut Servers,
    contender: &Contender,
    timing: Timing,
    seed: u64,
) -> Result<Sample, Failure> {
    let ratekeeper = servers.programs().ratekeeper.clone();
    let server = servers.of(contender.kind)?;
    let mut command = tool(&ratekeeper, server, contender.door())?;
    command.args(["--pid", &server.process.pid().to_string(), "--format", "json"]);
    command.args(["--for", &format!("{}ms", timing.length.as_millis())]);
    command.args(["--warm-up", &millis(timing.warm_up), "--seed", &seed.to_string()]);
    command.args(contender.words());
    sample(&output(command)?)
}

fn millis(length: Duration) -> String {
    if length.is_zero() { "0".into() } else { format!("{}ms", length.as_millis()) }
}

/// Reads a report of `ratekeeper bench`. Refuses one with errors in it, or with more than a few denied:
/// both are quicker than what is measured.
fn sample(json: &str) -> Result<Sample, Failure> {
    let report: Value = serde_json::from_str(json)?;
    let number = |value: &Value, name: &str| {
        value.as_f64().ok_or_else(|| format!("the report has no {name}: {report}"))
    };
    let errors = number(&report["errors"], "errors")?;
    if errors > 0.0 {
        return Err(format!("{errors} errors, the first {}", report["first_error"]).into());
    }
    if report["broken_connections"].as_u64() > Some(0) {
        return Err(format!("connections broke, the first: {}", report["first_failure"]).into());
    }
    let denied = number(&report["denied"], "denied")?;
    let requests = number(&report["requests"], "requests")?;
    if denied > requests * DENIED_SHARE_MAX {
        return Err(format!("{denied} of {requests} were denied: the limit is too small").into());
    }
    Ok(Sample {
        rate: number(&report["rate"], "rate")?,
        p50: number(&report["latency_us"]["p50"], "p50")?,
        cpu: number(&report["cpu_us_per_request"], "cpu_us_per_request")?,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
fn redis(servers: &mut Servers, contender: &Contender, count: f64) -> Result<Sample, Failure> {
    let server = servers.of(contender.kind)?;
    let address = server.address("resp").ok_or("the RESP door is not open")?;
    let (_, port) = address.rsplit_once(':').ok_or("an address has a port")?;
    let Load::Redis { depth, keys, command } = &contender.load else {
        return Err("this is none of Redis' own loads".into());
    };
    let mut tool = pinned(CLIENT_CORE, "redis-benchmark");
    tool.args(["-h", "127.0.0.1", "-p", port, "-c", "50", "-P", &depth.to_string(), "--csv"]);
    tool.args(["-n", &(count as u64).to_string(), "-r", &keys.to_string()]);
    tool.args(command.words(address)?);
    let before = server.process.cpu()?;
    let report = redis_benchmark::read(&output(tool)?)?;
    let used = server.process.cpu()?.saturating_sub(before);
    let cpu = used.as_secs_f64() * 1e6 / count;
    Ok(Sample { rate: report.rate, p50: report.p50 * 1e3, cpu })
}

#[cfg(test)]
mod tests;
