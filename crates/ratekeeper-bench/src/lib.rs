//! Measuring a server from outside, as `ratekeeper bench` does: the load tool, the judge of what the server
//! decided, and the charts.

mod args;
mod compare;
mod deviation;
mod error;
mod load;
mod statistics;
mod trial;

pub use args::RawBench;
use args::RawWork;
pub use error::BenchError;
use load::Load;
pub use load::{GCRA_SCRIPT, digits};
pub use statistics::Spread;

/// How a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchEnd {
    /// Nothing wrong was found.
    Measured,
    /// Decisions were judged, and some are certainly wrong.
    WrongDecisions,
}

/// Runs the benchmark that the arguments name, and prints its report. Refuses arguments that contradict each other.
pub fn run(raw: RawBench) -> Result<BenchEnd, BenchError> {
    match *raw.work {
        RawWork::Load(raw) => load::run(&Load::try_from(*raw)?),
        RawWork::Compare(raw) => compare::run(&raw).map(|()| BenchEnd::Measured),
        RawWork::BucketTrial(raw) => trial::run(&raw.into()).map(|()| BenchEnd::Measured),
    }
}
