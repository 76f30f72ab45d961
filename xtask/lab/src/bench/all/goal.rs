//! What is compared, and what a comparison has to show.

use std::fmt;

use ratekeeper_bench::Spread;

/// What one short run came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Answers per second.
    pub(super) rate: f64,
    /// The middle latency, in microseconds.
    pub(super) p50: f64,
    /// What the server's process used for each answer, in microseconds.
    pub(super) cpu: f64,
}

/// Which number of a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// Answers per second.
    Rate,
    /// The server's processor time per answer.
    Cpu,
    /// Answers per second of the server's processor time: what it could do if the client could ask so
    /// much.
    PerCpu,
    P50,
}

impl Metric {
    pub(super) fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Rate => sample.rate,
            Self::Cpu => sample.cpu,
            Self::PerCpu => 1e6 / sample.cpu,
            Self::P50 => sample.p50,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "per second",
            Self::Cpu => "CPU",
            Self::PerCpu => "per CPU second",
            Self::P50 => "p50",
        })
    }
}

/// What a ratio has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// It is only told.
    Any,
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
            Self::Any => true,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::Any => Ok(()),
        }
    }
}

/// Whether a comparison showed what it has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Missed,
    NotMeasured,
    /// There was nothing to show.
    None,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Missed => "MISSED",
            Self::NotMeasured => "NOT MEASURED",
            Self::None => "",
        })
    }
}

/// Of each round one's number by the other's.
pub(super) fn ratio(metric: Metric, ours: &[Sample], theirs: &[Sample]) -> Option<Spread> {
    let pairs = ours.iter().zip(theirs);
    Spread::of(pairs.map(|(ours, theirs)| metric.of(ours) / metric.of(theirs)))
}

/// The middle ratio decides.
pub(super) fn verdict(bound: Bound, ratio: Option<Spread>) -> Verdict {
    match (bound, ratio) {
        (Bound::Any, _) => Verdict::None,
        (_, None) => Verdict::NotMeasured,
        (bound, Some(ratio)) if bound.holds(ratio.median) => Verdict::Ok,
        _ => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests;
