//! `ratekeeper bench`: measuring a server from outside.

pub(crate) mod args;
mod compare;
mod deviation;
mod load;
mod statistics;
mod trial;

use crate::error::{Error, Exit};
use args::RawBench;
pub(crate) use load::BenchError;
use load::Load;

/// Measures what was asked for. Refuses arguments that do not go together.
pub(crate) fn run(raw: RawBench) -> Result<Exit, Error> {
    match raw {
        RawBench::Load(raw) => load::run(&Load::try_from(*raw)?),
        RawBench::Compare(raw) => compare::run(&raw),
        RawBench::BucketTrial(raw) => trial::run(&raw.into()),
    }
}
