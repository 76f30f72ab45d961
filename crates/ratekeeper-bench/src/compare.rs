//! `ratekeeper bench compare`: two targets in turn, because machines are noisy.

use clap::{Args, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use ratekeeper::Nanos;
use ratekeeper_console::{Format, Output, OutputError, say, shown, table};
use serde::Serialize;

use super::load::args::{RawDoor, parse_run, parse_warm_up};
use super::load::{Report, Run, Step, Target, digits, split, time_of};
use super::statistics::Spread;
use crate::error::BenchError;

/// How many rounds there can be.
const ROUNDS_MAX: u64 = 1_000;

pub(crate) const COMPARE_HELP: &str = "\
Each target is a command line in one word: what stands behind `ratekeeper bench`, from `udp` on.
Each round measures both for a short time, in turns: A B, then B A. Whatever else the machine does
then falls on both. A ratio is made of the two runs of one round; told are the median of all ratios,
the quartiles between which half of them lie, and the least and the largest. If 1 lies well inside,
nothing was shown.

EXAMPLES
  ratekeeper bench compare 'resp --server :6380' 'resp --server :6379 --command evalsha'
  ratekeeper bench compare 'bucket --depth 16' 'throttr --depth 16' --rounds 21 --for 2s
  ratekeeper bench compare 'udp --rate 5000 --pid 4711' 'udp --rate 5000 --server :2001 --pid 4712'
      also how much of a processor a request takes

EXIT CODES
  0  measured
  2  the arguments are wrong
  3  no server was reached, or every answer was an error";

#[derive(Debug, Args)]
pub(crate) struct RawCompare {
    /// One target, such as 'resp --depth 16'
    #[arg(value_name = "A", value_parser = Contender::parse)]
    a: Contender,
    /// The other
    #[arg(value_name = "B", value_parser = Contender::parse)]
    b: Contender,
    /// How often both are measured
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=ROUNDS_MAX))]
    rounds: u64,
    /// How long each time
    #[arg(long = "for", value_name = "DURATION", default_value = "1s", value_parser = parse_run)]
    length: Nanos,
    /// How long to ask before that
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = parse_warm_up)]
    warm_up: Nanos,
    /// How to print the comparison
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A target, as it was written in one word.
#[derive(Clone, Debug)]
struct Contender {
    target: Target,
    step: Step,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true)]
struct RawContender {
    #[command(subcommand)]
    door: RawDoor<RawNothing>,
}

/// How long, and how it is told, is said for both together.
#[derive(Debug, Args)]
struct RawNothing {}

