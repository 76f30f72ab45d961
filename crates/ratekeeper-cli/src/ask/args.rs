//! The arguments of `ratekeeper ask` as they are typed.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use ratekeeper::Nanos;
use ratekeeper_client::http::RawPlace;
use ratekeeper_console::{Format, parse_length};

use super::doors::args::RawDoorAsk;
use super::offline::Offline;
use super::server::{Op, ServerAsk};
use super::{Ask, TIMES_MAX};
use crate::files::Files;

pub(crate) const ASK_HELP: &str = "\
Without one of the commands a server is asked over HTTP, and what it allows is spent there. With
--limits there is no server: buckets begin full, and time passes only by --every, as with `offline`.
A limit with the name of a command is asked behind `--`.

EXAMPLES
  ratekeeper ask LoginsPerUser ada
  ratekeeper ask LoginsPerUser ada --times 6
      use up the burst; the last ask says how long to wait
  ratekeeper ask LoginsPerUser ada --check --explain
      spend nothing; which limit applies, where it is written, and the arithmetic
  RATEKEEPER_TOKEN=.. ratekeeper ask --url https://limits.example LoginsPerUser ada
  ratekeeper ask --limits limits.yaml LoginsPerUser ada --times 20 --every 10s
      no server: does one login every ten seconds get through?
  ratekeeper ask udp over_limit ws ip=74.11.99.155
      ask through another door; see `ratekeeper ask udp --help`

EXIT CODES
  0  the last ask was allowed
  1  the last ask was denied, or there was nothing to give back
  2  the arguments, the files or the ask are wrong
  3  a server was not reached, or did not answer";

const OFFLINE_HELP: &str = "\
Nothing is asked of a server: the buckets begin full, time begins at 0 and passes only by --every.

EXAMPLES
  ratekeeper ask offline NewOrdersPerAccount 12345678 --times 301
      use up the burst; the last ask says how long to wait
  ratekeeper ask offline --limits limits.yaml LoginsPerUser ada --times 20 --every 10s
      does one login every ten seconds get through?
  ratekeeper ask offline --limits limits.yaml LoginsPerUser ada --explain
      which limit applies, where it is written, and the arithmetic

EXIT CODES
  0  the last ask was allowed
  1  the last ask was denied
  2  the arguments, the files or the ask are wrong";

#[derive(Debug, Subcommand)]
pub(crate) enum RawWhom {
    /// Try limits by hand, without a server, in virtual time
    #[command(after_help = OFFLINE_HELP)]
    Offline(RawOffline),
    #[command(flatten)]
    Door(RawDoorAsk),
}

/// What is asked, of whomever.
#[derive(Debug, Args)]
pub(crate) struct RawAsk {
    /// The name of the limit, such as `LoginsPerUser`
    #[arg(value_name = "LIMIT")]
    limit: String,
    /// Whom it counts for, such as ada
    #[arg(value_name = "ID")]
    id: String,
    /// How many tokens each ask takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = parse_cost, allow_negative_numbers = true)]
    cost: u64,
    /// How many times to ask
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=TIMES_MAX))]
    times: u64,
    /// Say which limit applies and why, and the arithmetic of one more ask
    #[arg(long)]
    explain: bool,
    /// How to print the answers
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn parse_cost(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| match text.strip_prefix('-') {
        Some(tokens) if tokens.parse::<u64>().is_ok() => {
            format!("it cannot be below 0: `--refund --cost {tokens}` gives tokens back")
        }
        _ => "it is a whole number of tokens, such as 1".to_owned(),
    })
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct RawOp {
    /// Only ask what would be answered, and spend nothing
    #[arg(long)]
    check: bool,
    /// Give tokens back instead
    #[arg(long)]
    refund: bool,
    /// Fill the bucket instead
    #[arg(long, conflicts_with_all = ["cost", "times"])]
    reset: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RawOffline {
    #[command(flatten)]
    ask: RawAsk,
    #[command(flatten)]
    trial: RawTrial,
}

/// What takes the place of a server.
#[derive(Debug, Args)]
pub(crate) struct RawTrial {
    /// The file that says what each limit allows [default: the starter limits]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// The file that says what it allows to some
    #[arg(long, value_name = "FILE", requires = "limits")]
    overrides: Option<PathBuf>,
    /// How much time passes between two asks, such as 10s [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    every: Option<Nanos>,
}

/// Who answers where no command says it: a server, or files if some are named.
#[derive(Debug)]
pub(crate) enum RawAnswerer {
    Server(Box<RawPlace>),
    Files(RawTrial),
}

/// What only a server is told; of its address see below.
const OF_SERVERS: [&str; 8] =
    ["check", "refund", "reset", "token_file", "ca", "cert", "key", "timeout"];

impl Args for RawAnswerer {
    fn augment_args(command: clap::Command) -> clap::Command {
        RawPlace::augment_args(RawTrial::augment_args(command))
            .mut_arg("limits", |arg| {
                arg.help("Try this file instead, without a server").conflicts_with_all(OF_SERVERS)
            })
            .mut_arg("every", |arg| arg.requires("limits"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// A server that is only in the environment gives way to files that are typed.
impl FromArgMatches for RawAnswerer {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (place, trial) =
            (RawPlace::from_arg_matches(matches)?, RawTrial::from_arg_matches(matches)?);
        if trial.limits.is_none() {
            return Ok(Self::Server(Box::new(place)));
        }
        if matches.value_source("url") == Some(ValueSource::CommandLine) {
            let words = "--url is for a server, --limits is without one: say one of them";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, words));
        }
        Ok(Self::Files(trial))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RawAsk {
    /// What is done with the tokens, and who answers.
    pub(crate) fn of(self, answerer: RawAnswerer, op: &RawOp) -> Ask {
        match answerer {
            RawAnswerer::Server(place) => Ask::Server(self.at(op, *place)),
            RawAnswerer::Files(trial) => Ask::Offline(RawOffline { ask: self, trial }.into()),
        }
    }

    fn at(self, op: &RawOp, place: RawPlace) -> ServerAsk {
        let op = match op {
            RawOp { check: true, .. } => Op::Check,
            RawOp { refund: true, .. } => Op::Refund,
            RawOp { reset: true, .. } => Op::Reset,
            _ => Op::Spend,
        };
        let Self { limit, id, cost, times, explain, format } = self;
        ServerAsk { place, op, limit, id, cost, times, explain, format }
    }
}

impl From<RawOffline> for Offline {
    fn from(RawOffline { ask, trial }: RawOffline) -> Self {
        let RawTrial { limits, overrides, every } = trial;
        let RawAsk { limit, id, cost, times, explain, format } = ask;
        let files = limits.map(|limits| Files { limits, overrides });
        let every = every.unwrap_or_default();
        Self { files, limit, id, cost, times, every, explain, format }
    }
}
