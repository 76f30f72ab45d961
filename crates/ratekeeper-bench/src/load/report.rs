//! What is told of a run.

use std::time::Duration;

use ratekeeper::Nanos;
use ratekeeper_console::{Output, OutputError, shown, table};
use ratekeeper_server::with_causes;
use serde::Serialize;

use super::judge::Judgement;
use super::measure::Measured;
use super::tally::Latencies;
use crate::deviation::as_f64;

/// What a program reads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) target: &'static str,
    pub(crate) server: String,
    pub(crate) request: String,
    #[serde(rename = "loop")]
    pub(crate) kind: &'static str,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// What was wanted, in requests per second; nothing for a closed loop.
    pub(crate) rate_wanted: Option<u64>,
    pub(crate) keys: u64,
    pub(crate) spread: String,
    pub(crate) warm_up_seconds: f64,
    pub(crate) seconds: f64,
    /// How many were answered.
    pub(crate) requests: u64,
    /// The same per second.
    pub(crate) rate: f64,
    pub(crate) allowed: u64,
    /// How many tokens those were.
    pub(crate) tokens: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) lost: u64,
    pub(crate) unsent: u64,
    pub(crate) reconnects: u64,
    pub(crate) broken_connections: u64,
    pub(crate) first_failure: Option<String>,
    pub(crate) latency_us: Percentiles,
    pub(crate) pid: Option<u32>,
    pub(crate) cpu_us_per_request: Option<f64>,
    /// If the decisions were judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) judgement: Option<Judgement>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    fn of(latencies: &Latencies) -> Self {
        let micros = |nanos: u64| as_f64(nanos) / 1e3;
        let at = |quantile| micros(latencies.value_at_quantile(quantile));
        Self {
            mean: latencies.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: micros(latencies.max()),
        }
    }
}

impl Report {
    pub(crate) fn of(measured: &Measured) -> Self {
        let Measured { target, step, tally, .. } = measured;
        let (counts, seconds) = (tally.counts, |length| Duration::from(length).as_secs_f64());
        let micros = |used: Duration| used.as_secs_f64() * 1e6 / as_f64(counts.answered());
        Self {
            target: target.door.name(),
            server: target.server.to_string(),
            request: target.door.to_string(),
            kind: if step.rate.is_some() { "open" } else { "closed" },
            connections: target.connections,
            depth: step.depth,
            rate_wanted: step.rate,
            keys: target.keys,
            spread: target.spread.to_string(),
            warm_up_seconds: seconds(measured.warm_up),
            seconds: seconds(tally.length()),
            requests: counts.answered(),
            rate: per_second(counts.answered(), tally.length()),
            allowed: counts.allowed,
            tokens: counts.tokens,
            denied: counts.denied,
            errors: counts.errors,
            first_error: tally.first_error.clone(),
            lost: counts.lost(),
            unsent: counts.unsent,
            reconnects: measured.reconnects,
            broken_connections: u64::try_from(measured.broken).unwrap_or(u64::MAX),
            first_failure: measured.failure.as_ref().map(|failure| with_causes(failure)),
            latency_us: Percentiles::of(&tally.latencies),
            pid: target.pid,
            cpu_us_per_request: measured.cpu.map(micros),
            judgement: None,
        }
    }

    /// What several runs have in common.
    fn head(&self) -> Vec<String> {
        let connections = ("clients", counted(self.connections, "connection"));
        let [target, keys, time] = self.asked();
        [target, connections, keys, time].into_iter().map(line).collect()
    }

