//! The arguments as they are typed, and the commands they stand for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollgate::Nanos;
use tollgate::limits::parse_duration;

use crate::ask::{self, Ask};
use crate::bench::args::{BENCH_HELP, RawBench};
use crate::bench::{self, Trial};
use crate::check::{self, Check};
use crate::client::args::RawClient;
use crate::client::{self, Client};
use crate::error::Error;
use crate::files::Files;
use crate::replay::args::{REPLAY_HELP, RawReplay};
use crate::replay::{self, Replay};

const ABOUT: &str = "An exact rate limiter: check limits files, try them, replay traffic";

const MAIN_HELP: &str = "\
EXAMPLES
  tollgate ask NewOrdersPerAccount 12345678
      try the limits that come with the program
  tollgate check --limits limits.yaml --overrides overrides.yaml
      find every mistake in the files before a server reads them
  tollgate replay limits --limits limits.yaml < asks.jsonl
      decide recorded asks, each at the time it says

EXIT CODES
  0  fine, or allowed
  1  denied
  2  the arguments, the files or the ask are wrong
  3  a server was not reached, or did not answer";

const CHECK_HELP: &str = "\
Prints each limit with its number in bucket keys, the format of its ids, what it allows, and how
many overrides it has. With --against it prints what would change instead, in effect: a period of
60m that was 1h is no change. Overrides are taken to stay as they are, unless --against-overrides
says which are in force; they are told where their own effect changes.

EXAMPLES
  tollgate check --limits limits.yaml --overrides overrides.yaml
  tollgate check --limits new.yaml --against limits.yaml
      what a reload would change, and for whom
  tollgate check --limits new.yaml --overrides new-o.yaml --against limits.yaml \\
    --against-overrides overrides.yaml
  tollgate check --limits limits.yaml --format json
      one object: `limits`, `overrides`, `hints` and `changes`; or `faults`

EXIT CODES
  0  the files are good
  2  they are not, or cannot be read";

const ASK_HELP: &str = "\
Without one of the commands nothing is asked of a server: the buckets begin full, time begins at 0
and passes only by --every. A limit with the name of a command is asked behind `--`.

EXAMPLES
  tollgate ask NewOrdersPerAccount 12345678 --times 301
      use up the burst; the last ask says how long to wait
  tollgate ask --limits limits.yaml LoginsPerUser ada --times 20 --every 10s
      does one login every ten seconds get through?
  tollgate ask --limits limits.yaml LoginsPerUser ada --explain
      which limit applies, where it is written, and the arithmetic
  tollgate ask udp over_limit ws ip=74.11.99.155
      ask a server; see `tollgate ask udp --help`

EXIT CODES
  0  the last ask was allowed
  1  the last ask was denied
  2  the arguments, the files or the ask are wrong
  3  a server was not reached, or did not answer";

#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about = ABOUT, after_help = MAIN_HELP)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, max_term_width = 100)]
struct Raw {
    #[command(subcommand)]
    command: RawCommand,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is only one, and not for long")]
enum RawCommand {
    /// Find every mistake in limits files, or say what they change
    #[command(after_help = CHECK_HELP)]
    Check(RawCheck),
    /// Decide recorded traffic in virtual time
    #[command(after_help = REPLAY_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Replay {
        #[command(subcommand)]
        what: RawReplay,
    },
    /// Try limits by hand, without a server; or ask a server
    #[command(after_help = ASK_HELP, disable_help_subcommand = true)]
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Ask {
        #[command(subcommand)]
        client: Option<RawClient>,
        #[command(flatten)]
        offline: Option<RawAsk>,
    },
    /// Measure a server
    #[command(after_help = BENCH_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Bench {
        #[command(subcommand)]
        what: RawBench,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RawFiles {
    /// The file that says what each limit allows
    #[arg(long, value_name = "FILE")]
    limits: PathBuf,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RawCheck {
    #[command(flatten)]
    files: RawFiles,
    /// Say what would change if these limits were the ones in force
    #[arg(long, value_name = "OLD_LIMITS")]
    against: Option<PathBuf>,
    /// The overrides in force [default: those of --overrides]
    #[arg(long, value_name = "OLD_OVERRIDES", requires = "against")]
    against_overrides: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct RawAsk {
    /// The name of the limit, such as `NewOrdersPerAccount`
    #[arg(value_name = "LIMIT")]
    limit: String,
    /// Whom it counts for, such as 12345678
    #[arg(value_name = "ID")]
    id: String,
    /// The file that says what each limit allows [default: the starter limits]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE", requires = "limits")]
    overrides: Option<PathBuf>,
    /// How many tokens each ask takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
    /// How many times to ask
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=ask::TIMES_MAX))]
    times: u64,
    /// How much time passes between two asks, such as 10s [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    every: Option<Nanos>,
    /// Say which limit applies and why, and the arithmetic of one more ask
    #[arg(long)]
    explain: bool,
    /// How to print the answers
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// For whom the output is: people or programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // Not documented each: the words say it, and the help stays on one line per option.
    #[default]
    Text,
    Json,
}

/// The length of time that is typed. Refuses what is no duration, with advice.
pub(crate) fn parse_length(text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(|error| format!("it {error}: write it like 10s, 1.5h or 1h30m"))
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    Check(Check),
    Replay(Replay),
    Ask(Ask),
    Client(Client),
    Bench(Trial),
}

impl Command {
    /// The command that the arguments of this process say. `Err` is also what asks for help.
    pub(crate) fn parse() -> Result<Self, clap::Error> {
        Raw::try_parse().map(|raw| raw.command.into())
    }

    /// Does it, and says how the process ends.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let exit = match self {
            Self::Check(check) => check::run(&check),
            Self::Replay(replay) => replay::run(&replay),
            Self::Ask(ask) => ask::run(&ask),
            Self::Client(client) => client::run(&client),
            Self::Bench(trial) => bench::run(&trial),
        };
        exit.map(Into::into)
    }
}

impl From<RawCommand> for Command {
    fn from(raw: RawCommand) -> Self {
        match raw {
            RawCommand::Check(raw) => Self::Check(raw.into()),
            RawCommand::Replay { what } => Self::Replay(what.into()),
            RawCommand::Ask { client: Some(raw), .. } => Self::Client(raw.into()),
            RawCommand::Ask { client: None, offline: Some(raw) } => Self::Ask(raw.into()),
            RawCommand::Ask { client: None, offline: None } => {
                unreachable!("LIMIT is required where there is no command")
            }
            RawCommand::Bench { what } => Self::Bench(what.into()),
        }
    }
}

impl From<RawFiles> for Files {
    fn from(RawFiles { limits, overrides }: RawFiles) -> Self {
        Self { limits, overrides }
    }
}

impl From<RawCheck> for Check {
    fn from(raw: RawCheck) -> Self {
        let overrides = raw.against_overrides;
        let against = raw.against.map(|limits| Files { limits, overrides });
        Self { files: raw.files.into(), against, format: raw.format }
    }
}

impl From<RawAsk> for Ask {
    fn from(raw: RawAsk) -> Self {
        let overrides = raw.overrides;
        Self {
            files: raw.limits.map(|limits| Files { limits, overrides }),
            limit: raw.limit,
            id: raw.id,
            cost: raw.cost,
            times: raw.times,
            every: raw.every.unwrap_or_default(),
            explain: raw.explain,
            format: raw.format,
        }
    }
}
