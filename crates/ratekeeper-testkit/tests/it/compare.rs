//! The comparer passes a right subject and catches wrong ones.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper_testkit::compare::{Observed, Oracle, Subject, Summary, compare};
use ratekeeper_testkit::mismatch::Mismatch;
use ratekeeper_testkit::oracle::Answer;
use ratekeeper_testkit::terms::Terms;
use ratekeeper_testkit::traffic::Step;

const DECISIONS: u64 = 20_000;

/// What a wrong subject does wrongly; the rest it does rightly.
#[derive(Clone, Copy)]
enum Fault {
    None,
    TruncatesInterval,
    AdmitsOneMore,
    ForgetsOnChange,
    RoundsWaitDown,
    RefundsNothingAsOne,
}

struct Subtle {
    fault: Fault,
    oracle: Oracle,
}

impl Subtle {
    fn new(fault: Fault) -> Self {
        Self { fault, oracle: Oracle::default() }
    }

    fn change(&mut self, bucket: usize, terms: Terms, at: u64) -> Observed {
        let terms = match self.fault {
            Fault::TruncatesInterval => {
                Terms { count: 1, period_ns: terms.interval_ns_floor(), ..terms }
            }
            Fault::AdmitsOneMore => Terms { burst: terms.burst + 1, ..terms },
            _ => terms,
        };
        if matches!(self.fault, Fault::ForgetsOnChange) && self.oracle.bucket(bucket).is_some() {
            self.oracle.apply(&Step::Reset { bucket }, at);
        }
        self.oracle.apply(&Step::Change { bucket, terms }, at)
    }

    fn garble(&self, answer: Answer) -> Answer {
        match self.fault {
            Fault::AdmitsOneMore => {
                Answer { remaining: answer.remaining.saturating_sub(1), ..answer }
            }
            Fault::RoundsWaitDown => {
                Answer { retry_in: answer.retry_in - answer.retry_in % 2, ..answer }
            }
            _ => answer,
        }
    }
}

impl Subject for Subtle {
    fn apply(&mut self, step: &Step, at: u64) -> Observed {
        let observed = match *step {
            Step::Change { bucket, terms } => self.change(bucket, terms, at),
            Step::Refund { cost: 0, bucket }
                if matches!(self.fault, Fault::RefundsNothingAsOne) =>
            {
                self.oracle.apply(&Step::Refund { bucket, cost: 1 }, at)
            }
            _ => self.oracle.apply(step, at),
        };
        match observed {
            Observed::Answer(answer) => Observed::Answer(self.garble(answer)),
            other => other,
        }
    }
}

fn run(fault: Fault, seed: u64, buckets: usize) -> Result<Summary, Box<Mismatch>> {
    compare(&mut Subtle::new(fault), seed, DECISIONS, buckets)
}

fn is_caught(fault: Fault) {
    for seed in 0..20 {
        let mismatch = run(fault, seed, 3).unwrap_err();
        assert_eq!(run(fault, seed, 3).unwrap_err(), mismatch, "the same seed, the same report");
    }
}

#[test]
fn a_right_subject_passes_and_meets_every_kind_of_step() {
    for (seed, buckets) in [(1, 1), (2, 2), (3, 7), (4, 40)] {
        let summary =
            run(Fault::None, seed, buckets).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        assert_eq!(summary.decisions, DECISIONS);
        assert!(summary.allowed > DECISIONS / 4, "{summary:?}");
        assert!(summary.denied > DECISIONS / 10, "{summary:?}");
        let Summary { mistakes, refunds, idle_refunds, resets, transactions, .. } = summary;
        let others = [mistakes, refunds, idle_refunds, resets, transactions, summary.changes];
        assert!(others.into_iter().all(|n| n > DECISIONS / 200), "{summary:?}");
        assert!(summary.steps_back > DECISIONS / 200, "{summary:?}");
    }
}

#[test]
fn truncating_the_interval_to_whole_nanoseconds_is_caught() {
    is_caught(Fault::TruncatesInterval);
}

#[test]
fn admitting_one_more_than_the_burst_is_caught() {
    is_caught(Fault::AdmitsOneMore);
}

#[test]
fn forgetting_what_was_spent_on_a_change_is_caught() {
    is_caught(Fault::ForgetsOnChange);
}

#[test]
fn a_wait_one_nanosecond_short_is_caught() {
    is_caught(Fault::RoundsWaitDown);
}

#[test]
fn a_refund_of_nothing_that_gives_something_is_caught() {
    is_caught(Fault::RefundsNothingAsOne);
}

#[test]
fn a_mismatch_tells_the_seed_the_terms_and_the_past() {
    let mismatch = run(Fault::ForgetsOnChange, 5, 1).unwrap_err();
    let report = mismatch.to_string();
    let number = mismatch.number;
    assert!(report.starts_with(&format!("seed 5, step {number}, at ")), "{report}");
    for part in ["expected: ", "observed: ", "bucket 0 (burst ", "change bucket 0 to burst "] {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert!(mismatch.stories[0].past.len() <= 10);
}
