//! The arguments as they are typed, and the commands they stand for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use ratekeeper_bench::RawBench;
use ratekeeper_console::Format;

use crate::ask::args::{ASK_HELP, RawAnswerer, RawAsk, RawOp, RawWhom};
use crate::ask::{self, Ask};
use crate::check::{self, Check};
use crate::error::{Error, Exit};
use crate::error_output;
use crate::files::Files;
use crate::overrides::args::OVERRIDE_HELP;
use crate::overrides::{self, Override};
use crate::replay::args::{REPLAY_HELP, RawReplay};
use crate::replay::{self, Replay};
use crate::serve::{self, Serve};
use crate::source::Source;
use crate::state::args::STATE_HELP;
use crate::state::{self, State};
use crate::stats;
use crate::top;

const ABOUT: &str =
    "An exact rate limiter: serve limits, ask, change and watch them, check files, replay traffic";

const MAIN_HELP: &str = "\
EXAMPLES
  ratekeeper serve
      answer on every door of this machine, with limits to try
  ratekeeper ask LoginsPerUser ada
      ask it: may ada log in once more?
  ratekeeper ask offline LoginsPerUser ada --times 7 --every 10s
      try limits without a server, and without waiting
  ratekeeper top
      watch what it decides
  ratekeeper check --limits limits.yaml --overrides overrides.yaml
      find every mistake in the files before a server reads them
  ratekeeper replay limits --limits limits.yaml < asks.jsonl
      decide recorded asks, each at the time it says

EXIT CODES
  0  fine, or allowed
  1  denied
  2  the arguments, the files or the ask are wrong
  3  a server was not reached, or did not answer
  4  a server was measured, and certainly decided wrongly";

const SERVE_HELP: &str = "\
Without arguments every door is open on loopback, with limits, rules and buckets to try; each door
is told on standard output as one line, such as `listening udp 127.0.0.1:2000`. Port 0 is any free
port.

Every option can also stand in the settings file and in the environment: --udp-allow is
RATEKEEPER_UDP_ALLOW there. `ratekeeper config` prints all of them, with their defaults.

EXAMPLES
  ratekeeper serve --limits limits.yaml --state /var/lib/ratekeeper
  ratekeeper serve --udp 10.0.0.5:2000 --udp-allow 10.0.0.0/8 --rules rules.yaml --bucket off
  ratekeeper config > ratekeeper.yaml && ratekeeper serve --config ratekeeper.yaml

SIGNALS
  HUP        read the files again; what was spent stays spent
  TERM, INT  answer what was received, save, and stop
  USR1       write the counters to the log";

const STATS_HELP: &str = "\
They are read from the control socket, or with --url over HTTP.";

const STATS_URL_HELP: &str = "Read them over HTTP, from the server at this address";

const TOP_CONTROL_HELP: &str =
    "Read this socket, not HTTP [if HTTP fails: the one that a server has]";

const TOP_HELP: &str = "\
The counters come over HTTP, from --url or where a server usually is. With --control, or if nobody
answers where a server usually is, they are read from the control socket. A token needs the role
`read`.

KEYS
  q            quit
  up, down     move, also with k and j
  Tab          to the next box
  /            show only limits whose name has this in it
  ?            help

EXIT CODES
  0  it was quit, or printed
  2  the arguments are wrong, or the token is
  3  no server was reached";

const CHECK_HELP: &str = "\
Prints each limit with its number in bucket keys, the format of its ids, what it allows, and how
many overrides it has. With --against it prints what would change instead, in effect: a period of
60m that was 1h is no change. Overrides are taken to stay as they are, unless --against-overrides
says which are in force; they are told where their own effect changes.

