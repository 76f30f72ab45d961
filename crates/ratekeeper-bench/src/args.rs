//! The arguments of `ratekeeper bench` as they are typed.

use std::str::FromStr;

use clap::{Args, Subcommand};
use ratekeeper::Nanos;
use ratekeeper_client::bucket::BucketName;
use ratekeeper_client::{RawPatience, Server};
use ratekeeper_console::parse_length;

use super::compare::{COMPARE_HELP, RawCompare};
use super::load::args::{RawDoor, RawMeasure};
use super::trial::{Goal, Trial};

/// How many connections one trial can open.
const THREADS_MAX: u64 = 256;
/// How often each thread can ask.
const REQUESTS_MAX: u64 = 100_000_000;

const BENCH_HELP: &str = "\
EXAMPLES
  ratekeeper bench http --for 5s
      as much as 50 connections can ask in five seconds, and how long the answers took
  ratekeeper bench bucket --rate 20000 --keys 1000000 --spread zipf
      20,000 requests a second, come what may
  ratekeeper bench compare 'resp --server :6380' 'resp --server :6379 --command evalsha'
      which is faster, and how sure that is
  ratekeeper bench bucket-trial";

const TRIAL_HELP: &str = "\
The trial that the document of the token-bucket protocol describes, and its table. For one bucket
after another, each thread opens a connection, asks `get NAME`, sleeps, and asks again. The server
needs the buckets; the usual ones are three lines in its buckets file:

  bucketa 1
  bucketb 100
  bucketc 500

OUTPUT
  name     the bucket
  time     how long it took, in seconds
  granted  how many tokens there were
  rate     granted / time
  goal     the rate that the bucket allows
  dev %    how far the rate is from the goal. A bucket is full at the start, so a short trial
           grants one second's worth too many

A second table leaves that out, for buckets that were full:
  fill     the tokens at the start; NAME=RATE/FILL says how many, else it is the rate, rounded up
  refill   granted - fill: what came back meanwhile
  exact    the whole tokens that come back in that time, as far as they were asked for
  dev %    how far the refill is from that, if any comes back

EXAMPLES
  ratekeeper bench bucket-trial --requests 100000
      the trial as it is in the document; it takes more than five minutes
  ratekeeper bench bucket-trial --server '[::1]:4444' --buckets mine=20,other=0.5/10

EXIT CODES
  0  done
  2  the arguments are wrong, or the server has no such bucket
  3  no server was reached, or it did not answer";

/// What to measure, and how.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct RawBench {
    #[command(subcommand)]
    pub(crate) work: Box<RawWork>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RawWork {
    #[command(flatten)]
    Load(Box<RawDoor<RawMeasure>>),
    /// Measure two targets in turns, and tell how they compare
    #[command(after_help = COMPARE_HELP, long_flag = "compare")]
    Compare(Box<RawCompare>),
    /// Compare the rates that a token-bucket server grants with those it should
    #[command(after_help = TRIAL_HELP)]
    BucketTrial(RawTrial),
}

#[derive(Debug, Args)]
pub(crate) struct RawTrial {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4444")]
    #[arg(value_parser = Server::parse::<4444>)]
    server: Server,
    #[command(flatten)]
    patience: RawPatience,
    /// How many ask at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=THREADS_MAX))]
    threads: u64,
    /// How often each asks
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    requests: u64,
    /// How long each sleeps after an answer, in seconds or as 1ms
    #[arg(long, value_name = "SECONDS", default_value = "0.001", value_parser = parse_sleep)]
    sleep: Nanos,
    /// The buckets, each with its rate in tokens per second, and how many it holds if not as many
    #[arg(long, value_name = "NAME=RATE[/FILL]", value_delimiter = ',')]
    #[arg(default_value = "bucketa=1,bucketb=100,bucketc=500")]
    buckets: Vec<Goal>,
}

/// Zero is a trial without sleep.
fn parse_sleep(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(0.0_f64) => Ok(Nanos::ZERO),
        Ok(_) => parse_length(&format!("{text}s")),
        Err(_) => parse_length(text),
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = text.rsplit_once('=').ok_or("write it like bucketa=1")?;
        let (rate, fill) = match rate.split_once('/') {
            Some((rate, fill)) => (rate, Some(fill)),
            None => (rate, None),
        };
        let rate = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
        let rate = rate.ok_or("its rate is a number above 0, in tokens per second")?;
        let fill = match fill {
            Some(fill) => fill.parse().map_err(|_| "its fill is a whole number of tokens")?,
            None => default_fill(rate),
        };
        Ok(Self { name: BucketName::parse(name)?, rate, fill })
    }
}

/// What a bucket holds of which only the rate is known: a second's worth.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is above zero, and a rate beyond 2^64 is none of a server's"
)]
fn default_fill(rate: f64) -> u64 {
    rate.ceil() as u64
}

impl From<RawTrial> for Trial {
    fn from(raw: RawTrial) -> Self {
        Self {
            server: raw.server,
            timeout: raw.patience.timeout,
            threads: raw.threads,
            requests: raw.requests,
            sleep: raw.sleep,
            goals: raw.buckets,
        }
    }
}