    fn asked(&self) -> [(&'static str, String); 3] {
        [
            ("target", format!("{} {}: {}", self.target, self.server, shown(&self.request))),
            ("keys", format!("{}, spread {}", self.keys, self.spread)),
            ("time", format!("{} s, after {} s of warm-up", self.seconds, self.warm_up_seconds)),
        ]
    }

    /// One run as a row.
    fn row(&self) -> Vec<String> {
        let Percentiles { p50, p90, p99, p99_9, max, .. } = self.latency_us;
        let [p50, p90, p99, p99_9, max] = [p50, p90, p99, p99_9, max].map(time_of);
        let or = |found: Option<String>| found.unwrap_or_else(|| "-".into());
        vec![
            self.depth.to_string(),
            or(self.rate_wanted.map(|rate| rate.to_string())),
            format!("{:.0}", self.rate),
            p50,
            p90,
            p99,
            p99_9,
            max,
            share(self.denied, self.requests),
            self.errors.to_string(),
            self.lost.to_string(),
            self.unsent.to_string(),
            or(self.cpu_us_per_request.map(time_of)),
        ]
    }

    /// The same for people, a line for each thing.
    pub(crate) fn lines(&self) -> Vec<String> {
        let [target, keys, time] = self.asked();
        let mut rows = vec![
            target,
            ("loop", self.pace()),
            keys,
            time,
            ("requests", format!("{}, {:.0} per second", self.requests, self.rate)),
            ("allowed", self.allowed()),
            ("denied", format!("{} ({})", self.denied, share(self.denied, self.requests))),
            ("errors", with_first(self.errors, self.first_error.as_deref())),
        ];
        rows.extend(self.mishaps());
        rows.push(("latency", self.latency_us.words()));
        if let (Some(micros), Some(pid)) = (self.cpu_us_per_request, self.pid) {
            rows.push(("cpu", format!("{micros:.2} us per request, of the process {pid}")));
        }
        let judged = self.judgement.iter().flat_map(Judgement::lines);
        rows.into_iter().map(line).chain(judged).collect()
    }

    fn allowed(&self) -> String {
        let words = format!("{} ({})", self.allowed, share(self.allowed, self.requests));
        if self.tokens == self.allowed { words } else { format!("{words}, {} tokens", self.tokens) }
    }

    /// How requests were sent.
    pub(crate) fn pace(&self) -> String {
        let (connections, depth) = (counted(self.connections, "connection"), self.depth);
        match self.rate_wanted {
            None => format!("closed: {connections}, {} at once on each", counted(depth, "request")),
            Some(rate) => format!(
                "open: {rate} per second over {connections}, at most {depth} in flight on each"
            ),
        }
    }

    /// What should not have happened, if it did.
    fn mishaps(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if self.lost > 0 {
            rows.push(("lost", format!("{} requests were never answered", self.lost)));
        }
        if self.unsent > 0 {
            rows.push(("unsent", format!("{} were due, and not sent by the end", self.unsent)));
        }
        rows.extend(self.broken());
        rows
    }

    /// Which connections broke, if some did. What a server said is escaped where it is told.
    fn broken(&self) -> Option<(&'static str, String)> {
        let failure = self.first_failure.as_ref()?;
        let (broken, again) = (self.broken_connections, self.reconnects);
        let words = format!("{broken} for good, {again} opened again; the first: {failure}");
        Some(("broken", words))
    }
}

impl Percentiles {
    fn words(&self) -> String {
        let Self { p50, p90, p99, p99_9, max, .. } = *self;
        let named = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p99_9), ("max", max)];
        let words = named.map(|(name, micros)| format!("{name} {}", time_of(micros)));
        words.join("  ")
    }
}

/// A row for each run, below what they have in common.
pub(crate) fn print_sweep(reports: &[Report], output: &mut Output) -> Result<(), OutputError> {
    if let Some(first) = reports.first() {
        first.head().into_iter().try_for_each(|line| output.line(line))?;
        output.line("")?;
    }
    let head = [
        "depth",
        "wanted",
        "per second",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "denied",
        "errors",
        "lost",
        "unsent",
        "cpu",
    ];
    table(&head, reports.iter().map(Report::row).collect(), output)?;
    for report in reports {
        let (broken, judgement) = (report.broken(), &report.judgement);
        if broken.is_some() || judgement.is_some() {
            output.line(format_args!("\nloop      {}", report.pace()))?;
        }
        broken.into_iter().try_for_each(|broken| output.line(line(broken)))?;
        let Some(judgement) = judgement else { continue };
        judgement.lines().into_iter().try_for_each(|line| output.line(line))?;
    }
    Ok(())
}

fn with_first(count: u64, first: Option<&str>) -> String {
    match first {
        Some(first) => format!("{count}, the first: {}", shown(first)),
        None => count.to_string(),
    }
}

fn line((name, words): (&str, String)) -> String {
    format!("{name:<9} {words}")
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// So many in such a time, per second.
pub(crate) fn per_second(count: u64, length: Nanos) -> f64 {
    as_f64(count) / Duration::from(length).as_secs_f64()
}

/// A part of a whole, in percent.
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * as_f64(part) / as_f64(whole.max(1)))
}

/// A number of nanoseconds in three digits and a unit.
pub(crate) fn time(nanos: u64) -> String {
    time_of(as_f64(nanos) / 1e3)
}

/// A number of microseconds in three digits and a unit.
pub(crate) fn time_of(micros: f64) -> String {
    let (number, unit) = match micros {
        micros if micros < 999.5 => (micros, "us"),
        micros if micros < 999_500.0 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    format!("{} {unit}", digits(number))
}

/// Three digits of a number.
pub fn digits(number: f64) -> String {
    match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

/// One with this rate, and latencies that are a hundredth of it.
#[cfg(test)]
pub(crate) fn report_for_tests(rate: f64) -> Report {
    let p50 = rate / 100.0;
    let latency_us =
        Percentiles { mean: p50, p50, p90: p50, p99: 8.0 * p50, p99_9: 9.0 * p50, max: 10.0 * p50 };
    Report {
        target: "resp",
        server: "[::1]:6380".into(),
        request: "GET <&{key}>".into(),
        kind: "closed",
        connections: 50,
        depth: 1,
        rate_wanted: None,
        keys: 10,
        spread: "one".into(),
        warm_up_seconds: 0.0,
        seconds: 1.0,
        requests: 10,
        rate,
        allowed: 10,
        tokens: 10,
        denied: 0,
        errors: 0,
        first_error: None,
        lost: 0,
        unsent: 0,
        reconnects: 0,
        broken_connections: 0,
        first_failure: None,
        latency_us,
        pid: None,
        cpu_us_per_request: None,
        judgement: None,
    }
}

#[cfg(test)]
mod tests;