EXAMPLES
  ratekeeper check --limits limits.yaml --overrides overrides.yaml
  ratekeeper check --limits limits.yaml --buckets buckets.conf --rules rules.yaml
      all that a server reads; a rule may use a limit or a bucket
  ratekeeper check --limits new.yaml --against limits.yaml
      what a reload would change, and for whom
  ratekeeper check --limits new.yaml --overrides new-o.yaml --against limits.yaml \\
    --against-overrides overrides.yaml
  ratekeeper check limits.yaml --format json
      one object: `limits` as in `/v1/limits`, `overrides`, `hints` and `changes`; or `faults`

EXIT CODES
  0  the files are good
  2  they are not, or cannot be read";

#[derive(Debug, Parser)]
#[command(name = "ratekeeper", version, about = ABOUT, after_help = MAIN_HELP)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, max_term_width = 100)]
struct Raw {
    #[command(subcommand)]
    command: RawCommand,
}

#[derive(Debug, Subcommand)]
enum RawCommand {
    /// Answer clients: over HTTP, those of Redis, and as the UDP rate limiter, the token-bucket server
    /// and Throttr
    #[command(after_help = SERVE_HELP)]
    Serve(Serve),
    /// Print the settings file that says what is built in: every setting, explained
    Config,
    /// Print the counters of a running server
    #[command(after_help = STATS_HELP, mut_arg("url", |arg| arg.help(STATS_URL_HELP)))]
    Stats {
        #[command(flatten)]
        source: Box<Source>,
        /// How to print them
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Show what a running server decides, as it happens
    #[command(after_help = TOP_HELP, mut_arg("control", |arg| arg.help(TOP_CONTROL_HELP)))]
    Top {
        #[command(flatten)]
        source: Box<Source>,
        /// Print one frame as text, and end
        #[arg(long)]
        once: bool,
    },
    /// Find every mistake in limits, buckets and rules files, or say what limits change
    #[command(after_help = CHECK_HELP)]
    Check(RawCheck),
    /// Decide recorded traffic in virtual time
    #[command(after_help = REPLAY_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Replay {
        #[command(subcommand)]
        what: RawReplay,
    },
    /// Ask a server whether an id may do one more; or try limits without a server
    #[command(after_help = ASK_HELP, disable_help_subcommand = true)]
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Ask {
        #[command(subcommand)]
        whom: Option<RawWhom>,
        #[command(flatten)]
        ask: Option<RawAsk>,
        // Beside the others and not in them: clap would not see that they are there.
        #[command(flatten)]
        op: RawOp,
        #[command(flatten)]
        answerer: RawAnswerer,
    },
    /// Change what a server allows to some, while it runs
    #[command(after_help = OVERRIDE_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Override {
        #[command(subcommand)]
        what: Override,
    },
    /// Move what was spent, from one place to another
    #[command(after_help = STATE_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    State {
        #[command(subcommand)]
        what: State,
    },
    /// Measure a server
    Bench(RawBench),
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

/// What stands for the limits file of `check`, with or without a flag.
const LIMITS: &str = "limits_file";

#[derive(Debug, Args)]
struct RawCheck {
    /// The limits file, as with --limits
    #[arg(value_name = "LIMITS", group = LIMITS)]
    file: Option<PathBuf>,
    /// The file that says what each limit allows
    #[arg(long, value_name = "FILE", group = LIMITS)]
    #[arg(required_unless_present_any = ["file", "buckets", "rules"])]
    limits: Option<PathBuf>,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE", requires = LIMITS)]
    overrides: Option<PathBuf>,
    /// A buckets file of the token-bucket server
    #[arg(long, value_name = "FILE")]
    buckets: Option<PathBuf>,
    /// A rules file of the UDP rate limiter
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Say what would change if these limits were the ones in force
    #[arg(long, value_name = "OLD_LIMITS", requires = LIMITS)]
    against: Option<PathBuf>,
    /// The overrides in force [default: those of --overrides]
    #[arg(long, value_name = "OLD_OVERRIDES", requires = "against")]
    against_overrides: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Every variable of the environment that some command reads.
pub(crate) fn variables() -> Vec<String> {
    let mut commands = vec![Raw::command()];
    let mut names = Vec::new();
    while let Some(command) = commands.pop() {
        let variables = command.get_arguments().filter_map(clap::Arg::get_env);
        names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        commands.extend(command.get_subcommands().cloned());
    }
    names.sort();
    names.dedup();
    names
}

/// Whether there is a command of these words, of which the second may be an argument.
#[cfg(test)]
fn is_command(words: &[&str]) -> bool {
    let raw = Raw::command();
    let Some((first, rest)) = words.split_first() else { return true };
    let Some(command) = raw.find_subcommand(first) else { return false };
    let takes_words = command.get_positionals().next().is_some();
    match rest.first() {
        Some(second) if command.has_subcommands() && !takes_words => {
            command.find_subcommand(second).is_some()
        }
        _ => true,
    }
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Serve),
    Config,
    Stats(Box<Source>, Format),
    Top(Box<Source>, bool),
    Check(Check),
    Replay(Replay),
    Ask(Ask),
    Override(Override),
    State(State),
    Bench(RawBench),
}

