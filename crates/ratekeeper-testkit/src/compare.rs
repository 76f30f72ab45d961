//! The same traffic through the oracle and through the real limiter.

use std::collections::VecDeque;

use crate::mismatch::{Mismatch, Past, Story};
use crate::oracle::{Answer, Bucket, Mistake};
use crate::terms::Terms;
use crate::traffic::{Step, Traffic};
use crate::transaction::{Mode, Verdict, transaction};

/// How many steps of each bucket a mismatch tells.
pub const PAST_MAX: usize = 10;

/// The limiter under test.
pub trait Subject {
    /// Whether a limit with these terms can be loaded at all; others are never sent.
    fn accepts(terms: Terms) -> bool {
        terms.are_valid()
    }

    /// Does what the step says at the moment `at`, in nanoseconds.
    ///
    /// The first step that names a bucket is its first `Change`, which creates it, full.
    fn apply(&mut self, step: &Step, at: u64) -> Observed;
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// New terms are in force.
    Changed,
    /// One bucket answered; for a refund, `allowed` says whether it was applied.
    Answer(Answer),
    /// A transaction was decided; a subject that does not tell what each ask would have been
    /// answered alone leaves `own` empty.
    Verdict(Verdict),
    /// A caller's error.
    Mistake(Mistake),
}

impl Observed {
    /// The answer, merged where there are several.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Verdict(verdict) => Some(&verdict.merged),
            Self::Changed | Self::Mistake(_) => None,
        }
    }

    /// Whether a subject that observed this agrees; which mistake it is, is a matter of wording.
    fn agrees_with(&self, observed: &Self) -> bool {
        match (self, observed) {
            (Self::Mistake(_), Self::Mistake(_)) => true,
            (Self::Verdict(expected), Self::Verdict(observed)) if observed.own.is_empty() => {
                expected.merged == observed.merged && expected.decided_by == observed.decided_by
            }
            _ => self == observed,
        }
    }
}

impl From<Result<Answer, Mistake>> for Observed {
    fn from(result: Result<Answer, Mistake>) -> Self {
        result.map_or_else(Self::Mistake, Self::Answer)
    }
}

impl From<Result<Verdict, Mistake>> for Observed {
    fn from(result: Result<Verdict, Mistake>) -> Self {
        result.map_or_else(Self::Mistake, Self::Verdict)
    }
}

/// The oracle's buckets, by number.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    buckets: Vec<Bucket>,
}

impl Oracle {
    /// The bucket, where it has been created.
    pub fn bucket(&self, bucket: usize) -> Option<&Bucket> {
        self.buckets.get(bucket)
    }

    fn change(&mut self, bucket: usize, terms: Terms, at: u64) {
        match self.buckets.get_mut(bucket) {
            Some(known) => known.change(terms, at),
            None => self.buckets.push(Bucket::new(terms)),
        }
    }

    fn transaction(&mut self, asks: &[(usize, u64, Mode)], at: u64) -> Result<Verdict, Mistake> {
        // Each bucket can be taken once, so asking for it again finds nothing.
        let mut free: Vec<_> = self.buckets.iter_mut().map(Some).collect();
        let mut taken = Vec::with_capacity(asks.len());
        for &(bucket, cost, mode) in asks {
            taken.push((free[bucket].take().ok_or(Mistake::SameBucketTwice)?, cost, mode));
        }
        transaction(&mut taken, at)
    }
}

impl Subject for Oracle {
    fn apply(&mut self, step: &Step, at: u64) -> Observed {
        match *step {
            Step::Spend { bucket, cost } => self.buckets[bucket].spend(cost, at).into(),
            Step::Check { bucket, cost } => self.buckets[bucket].check(cost, at).into(),
            Step::Refund { bucket, cost } => self.buckets[bucket].refund(cost, at).into(),
            Step::Reset { bucket } => Observed::Answer(self.buckets[bucket].reset()),
            Step::Change { bucket, terms } => {
                self.change(bucket, terms, at);
                Observed::Changed
            }
            Step::Transaction { ref asks } => self.transaction(asks, at).into(),
        }
    }
}

/// How often each kind of thing happened; a test asserts that none is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything but changes; a transaction is one decision.
    pub decisions: u64,
    /// Spends, checks and transactions that were allowed.
    pub allowed: u64,
    /// Spends, checks and transactions that were denied.
    pub denied: u64,
    /// Steps that were a caller's error.
    pub mistakes: u64,
    /// Refunds that were applied.
    pub refunds: u64,
    /// Refunds that found nothing to give back.
    pub idle_refunds: u64,
    /// Resets.
    pub resets: u64,
    /// Transactions, whatever their outcome.
    pub transactions: u64,
    /// Changes of terms, without the first of each bucket.
    pub changes: u64,
    /// Steps that happened before the one in front of them.
    pub steps_back: u64,
}

