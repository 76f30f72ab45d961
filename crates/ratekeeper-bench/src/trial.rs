//! `ratekeeper bench bucket-trial`: the trial of the token-bucket document, and its table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ratekeeper::{Clock, Nanos};
use ratekeeper_client::bucket::{BucketAnswer, BucketClient, BucketName};
use ratekeeper_client::{Failure, Server};
use ratekeeper_console::{Output, say};

use super::deviation::{COLUMNS, Row, WIDTH, as_f64, head, line};
use crate::error::BenchError;

/// The columns of the second table: what was granted beyond the fill that was there at the start.
const REFILL_COLUMNS: [&str; 6] = ["name", "granted", "fill", "refill", "exact", "dev %"];

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) server: Server,
    pub(crate) timeout: Nanos,
    pub(crate) threads: u64,
    /// How often each thread asks.
    pub(crate) requests: u64,
    /// How long each thread sleeps between two asks.
    pub(crate) sleep: Nanos,
    pub(crate) goals: Vec<Goal>,
}

/// A bucket, and how many tokens per second it should grant.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) name: BucketName,
    pub(crate) rate: f64,
    /// How many tokens it holds when the trial begins.
    pub(crate) fill: u64,
}

/// What came of one bucket.
struct Tried<'a> {
    goal: &'a Goal,
    /// How long it took, in seconds.
    time: f64,
    /// How often it was asked for a token, and how often there was one.
    asked: u64,
    granted: u64,
}

/// Tries one bucket after another, and prints a row for each; then the rows without their fills.
pub(crate) fn run(trial: &Trial) -> Result<(), BenchError> {
    let mut output = Output::stdout();
    let mut rows = Vec::new();
    for (index, goal) in trial.goals.iter().enumerate() {
        let getters = trial.open(goal)?;
        if index == 0 {
            // Not earlier: a server that is not there is told before anything is promised.
            say(trial.announcement());
        }
        let row = trial.measure(goal, getters)?;
        if index == 0 {
            head(&COLUMNS, WIDTH).into_iter().try_for_each(|line| output.line(line))?;
        }
        output.line(row.in_the_document())?;
        output.finish()?;
        if output.is_closed() {
            return Ok(());
        }
        rows.push(row);
    }
    output.line("")?;
    head(&REFILL_COLUMNS, WIDTH).into_iter().try_for_each(|line| output.line(line))?;
    rows.iter().try_for_each(|row| output.line(row.without_fill()))?;
    output.finish()?;
    Ok(())
}

impl Trial {
    /// What is about to happen, in the words of the document, and how long it takes.
    fn announcement(&self) -> String {
        let Self { threads, requests, .. } = self;
        let sleep = Duration::from(self.sleep);
        let (each, count) = (sleep.as_secs_f64() * as_f64(*requests), self.goals.len());
        let all = each * as_f64(u64::try_from(count).unwrap_or(u64::MAX));
        format!(
            "Trial run with {threads} threads doing {requests} requests each and a {} sleep \
             interval.\n{count} buckets at {}, one after another: it takes {all:.0} s and what the \
             answers take.",
            sleep.as_secs_f64(),
            self.server,
        )
    }

    /// One connection for each thread.
    fn open(&self, goal: &Goal) -> Result<Vec<BucketClient>, Failure> {
        (0..self.threads)
            .map(|_| BucketClient::open(&self.server, self.timeout, &goal.name, None))
            .collect()
    }

    /// Asks over all connections at the same time, and says what came of it.
    fn measure<'a>(
        &self,
        goal: &'a Goal,
        getters: Vec<BucketClient>,
    ) -> Result<Tried<'a>, Failure> {
        let bar = progress(goal, self.threads * self.requests);
        let has_failed = AtomicBool::new(false);
        let clock = Clock::start();
        let start = clock.now();
        let granted = thread::scope(|scope| {
            let threads: Vec<_> = getters
                .into_iter()
                .map(|getter| scope.spawn(|| self.ask(goal, getter, &bar, &has_failed)))
                .collect();
            let counts = threads.into_iter().map(|thread| match thread.join() {
                Ok(count) => count,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            counts.sum::<Result<u64, Failure>>()
        });
        let time = Duration::from(clock.now().since(start)).as_secs_f64();
        bar.finish_and_clear();
        Ok(Tried { goal, time, asked: self.threads * self.requests, granted: granted? })
    }

    /// How many tokens one thread was granted.
    fn ask(
        &self,
        goal: &Goal,
        getter: BucketClient,
        bar: &ProgressBar,
        has_failed: &AtomicBool,
    ) -> Result<u64, Failure> {
        let count = self.ask_all(goal, getter, bar, has_failed);
        if count.is_err() {
            has_failed.store(true, Ordering::Relaxed);
        }
        count
    }

    #[expect(clippy::disallowed_methods, reason = "a sleep between requests is what the trial is")]
    fn ask_all(
        &self,
        goal: &Goal,
        mut getter: BucketClient,
        bar: &ProgressBar,
        has_failed: &AtomicBool,
    ) -> Result<u64, Failure> {
        let mut granted = 0;
        for _ in 0..self.requests {
            let answer = getter.get()?;
            if let Some(failure) = getter.failure(answer, &goal.name) {
                return Err(failure);
            }
            granted += u64::from(answer == BucketAnswer::Token);
            bar.inc(1);
            // Where one thread cannot go on, the row is lost.
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            if !self.sleep.is_zero() {
                thread::sleep(self.sleep.into());
            }
        }
        Ok(granted)
    }
}

/// Draws nothing where standard error is not a terminal.
fn progress(goal: &Goal, requests: u64) -> ProgressBar {
    let template = "{prefix:>10} [{wide_bar}] {pos}/{len} {eta} to go";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(requests).with_style(style).with_prefix(goal.name.as_str().to_owned())
}

impl Tried<'_> {
    fn in_the_document(&self) -> String {
        let Self { goal, time, granted, .. } = *self;
        Row { name: goal.name.as_str(), time, granted, goal: goal.rate }.line(WIDTH)
    }

    /// Compares the tokens that came back during the run with the whole tokens that should have. Neither
    /// counts more than was asked for: a bucket that was never empty says nothing about its rate.
    fn without_fill(&self) -> String {
        let Self { goal, time, asked, granted } = self;
        let fill = goal.fill.min(*asked);
        let refill = as_f64(*granted) - as_f64(fill);
        let exact = (goal.rate * time).floor().min(as_f64(*asked - fill));
        let cells = [
            goal.name.as_str().to_owned(),
            granted.to_string(),
            fill.to_string(),
            refill.to_string(),
            exact.to_string(),
            deviation(refill, exact),
        ];
        line(&cells, WIDTH)
    }
}

/// In percent. Nothing can be told where no token comes back.
fn deviation(refill: f64, exact: f64) -> String {
    if exact <= 0.0 {
        return "-".to_owned();
    }
    let percent = (refill - exact) / exact * 100.0;
    // Not `-0.00`.
    let percent = (percent * 100.0).round() / 100.0 + 0.0;
    format!("{percent:.2}")
}

#[cfg(test)]
mod tests;