impl Command {
    /// The command that the arguments of this process say. `Err` is also what asks for help.
    pub(crate) fn parse() -> Result<Self, clap::Error> {
        Raw::try_parse().map(|raw| raw.command.into())
    }

    /// Does it, and says how the process ends. What goes wrong is told in words, and to a program
    /// that reads JSON as JSON too.
    pub(crate) fn run(self) -> ExitCode {
        self.try_run().unwrap_or_else(|error| {
            if error_output::is_for_programs() {
                error_output::print_error(&error.with_causes(), error.exit());
            }
            error.report()
        })
    }

    fn try_run(self) -> Result<ExitCode, Error> {
        let exit = match self {
            Self::Serve(arguments) => serve::serve(&arguments),
            Self::Config => serve::config(),
            Self::Stats(source, format) => stats::run(&source, format),
            Self::Top(source, is_once) => top::run(&source, is_once),
            Self::Check(check) => check::run(&check),
            Self::Replay(replay) => replay::run(&replay),
            Self::Ask(ask) => ask::run(&ask),
            Self::Override(over) => overrides::run(&over),
            Self::State(state) => state::run(&state),
            Self::Bench(raw) => ratekeeper_bench::run(raw).map(Exit::from).map_err(Error::from),
        };
        exit.map(Into::into)
    }
}

impl From<RawCommand> for Command {
    fn from(raw: RawCommand) -> Self {
        match raw {
            RawCommand::Serve(arguments) => Self::Serve(arguments),
            RawCommand::Config => Self::Config,
            RawCommand::Stats { source, format } => Self::Stats(source, format),
            RawCommand::Top { source, once } => Self::Top(source, once),
            RawCommand::Check(raw) => Self::Check(raw.into()),
            RawCommand::Replay { what } => Self::Replay(what.into()),
            RawCommand::Ask { whom: Some(RawWhom::Offline(raw)), .. } => {
                Self::Ask(Ask::Offline(raw.into()))
            }
            RawCommand::Ask { whom: Some(RawWhom::Door(raw)), .. } => {
                Self::Ask(Ask::Door(raw.into()))
            }
            RawCommand::Ask { whom: None, ask: Some(raw), op, answerer } => {
                Self::Ask(raw.of(answerer, &op))
            }
            RawCommand::Ask { whom: None, ask: None, .. } => {
                unreachable!("LIMIT is required where there is no command")
            }
            RawCommand::Override { what } => Self::Override(what),
            RawCommand::State { what } => Self::State(what),
            RawCommand::Bench(raw) => Self::Bench(raw),
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
        let overrides = raw.overrides;
        Self {
            files: raw.limits.or(raw.file).map(|limits| Files { limits, overrides }),
            buckets: raw.buckets,
            rules: raw.rules,
            against,
            format: raw.format,
        }
    }
}

#[cfg(test)]
mod tests;
