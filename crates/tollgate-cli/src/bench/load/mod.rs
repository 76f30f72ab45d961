//! `tollgate bench udp|bucket|throttr|http|resp`: requests at a server, and how it goes.

pub(crate) mod args;
mod command;
mod conductor;
mod cpu;
mod datagram;
mod error;
mod flight;
mod help;
mod input;
mod keys;
mod live;
mod measure;
mod opening;
mod random;
mod report;
mod stage;
mod stream;
mod tally;
mod target;
mod wire;
mod words;
mod zipf;

use tollgate::Nanos;

use crate::args::Format;
use crate::error::{Error, Exit};
use crate::output::Output;
pub(crate) use error::BenchError;
use live::Live;
use measure::{Measured, Run};
use report::Report;
use target::{Step, Target};

/// What is to be measured, and how it is told.
#[derive(Debug)]
pub(crate) struct Load {
    target: Target,
    step: Step,
    warm_up: Nanos,
    length: Nanos,
    format: Format,
}

/// Measures, and reports.
pub(crate) fn run(load: &Load) -> Result<Exit, Error> {
    let measured = load.measure(load.step)?;
    let report = Report::of(&measured);
    let mut output = Output::new();
    match load.format {
        Format::Json => output.json(&report)?,
        Format::Text => report.lines().into_iter().try_for_each(|line| output.line(line))?,
    }
    output.finish()?;
    Ok(Exit::Allowed)
}

impl Load {
    /// One run, while whoever sits at the terminal looks on.
    fn measure(&self, step: Step) -> Result<Measured, BenchError> {
        let Self { target, warm_up, length, .. } = self;
        let run = Run { target, step, warm_up: *warm_up, length: *length };
        let (name, server) = (target.door.name(), &target.server);
        let words = format!("{name} {server}: {warm_up} to warm up, then {length}");
        let live = Live::new(words, Nanos::new(warm_up.get() + length.get()));
        let measured = run.measure(Some(&live));
        live.finish();
        measured
    }
}
