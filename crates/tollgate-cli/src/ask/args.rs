//! The arguments of `tollgate ask` as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tollgate::Nanos;

use super::TIMES_MAX;
use super::offline::Offline;
use super::server::{Op, ServerAsk};
use crate::args::{Format, parse_length};
use crate::client::args::RawClient;
use crate::client::http::args::RawPlace;
use crate::files::Files;

pub(crate) const ASK_HELP: &str = "\
Without one of the commands a server is asked over HTTP, and what it allows is spent there. A limit
with the name of a command is asked behind `--`.

EXAMPLES
  tollgate ask LoginsPerUser ada
  tollgate ask LoginsPerUser ada --times 6
      use up the burst; the last ask says how long to wait
  tollgate ask LoginsPerUser ada --check --explain
      spend nothing; which limit applies, where it is written, and the arithmetic
  TOLLGATE_TOKEN=.. tollgate ask --url https://limits.example LoginsPerUser ada
  tollgate ask offline LoginsPerUser ada --times 20 --every 10s
      no server: does one login every ten seconds get through?
  tollgate ask udp over_limit ws ip=74.11.99.155
      ask through another door; see `tollgate ask udp --help`

EXIT CODES
  0  the last ask was allowed
  1  the last ask was denied, or there was nothing to give back
  2  the arguments, the files or the ask are wrong
  3  a server was not reached, or did not answer";

const OFFLINE_HELP: &str = "\
Nothing is asked of a server: the buckets begin full, time begins at 0 and passes only by --every.

EXAMPLES
  tollgate ask offline NewOrdersPerAccount 12345678 --times 301
      use up the burst; the last ask says how long to wait
  tollgate ask offline --limits limits.yaml LoginsPerUser ada --times 20 --every 10s
      does one login every ten seconds get through?
  tollgate ask offline --limits limits.yaml LoginsPerUser ada --explain
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
    Door(RawClient),
}

#[derive(Debug, Args)]
pub(crate) struct RawAsk {
    /// The name of the limit, such as `LoginsPerUser`
    #[arg(value_name = "LIMIT")]
    limit: String,
    /// Whom it counts for, such as ada
    #[arg(value_name = "ID")]
    id: String,
    /// How many tokens each ask takes
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "reset")]
    cost: u64,
    /// How many times to ask
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "reset")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=TIMES_MAX))]
    times: u64,
    /// Say which limit applies and why, and the arithmetic of one more ask
    #[arg(long)]
    explain: bool,
    /// How to print the answers
    #[arg(long, value_enum, default_value_t)]
    format: Format,
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
    #[arg(long)]
    reset: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RawOffline {
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
    #[arg(value_parser = clap::value_parser!(u64).range(1..=TIMES_MAX))]
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

impl RawAsk {
    /// What is done with the tokens, and by which server.
    pub(crate) fn at(self, op: &RawOp, place: RawPlace) -> ServerAsk {
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
    fn from(raw: RawOffline) -> Self {
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
