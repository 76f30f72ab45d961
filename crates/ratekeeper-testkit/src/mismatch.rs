//! The report of a difference, with what is needed to see why.

use std::fmt;

use crate::compare::Observed;
use crate::terms::Terms;
use crate::traffic::Step;

/// The first step where the subject and the oracle differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The seed of the run; the same seed shows the same difference.
    pub seed: u64,
    /// The number of the step, from 0.
    pub number: u64,
    /// The moment of the step, in nanoseconds.
    pub at: u64,
    /// The step itself.
    pub step: Step,
    /// The buckets the step touches.
    pub stories: Vec<Story>,
    /// What the oracle says.
    pub expected: Observed,
    /// What the subject says.
    pub observed: Observed,
}

/// What a bucket went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// The bucket's number.
    pub bucket: usize,
    /// The terms in force.
    pub terms: Terms,
    /// Its last steps, the oldest first, on which both agreed.
    pub past: Vec<Past>,
}

/// A step on which both agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// The number of the step, from 0.
    pub number: u64,
    /// Its moment, in nanoseconds.
    pub at: u64,
    /// The step itself.
    pub step: Step,
    /// What came of it.
    pub outcome: Observed,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, number, at, step, .. } = self;
        writeln!(f, "seed {seed}, step {number}, at {at} ns: {step}")?;
        writeln!(f, "  expected: {}", self.expected)?;
        writeln!(f, "  observed: {}", self.observed)?;
        self.stories.iter().try_for_each(|story| write!(f, "{story}"))
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bucket {} ({}), its last steps:", self.bucket, self.terms)?;
        self.past.iter().try_for_each(|past| writeln!(f, "  {past}"))
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ns: {} -> {}", self.number, self.at, self.step, self.outcome)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spend { bucket, cost } => write!(f, "spend {cost} from bucket {bucket}"),
            Self::Check { bucket, cost } => write!(f, "check {cost} of bucket {bucket}"),
            Self::Refund { bucket, cost } => write!(f, "refund {cost} to bucket {bucket}"),
            Self::Reset { bucket } => write!(f, "reset bucket {bucket}"),
            Self::Change { bucket, terms } => write!(f, "change bucket {bucket} to {terms}"),
            Self::Transaction { asks } => {
                write!(f, "transaction of")?;
                asks.iter().try_for_each(|(bucket, cost, mode)| {
                    write!(f, " [{mode:?} {cost} from bucket {bucket}]")
                })
            }
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => write!(f, "changed"),
            Self::Answer(answer) => write!(f, "{answer}"),
            Self::Mistake(mistake) => write!(f, "mistake: {mistake:?}"),
            Self::Verdict(verdict) => {
                write!(f, "{}; decided by ask {}; alone:", verdict.merged, verdict.decided_by)?;
                verdict.own.iter().try_for_each(|own| write!(f, " [{own}]"))
            }
        }
    }
}
