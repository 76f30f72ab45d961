//! What can go wrong, and what the process says and returns then.

use std::io;
use std::process::ExitCode;

use ratekeeper::limits::Faults;
use ratekeeper_bench::{BenchEnd, BenchError};
use ratekeeper_client::Failure;
use ratekeeper_client::http::HttpError;
use ratekeeper_console::{OutputError, say};
use ratekeeper_server::settings::ValueError;
use ratekeeper_server::state_transfer::TransferError;
use ratekeeper_server::{LoadError, ReadError, RunError, StartError, StatsError, with_causes};

use crate::replay::BadRow;

/// How a command ended. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well, or the ask was allowed.
    Allowed = 0,
    /// The ask was denied.
    Denied = 1,
    /// The arguments, the files or the ask are wrong.
    Mistake = 2,
    /// A server was not reached, or did not answer.
    Unreachable = 3,
    /// A server answered what cannot be right.
    Wrong = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<BenchEnd> for Exit {
    fn from(end: BenchEnd) -> Self {
        match end {
            BenchEnd::Measured => Self::Allowed,
            BenchEnd::WrongDecisions => Self::Wrong,
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Read(ReadError),
    #[error("{faults}")]
    Faults { faults: Faults, is_old: bool },
    #[error(transparent)]
    Ask(#[from] ratekeeper::Mistake),
    #[error("{times} asks {every} apart take longer than time lasts (292 years): use fewer")]
    TooLate { times: u64, every: ratekeeper::Nanos },
    #[error(transparent)]
    Client(#[from] Failure),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("standard output is no terminal: use --once for one frame as text")]
    NoTerminal,
    #[error("using the terminal")]
    Terminal(#[source] io::Error),
    #[error("reading the overrides from {file}")]
    Document { file: String, source: serde_json::Error },
    #[error("nobody says why for {place}: write a comment there, or use --why TEXT")]
    NoWhy { place: String },
    #[error("{name} is `{text}`")]
    Setting { name: String, text: String, source: ValueError },
    #[error(
        "no setting is called `{name}`{}",
        nearest.as_ref().map_or_else(
            || ": unset it, or see `ratekeeper config`".to_owned(),
            |nearest| format!(": did you mean `{nearest}`?")
        )
    )]
    Variable { name: String, nearest: Option<String> },
    #[error(transparent)]
    Serve(#[from] RunError),
    #[error(transparent)]
    Stats(#[from] StatsError),
    #[error(transparent)]
    Move(#[from] TransferError),
    #[error("--store is `memory`, which nobody else can read: use --state DIR of a stopped server")]
    NoStore,
    #[error("line {number} of {file}: {why}")]
    Line { number: u64, file: String, why: String },
    #[error("reserving memory for the buckets")]
    Memory(#[source] io::Error),
    #[error("replacing the limits")]
    Reload(#[from] ratekeeper::algorithm::book::BookFull),
    #[error("line {number} of standard input: {bad}")]
    Row { number: u64, bad: BadRow },
    #[error("reading standard input")]
    Input(#[source] io::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A file that is no text has a fault, like one whose text is wrong.
impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotText(faults) => Self::Faults { faults, is_old: false },
            error => Self::Read(error),
        }
    }
}

impl Error {
    /// Tells it to whoever is there, and says what the process returns then.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            // Each begins with where it is, so that an editor can go there.
            Self::Faults { faults, is_old } => tell(faults, *is_old),
            Self::Serve(RunError::Start(StartError::Load(LoadError::Faults(faults))))
            | Self::Bench(BenchError::Faults(faults)) => tell(faults, false),
            other => say(format_args!("error: {}", other.with_causes())),
        }
        self.exit().into()
    }

    /// What the process returns then.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Client(failure) if failure.is_unreachable() => Exit::Unreachable,
            Self::Bench(error) if error.is_unreachable() => Exit::Unreachable,
            Self::Http(error) if error.is_unreachable() => Exit::Unreachable,
            Self::Move(error) if error.is_unreachable() => Exit::Unreachable,
            Self::Stats(StatsError::Unreachable { .. }) => Exit::Unreachable,
            _ => Exit::Mistake,
        }
    }

    /// What was being done, and why it failed, in one text.
    pub(crate) fn with_causes(&self) -> String {
        // A mistake tells its own cause in its own sentence.
        if matches!(self, Self::Ask(_)) { self.to_string() } else { with_causes(self) }
    }
}

fn tell(faults: &Faults, is_old: bool) {
    say(format_args!("{faults}\n\nerror: {}", mend(faults, is_old)));
}

fn mend(faults: &Faults, is_old: bool) -> String {
    let count = faults.iter().len() + faults.untold();
    let noun = if count == 1 { "fault" } else { "faults" };
    if is_old {
        let help = "compare with files that work (--against-overrides if the overrides differ)";
        format!("{count} {noun} in the old limits (--against): {help}")
    } else {
        format!("{count} {noun}: mend the files and try again")
    }
}
