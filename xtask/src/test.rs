//! `cargo xtask test`: the whole check, step by step, stopping at the first failure.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::process::{command, run as run_command, spelled};
use crate::{install, tidy};

/// One step of the check.
struct Step {
    name: &'static str,
    action: Action,
}

/// What a step does.
enum Action {
    /// Something this program does itself.
    Own(fn() -> Result<(), Error>),
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    /// `cargo doc` with these arguments, where a warning is an error.
    Docs(&'static [&'static str]),
}

use Action::{Cargo, Docs, Own};

/// What the tracker has for tasks and clients, which nothing of ours needs but its tests.
const TRACKER: &str =
    "ratekeeper-tracker/reqwest,ratekeeper-tracker/sharing,ratekeeper-tracker/tower";

/// The check: cheap steps first, so that a slip is reported early.
#[rustfmt::skip]
const STEPS: [Step; 9] = [
    Step { name: "install", action: Own(install::install) },
    Step { name: "format", action: Cargo(&["fmt", "--all", "--check"]) },
    Step { name: "clippy", action: Cargo(&[
        "clippy", "--workspace", "--features", TRACKER, "--all-targets", "--locked", "--", "-D", "warnings",
    ]) },
    Step { name: "clippy with features", action: Cargo(&[
        "clippy", "-p", "ratekeeper", "--features", "shuttle,conformance", "--all-targets", "--locked",
        "--", "-D", "warnings",
    ]) },
    Step { name: "test", action: Cargo(&[
        "test", "--workspace", "--exclude", "ratekeeper-tracker-guide", "--features", TRACKER, "--locked",
    ]) },
    // By itself: with the features of others its blocks would compile with less than the page lists.
    Step { name: "guide", action: Cargo(&["test", "-p", "ratekeeper-tracker-guide", "--locked"]) },
    Step { name: "shuttle", action: Cargo(&[
        "test", "-p", "ratekeeper", "--features", "shuttle", "--test", "shuttle", "--locked",
    ]) },
    Step { name: "docs", action: Docs(&[
        "doc", "--workspace", "--features", TRACKER, "--no-deps", "--locked",
    ]) },
    Step { name: "tidy", action: Own(tidy::run) },
];

/// Runs every step; refuses at the first that fails.
pub(crate) fn run() -> Result<(), Error> {
    let (count, mut total) = (STEPS.len(), Duration::ZERO);
    for (index, step) in STEPS.iter().enumerate() {
        eprintln!("[{}/{count}] {}", index + 1, step.title());
        let (outcome, took) = timed(|| step.run());
        total += took;
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        eprintln!("[{}/{count}] {}: {word} in {:.1} s", index + 1, step.name, took.as_secs_f64());
        outcome.map_err(|error| Error::Step { step: step.name, source: Box::new(error) })?;
    }
    eprintln!("all {count} steps passed in {:.0} s", total.as_secs_f64());
    Ok(())
}

impl Step {
    /// The step's name, and what one would type to run it alone.
    fn title(&self) -> String {
        match self.action {
            Own(_) => self.name.to_owned(),
            Cargo(args) | Docs(args) => {
                format!("{}: {}", self.name, spelled(&command("cargo", args)))
            }
        }
    }

    fn run(&self) -> Result<(), Error> {
        match self.action {
            Own(action) => action(),
            Cargo(args) => run_command(command("cargo", args)),
            Docs(args) => {
                let mut command = command("cargo", args);
                command.env("RUSTDOCFLAGS", "-D warnings");
                run_command(command)
            }
        }
    }
}

/// Does `work`, and says how long it took.
#[expect(clippy::disallowed_methods, reason = "a step's duration is for people, not for decisions")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
