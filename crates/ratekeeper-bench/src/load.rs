//! `ratekeeper bench udp|bucket|throttr|http|resp|echo-udp|echo-tcp`: requests at a server, and how it goes.

pub(crate) mod args;
mod chart;
mod command;
mod conductor;
mod cpu;
mod datagram;
mod flight;
mod help;
mod input;
mod judge;
mod keys;
mod live;
mod measure;
mod opening;
mod random;
mod record;
mod report;
mod stage;
mod stream;
mod tally;
mod target;
mod wire;
mod words;
mod zipf;

use std::fs;
use std::path::PathBuf;

use ratekeeper::Nanos;
use ratekeeper_console::{Format, Output};

use crate::BenchEnd;
use crate::error::BenchError;
use judge::{Judgement, Law};
use live::Live;
use measure::Measured;
pub(crate) use measure::Run;
pub use opening::GCRA_SCRIPT;
pub use report::digits;
#[cfg(test)]
pub(crate) use report::report_for_tests;
pub(crate) use report::{Report, time_of};
pub(crate) use target::{Step, Target};
pub(crate) use words::split;

/// What is to be measured, and how it is told.
#[derive(Debug)]
pub(crate) struct Load {
    target: Target,
    /// One run for each; there is at least one.
    steps: Vec<Step>,
    warm_up: Nanos,
    length: Nanos,
    /// What decisions are judged by, if they are.
    law: Option<Law>,
    /// Where to draw it.
    chart: Option<PathBuf>,
    format: Format,
}

/// Measures one step after the other, and reports. What was measured is told also if a later step
/// fails, or nothing can be drawn.
pub(crate) fn run(load: &Load) -> Result<BenchEnd, BenchError> {
    let mut output = Output::stdout();
    let mut reports = Vec::new();
    let went = load.measure_all(&mut reports, &mut output);
    match (load.format, &reports[..]) {
        (Format::Json, _) | (_, []) => {}
        (Format::Text, [report]) => {
            report.lines().into_iter().try_for_each(|it| output.line(it))?;
        }
        (Format::Text, reports) => report::print_sweep(reports, &mut output)?,
    }
    output.finish()?;
    went?;
    let is_guilty = reports.iter().filter_map(|it| it.judgement.as_ref()).any(Judgement::is_guilty);
    Ok(if is_guilty { BenchEnd::WrongDecisions } else { BenchEnd::Measured })
}

impl Load {
    fn measure_all(
        &self,
        reports: &mut Vec<Report>,
        output: &mut Output,
    ) -> Result<(), BenchError> {
        for step in &self.steps {
            let mut measured = self.measure(*step)?;
            let judgement = self.judge(&mut measured);
            let report = Report { judgement, ..Report::of(&measured) };
            if self.format == Format::Json {
                // Each as soon as it is there: a sweep takes its time.
                output.json(&report)?;
                output.finish()?;
            }
            reports.push(report);
            self.draw(reports, &measured)?;
        }
        Ok(())
    }

    /// One run, while whoever sits at the terminal looks on.
    fn measure(&self, step: Step) -> Result<Measured, BenchError> {
        let Self { target, warm_up, length, .. } = self;
        let is_recorded = self.law.is_some();
        let run = Run { target, step, warm_up: *warm_up, length: *length, is_recorded };
        let (name, server) = (target.door.name(), &target.server);
        let step = match (&self.steps[..], step.rate) {
            ([_], _) => String::new(),
            (_, None) => format!(", depth {}", step.depth),
            (_, Some(rate)) => format!(", depth {}, {rate} per second", step.depth),
        };
        let words = format!("{name} {server}{step}: {warm_up} to warm up, then {length}");
        let live = Live::new(words, Nanos::new(warm_up.get() + length.get()));
        let measured = run.measure(Some(&live));
        live.finish();
        measured
    }

    /// What the record of a run says, which is gone then.
    fn judge(&self, measured: &mut Measured) -> Option<Judgement> {
        let (law, record) = (self.law.as_ref()?, measured.tally.record.take()?);
        Some(Judgement::of(record, law, self.target.door.cost()))
    }

    /// Draws what was measured until now, if it is to be drawn.
    fn draw(&self, reports: &[Report], last: &Measured) -> Result<(), BenchError> {
        let Some(path) = &self.chart else { return Ok(()) };
        let svg = match reports {
            [report] if self.steps.len() == 1 => chart::histogram(report, &last.tally.latencies),
            reports => chart::curve(reports),
        };
        fs::write(path, svg).map_err(|source| BenchError::Chart { path: path.clone(), source })
    }
}
