//! `cargo xtask oracle`: the limiter against the exact oracle.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::algorithm::gcra::Rule;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Decision, Limiter, Mistake, Moment, Nanos, Request};
use ratekeeper_testkit::compare::{Observed, Subject, Summary, compare};
use ratekeeper_testkit::oracle::{Answer, Mistake as OracleMistake};
use ratekeeper_testkit::terms::Terms;
use ratekeeper_testkit::traffic::Step;
use ratekeeper_testkit::transaction::{Mode as OracleMode, Verdict};

use crate::bench::Failure;

/// Decisions per seed: long enough for histories, short enough for many limits.
const DECISIONS_PER_SEED: u64 = 20_000;
/// Buckets that one seed's traffic is about.
const BUCKETS: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many random decisions to compare
    #[arg(long, default_value_t = 100_000_000)]
    decisions: u64,
    /// The first of the seeds that the traffic is made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Compares until all decisions agree or one does not, on all cores.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let seeds = args.decisions.div_ceil(DECISIONS_PER_SEED);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism()?.get();
    let summaries: Result<_, Failure> = std::thread::scope(|scope| {
        let work = || judge(args.seed, seeds, &next);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked")?).collect()
    });
    eprintln!();
    let summaries: Vec<Summary> = summaries?;
    let total = summaries.iter().fold(Summary::default(), |sum, each| sum.plus(each));
    println!("0 mismatches in {} decisions over {seeds} seeds: {total:?}", total.decisions);
    Ok(())
}

fn judge(first: u64, seeds: u64, next: &AtomicU64) -> Result<Summary, Failure> {
    let mut total = Summary::default();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= seeds {
            return Ok(total);
        }
        let outcome = compare(&mut Judged::new()?, first + index, DECISIONS_PER_SEED, BUCKETS);
        let summary = outcome.map_err(|mismatch| {
            next.store(seeds, Ordering::Relaxed);
            mismatch.to_string()
        })?;
        total = total.plus(&summary);
        if index.is_multiple_of(50) {
            eprint!("\r{index} of {seeds} seeds");
            std::io::stderr().flush()?;
        }
    }
}

/// The real limiter: even buckets are names of their own, odd ones overrides of a common name.
struct Judged {
    limiter: Limiter,
    terms: Vec<Terms>,
}

const SHARED: &str = "Shared";

impl Judged {
    fn new() -> Result<Self, Failure> {
        let secret = Secret::new(17, 42);
        let limiter = Limiter::with_secret(limits(&[])?, MEMORY_MIN, secret)?;
        Ok(Self { limiter, terms: Vec::new() })
    }

    fn change(&mut self, bucket: usize, terms: Terms, at: u64) -> Result<(), Failure> {
        match self.terms.get_mut(bucket) {
            Some(known) => *known = terms,
            None => self.terms.push(terms),
        }
        Ok(self.limiter.reload(limits(&self.terms)?, Moment::from_nanos(at))?)
    }

    fn transaction(&self, asks: &[(usize, u64, OracleMode)], at: Moment) -> Observed {
        let names: Vec<_> = asks.iter().map(|&(bucket, _, _)| name(bucket)).collect();
        let requests: Vec<_> = asks
            .iter()
            .zip(&names)
            .map(|(&(_, cost, ask), (limit, id))| {
                Request::new(limit, id, cost).with_mode(mode(ask))
            })
            .collect();
        match self.limiter.transaction(&requests, at) {
            Ok(merged) => Observed::Verdict(Verdict {
                merged: answer(&merged.decision),
                decided_by: merged.decided_by,
                own: merged.each.iter().map(answer).collect(),
            }),
            Err(mistake) => Observed::Mistake(blame(&mistake)),
        }
    }
}

fn limits(terms: &[Terms]) -> Result<Limits, Failure> {
    let mut defaults = format!("{SHARED}: {{burst: 1, count: 1, period: 1s}}\n");
    let mut overrides = format!("{SHARED}:nobody: {{burst: 1, count: 1, period: 1s}}\n");
    for (bucket, Terms { burst, count, period_ns }) in terms.iter().enumerate() {
        let (limit, id) = name(bucket);
        let body = format!("{{burst: {burst}, count: {count}, period: {period_ns}ns}}");
        if limit == SHARED {
            writeln!(overrides, "{limit}:{id}: {body}")?;
        } else {
            writeln!(defaults, "{limit}: {body}")?;
        }
    }
    let defaults = Source { name: "limits.yaml", text: &defaults };
    let overrides = Source { name: "overrides.yaml", text: &overrides };
    Ok(Limits::parse(&defaults, Some(&overrides))?)
}

fn name(bucket: usize) -> (String, String) {
    if bucket.is_multiple_of(2) {
        (format!("Own{bucket}"), "somebody".to_owned())
    } else {
        (SHARED.to_owned(), format!("id{bucket}"))
    }
}

impl Subject for Judged {
    fn accepts(terms: Terms) -> bool {
        Rule::new(terms.burst, terms.count, Nanos::new(terms.period_ns.into())).is_ok()
    }

    fn apply(&mut self, step: &Step, at: u64) -> Observed {
        let now = Moment::from_nanos(at);
        let limiter = &self.limiter;
        let outcome = match *step {
            Step::Spend { bucket, cost } => with(bucket, |l, id| limiter.spend(l, id, cost, now)),
            Step::Check { bucket, cost } => with(bucket, |l, id| limiter.check(l, id, cost, now)),
            Step::Refund { bucket, cost } => with(bucket, |l, id| limiter.refund(l, id, cost, now)),
            Step::Reset { bucket } => with(bucket, |l, id| limiter.reset(l, id, now)),
            Step::Transaction { ref asks } => return self.transaction(asks, now),
            Step::Change { bucket, terms } => {
                self.change(bucket, terms, at).expect("terms that were accepted can be loaded");
                return Observed::Changed;
            }
        };
        match outcome {
            Ok(decision) => Observed::Answer(answer(&decision)),
            Err(mistake) => Observed::Mistake(blame(&mistake)),
        }
    }
}

fn with<T>(bucket: usize, ask: impl FnOnce(&str, &str) -> T) -> T {
    let (limit, id) = name(bucket);
    ask(&limit, &id)
}

fn answer(decision: &Decision) -> Answer {
    Answer {
        allowed: decision.allowed,
        remaining: decision.remaining,
        retry_in: decision.retry_in.get(),
        reset_in: decision.reset_in.get(),
    }
}

fn mode(mode: OracleMode) -> ratekeeper::Mode {
    match mode {
        OracleMode::CheckAndSpend => ratekeeper::Mode::CheckAndSpend,
        OracleMode::CheckOnly => ratekeeper::Mode::CheckOnly,
        OracleMode::SpendOnly => ratekeeper::Mode::SpendOnly,
    }
}

fn blame(mistake: &Mistake) -> OracleMistake {
    match mistake {
        Mistake::CostAboveBurst { .. } => OracleMistake::CostAboveBurst,
        Mistake::SameBucketTwice { .. } => OracleMistake::SameBucketTwice,
        Mistake::NoAsks => OracleMistake::NoAsks,
        other => panic!("the traffic made a mistake that it does not make: {other}"),
    }
}

#[cfg(test)]
mod tests;
