//! `tollgate bench bucket-trial`: the trial of the token-bucket document, and its table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tollgate::{Clock, Nanos};

use crate::client::bucket::{Getter, Granted, Name};
use crate::client::{Failure, Server};
use crate::error::{Error, Exit};
use crate::output::{Output, say};

/// The columns of the document's table, each as wide as there.
const COLUMNS: [&str; 6] = ["name", "time", "granted", "rate", "goal", "dev %"];

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
    pub(crate) name: Name,
    pub(crate) rate: f64,
}

/// Tries one bucket after another, and prints a row for each.
pub(crate) fn run(trial: &Trial) -> Result<Exit, Error> {
    let mut output = Output::new();
    for (index, goal) in trial.goals.iter().enumerate() {
        let getters = trial.open(goal)?;
        if index == 0 {
            // Not earlier: a server that is not there is told before anything is promised.
            say(trial.announcement());
        }
        let row = trial.measure(goal, getters)?;
        if index == 0 {
            output.line(line(&COLUMNS.map(Into::into)))?;
            output.line(line(&COLUMNS.map(|_| "---".into())))?;
        }
        output.line(row)?;
        output.finish()?;
        if output.is_closed() {
            break;
        }
    }
    Ok(Exit::Allowed)
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
    fn open(&self, goal: &Goal) -> Result<Vec<Getter>, Failure> {
        (0..self.threads)
            .map(|_| Getter::open(&self.server, self.timeout, &goal.name, None))
            .collect()
    }

    /// Asks over all connections at the same time, and says what came of it as a row.
    fn measure(&self, goal: &Goal, getters: Vec<Getter>) -> Result<String, Failure> {
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
        Ok(row(goal, time, granted?))
    }

    /// How many tokens one thread was granted.
    fn ask(
        &self,
        goal: &Goal,
        getter: Getter,
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
        mut getter: Getter,
        bar: &ProgressBar,
        has_failed: &AtomicBool,
    ) -> Result<u64, Failure> {
        let mut granted = 0;
        for _ in 0..self.requests {
            let answer = getter.get()?;
            if let Some(failure) = getter.failure(answer, &goal.name) {
                return Err(failure);
            }
            granted += u64::from(answer == Granted::Token);
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

fn row(goal: &Goal, time: f64, granted: u64) -> String {
    let rate = as_f64(granted) / time;
    line(&[
        goal.name.as_str().to_owned(),
        format!("{time:.2}"),
        granted.to_string(),
        format!("{rate:.2}"),
        goal.rate.to_string(),
        format!("{:.2}", -(goal.rate - rate) / goal.rate * 100.0),
    ])
}

fn line(cells: &[String; 6]) -> String {
    let cells = cells.iter().map(|cell| format!(" {cell:>10} |"));
    std::iter::once("|".to_owned()).chain(cells).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a trial are far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