impl Contender {
    /// Refuses what `ratekeeper bench` refuses, and several runs in one.
    fn parse(text: &str) -> Result<Self, String> {
        let raw = RawContender::try_parse_from(split(text)?).map_err(|error| first_line(&error))?;
        let (target, steps, RawNothing {}) =
            raw.door.resolve().map_err(|error| error.to_string())?;
        match steps[..] {
            [step] => Ok(Self { target, step }),
            _ => Err("name one depth and at most one rate".into()),
        }
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// What is compared.
#[derive(Clone, Copy)]
struct Metric {
    name: &'static str,
    unit: &'static str,
    of: fn(&Report) -> Option<f64>,
    shown: fn(f64) -> String,
}

const METRICS: [Metric; 5] = [
    Metric { name: "rate", unit: "1/s", of: |it| Some(it.rate), shown: |it| format!("{it:.0}") },
    Metric { name: "p50", unit: "us", of: |it| Some(it.latency_us.p50), shown: time_of },
    Metric { name: "p99", unit: "us", of: |it| Some(it.latency_us.p99), shown: time_of },
    Metric { name: "p99.9", unit: "us", of: |it| Some(it.latency_us.p99_9), shown: time_of },
    Metric { name: "cpu", unit: "us", of: |it| it.cpu_us_per_request, shown: time_of },
];

/// What came of it, for programs.
#[derive(Debug, Serialize)]
struct Comparison {
    rounds: usize,
    seconds: f64,
    a: Side,
    b: Side,
    metrics: Vec<Compared>,
}

#[derive(Debug, Serialize)]
struct Side {
    target: &'static str,
    server: String,
    request: String,
    #[serde(rename = "loop")]
    pace: String,
    errors: u64,
    lost: u64,
    unsent: u64,
}

#[derive(Debug, Serialize)]
struct Compared {
    name: &'static str,
    unit: &'static str,
    a: Spread,
    b: Spread,
    /// A by B, of each round.
    ratio: Spread,
    #[serde(skip)]
    shown: fn(f64) -> String,
}

/// Measures both, again and again, and tells how they compare.
pub(crate) fn run(raw: &RawCompare) -> Result<(), BenchError> {
    let reports = raw.measure()?;
    let comparison = Comparison::of(&reports);
    let mut output = Output::stdout();
    match raw.format {
        Format::Json => output.json(&comparison)?,
        Format::Text => comparison.print(&mut output)?,
    }
    output.finish()?;
    Ok(())
}

impl RawCompare {
    /// The runs of A and those of B, one of each for every round.
    fn measure(&self) -> Result<[Vec<Report>; 2], BenchError> {
        let mut reports = [Vec::new(), Vec::new()];
        let bar = progress(2 * self.rounds);
        for round in 0..self.rounds {
            let mut order = [(0, &self.a), (1, &self.b)];
            if round % 2 == 1 {
                order.reverse();
            }
            for (side, contender) in order {
                let report = self.measure_one(contender);
                reports[side].push(report.inspect_err(|_| bar.finish_and_clear())?);
                bar.inc(1);
            }
            if round == 0 {
                let Self { rounds, length, warm_up, .. } = self;
                // Not earlier: both have answered now.
                say(format_args!("{rounds} rounds of {length} each, after {warm_up} of warm-up"));
            }
        }
        bar.finish_and_clear();
        Ok(reports)
    }

    fn measure_one(&self, contender: &Contender) -> Result<Report, BenchError> {
        let Contender { target, step } = contender;
        let (warm_up, length) = (self.warm_up, self.length);
        let run = Run { target, step: *step, warm_up, length, is_recorded: false };
        let measured = run.measure(None)?;
        // What a server did until it was gone is no measure of it.
        if measured.broken == target.connections
            && let Some(failure) = measured.failure
        {
            return Err(failure.into());
        }
        Ok(Report::of(&measured))
    }
}

/// Draws nothing where standard error is not a terminal.
fn progress(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} runs, {eta} to go");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs).with_style(style)
}

impl Comparison {
    fn of([a, b]: &[Vec<Report>; 2]) -> Self {
        Self {
            rounds: a.len(),
            seconds: a.first().map_or(0.0, |report| report.seconds),
            a: Side::of(a),
            b: Side::of(b),
            metrics: METRICS.iter().filter_map(|metric| Compared::of(*metric, a, b)).collect(),
        }
    }

    fn print(self, output: &mut Output) -> Result<(), OutputError> {
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let Side { target, server, request, pace, .. } = side;
            output.line(format_args!("{name}  {target} {server}: {}", shown(request)))?;
            output.line(format_args!("   {pace}"))?;
            let Side { errors, lost, unsent, .. } = side;
            if errors + lost + unsent > 0 {
                output.line(format_args!("   {errors} errors, {lost} lost, {unsent} unsent"))?;
            }
        }
        output.line("")?;
        let head = ["median of", "A", "B", "A / B", "quartiles", "least to largest"];
        table(&head, self.metrics.iter().map(Compared::row).collect(), output)
    }
}

impl Side {
    fn of(reports: &[Report]) -> Self {
        let sum = |pick: fn(&Report) -> u64| reports.iter().map(pick).sum();
        let first = reports.first();
        Self {
            target: first.map_or("", |report| report.target),
            server: first.map(|report| report.server.clone()).unwrap_or_default(),
            request: first.map(|report| report.request.clone()).unwrap_or_default(),
            pace: first.map(Report::pace).unwrap_or_default(),
            errors: sum(|report| report.errors),
            lost: sum(|report| report.lost),
            unsent: sum(|report| report.unsent),
        }
    }
}

impl Compared {
    /// Nothing if one of them was not measured.
    fn of(metric: Metric, a: &[Report], b: &[Report]) -> Option<Self> {
        let all = |reports: &[Report]| reports.iter().map(metric.of).collect::<Option<Vec<f64>>>();
        let (a, b) = (all(a)?, all(b)?);
        let ratio = Spread::of(a.iter().zip(&b).map(|(a, b)| a / b))?;
        let Metric { name, unit, shown, .. } = metric;
        Some(Self { name, unit, a: Spread::of(a)?, b: Spread::of(b)?, ratio, shown })
    }

    fn row(&self) -> Vec<String> {
        let Spread { median, lower, upper, min, max } = self.ratio;
        let range = |low, high| format!("{} to {}", digits(low), digits(high));
        vec![
            if self.name == "rate" { "rate per second".into() } else { self.name.into() },
            (self.shown)(self.a.median),
            (self.shown)(self.b.median),
            digits(median),
            range(lower, upper),
            range(min, max),
        ]
    }
}

#[cfg(test)]
mod tests;