impl Summary {
    /// What happened in both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            decisions: self.decisions + other.decisions,
            allowed: self.allowed + other.allowed,
            denied: self.denied + other.denied,
            mistakes: self.mistakes + other.mistakes,
            refunds: self.refunds + other.refunds,
            idle_refunds: self.idle_refunds + other.idle_refunds,
            resets: self.resets + other.resets,
            transactions: self.transactions + other.transactions,
            changes: self.changes + other.changes,
            steps_back: self.steps_back + other.steps_back,
        }
    }

    fn count(&mut self, step: &Step, outcome: &Observed) {
        self.decisions += u64::from(!matches!(step, Step::Change { .. }));
        self.transactions += u64::from(matches!(step, Step::Transaction { .. }));
        let kind = match (step, outcome.answer().map(|answer| answer.allowed)) {
            (Step::Change { .. }, _) => &mut self.changes,
            (_, None) => &mut self.mistakes,
            (Step::Reset { .. }, _) => &mut self.resets,
            (Step::Refund { .. }, Some(true)) => &mut self.refunds,
            (Step::Refund { .. }, Some(false)) => &mut self.idle_refunds,
            (_, Some(true)) => &mut self.allowed,
            (_, Some(false)) => &mut self.denied,
        };
        *kind += 1;
    }
}

/// Runs `decisions` decisions over `buckets` buckets; stops at the first difference.
pub fn compare<S: Subject>(
    subject: &mut S,
    seed: u64,
    decisions: u64,
    buckets: usize,
) -> Result<Summary, Box<Mismatch>> {
    let mut run = Run::new(seed, buckets, S::accepts);
    while run.summary.decisions < decisions {
        run.step(subject)?;
    }
    Ok(run.summary)
}

struct Run {
    seed: u64,
    number: u64,
    last_at: u64,
    traffic: Traffic,
    oracle: Oracle,
    last: Option<Answer>,
    pasts: Vec<VecDeque<Past>>,
    summary: Summary,
}

impl Run {
    fn new(seed: u64, buckets: usize, accepts: fn(Terms) -> bool) -> Self {
        Self {
            seed,
            number: 0,
            last_at: 0,
            traffic: Traffic::new(seed, buckets, accepts),
            oracle: Oracle::default(),
            last: None,
            pasts: vec![VecDeque::with_capacity(PAST_MAX); buckets],
            summary: Summary::default(),
        }
    }

    fn step(&mut self, subject: &mut impl Subject) -> Result<(), Box<Mismatch>> {
        let (at, step) = self.traffic.next(self.last.as_ref());
        let expected = self.oracle.apply(&step, at);
        let observed = subject.apply(&step, at);
        if !expected.agrees_with(&observed) {
            return Err(Box::new(self.mismatch(at, step, expected, observed)));
        }
        self.last = expected.answer().copied();
        if self.number >= self.pasts.len() as u64 {
            self.summary.count(&step, &expected);
        }
        self.summary.steps_back += u64::from(at < self.last_at);
        self.last_at = at;
        self.remember(at, step, expected);
        self.number += 1;
        Ok(())
    }

    fn remember(&mut self, at: u64, step: Step, outcome: Observed) {
        let past = Past { number: self.number, at, step, outcome };
        let mut buckets = past.step.buckets();
        let first = buckets.next();
        for bucket in buckets {
            push(&mut self.pasts[bucket], past.clone());
        }
        if let Some(bucket) = first {
            push(&mut self.pasts[bucket], past);
        }
    }

    fn mismatch(&self, at: u64, step: Step, expected: Observed, observed: Observed) -> Mismatch {
        let story = |bucket: usize| Story {
            bucket,
            terms: self.oracle.buckets[bucket].terms(),
            past: self.pasts[bucket].iter().cloned().collect(),
        };
        let stories = step.buckets().map(story).collect();
        let (seed, number) = (self.seed, self.number);
        Mismatch { seed, number, at, step, stories, expected, observed }
    }
}

fn push(past: &mut VecDeque<Past>, step: Past) {
    if past.len() == PAST_MAX {
        past.pop_front();
    }
    past.push_back(step);
}
