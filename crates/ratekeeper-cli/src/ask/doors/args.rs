//! The arguments of `ratekeeper ask udp|bucket|throttr|resp` as they are typed.

use std::ffi::OsString;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use ratekeeper::Nanos;
use ratekeeper::limits::parse_duration;
use ratekeeper_client::bucket::BucketName;
use ratekeeper_client::http::RawSetToken;
use ratekeeper_client::resp::RespCommand;
use ratekeeper_client::throttr::{Change, Lifetime, ThrottrAsk, ThrottrId, ThrottrKey, ThrottrOp};
use ratekeeper_client::udp::UdpRequest;
use ratekeeper_client::{RawPatience, Server};
use ratekeeper_console::Format;

use super::{BucketAsks, DoorAsk};
use crate::ask::TIMES_MAX;

const UDP_HELP: &str = "\
The words of the request are joined by one space each and sent as one datagram, with a request id
in front; if the request begins with an id, that is taken. The answer is printed without the id.
For what is over its limit or not, a sentence follows on standard error.

EXAMPLES
  ratekeeper ask udp over_limit ws ip=74.11.99.155
      use the key once: `ok`, Y if over the limit or N, the rate, the limit, the period
  ratekeeper ask udp get_stats ws global
  ratekeeper ask udp --server '[::1]:2000' ping

EXIT CODES
  0  answered, and not over the limit
  1  over the limit
  2  the arguments are wrong
  3  no answer: nobody listens there, or the request was not understood";

const BUCKET_HELP: &str = "\
Each answer is printed as it was received: 1 for a token, 0 for none, BUCKET NOT FOUND.

EXAMPLES
  ratekeeper ask bucket bucket_a
  ratekeeper ask bucket bucket_a --times 3
  ratekeeper ask bucket bucket_b --cost 10
      not every server knows of a cost

EXIT CODES
  0  the last ask got its tokens
  1  it did not
  2  the arguments are wrong, or the server has no such bucket
  3  no server was reached, or it did not answer";

const THROTTR_HELP: &str = "\
EXAMPLES
  ratekeeper ask throttr insert ada /login --quota 10 --ttl 60s
      allow 10 uses in 60 s, and make the first: `allowed, 9 left, 59s to go`
  ratekeeper ask throttr query ada /login
  ratekeeper ask throttr update ada /login --quota +5
  ratekeeper ask throttr purge ada /login

EXIT CODES
  0  allowed, found, updated or purged
  1  denied, or not found
  2  the arguments are wrong
  3  no server was reached, or it did not answer";

const RESP_HELP: &str = "\
The reply is printed as it was received, an array with blanks between its values. For the five
integers that an ask is replied to with, a sentence follows on standard error. Where the server has
tokens, the one in RATEKEEPER_TOKEN is shown first; the connection is not encrypted.

EXAMPLES
  ratekeeper ask resp THROTTLE LoginsPerUser ada
      one login: 0 if it is allowed, how many fit, how many are left, seconds to wait, seconds until
      all are back
  ratekeeper ask resp CL.THROTTLE ada 14 30 60
      15 at once and 30 a minute, whatever limits there are
  ratekeeper ask resp -- THROTTLE LoginsPerUser ada -1
      give one back

EXIT CODES
  0  allowed, or the command was done
  1  limited
  2  the arguments are wrong, or the server says so
  3  no server was reached, or it did not answer";

const INSERT_HELP: &str = "\
The first insert of a consumer and a resource sets the quota and the lifetime. Until that is over,
further ones only use what is left, whatever quota and lifetime they say; with --usage 0 they look.

The lifetime is sent in the largest of s, ms and ns of which it is a whole number, and the server
answers in the same: 60s becomes 59s at once, 60000ms the same, 60.001s becomes 60s.";

const UPDATE_HELP: &str = "\
A lifetime is changed in the unit it was made in, so that is queried first.

EXAMPLES
  ratekeeper ask throttr update ada /login --quota 20
  ratekeeper ask throttr update ada /login --quota -5
      at least 0 is left
  ratekeeper ask throttr update ada /login --ttl +30s";

#[derive(Debug, Subcommand)]
pub(crate) enum RawDoorAsk {
    /// Ask a UDP rate limiter
    #[command(after_help = UDP_HELP)]
    Udp(RawUdp),
    /// Ask a token-bucket server
    #[command(after_help = BUCKET_HELP)]
    Bucket(RawBucket),
    /// Ask a Throttr server
    #[command(after_help = THROTTR_HELP, disable_help_subcommand = true)]
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Throttr {
        #[command(subcommand)]
        op: RawThrottr,
    },
    /// Ask as clients of Redis do
    #[command(after_help = RESP_HELP)]
    Resp(RawResp),
}

#[derive(Debug, Args)]
pub(crate) struct RawUdp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2000")]
    #[arg(value_parser = Server::parse::<2000>)]
    server: Server,
    #[command(flatten)]
    patience: RawPatience,
    /// The request, such as `over_limit KEY`, `get_stats KEY`, `get_size` or `ping`
    #[arg(value_name = "REQUEST", required = true)]
    request: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct RawBucket {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4444")]
    #[arg(value_parser = Server::parse::<4444>)]
    server: Server,
    #[command(flatten)]
    patience: RawPatience,
    /// The name of the bucket
    #[arg(value_name = "NAME", value_parser = BucketName::parse)]
    name: BucketName,
    /// How many tokens each ask takes [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// How many times to ask
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=TIMES_MAX))]
    times: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RawResp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6380")]
    #[arg(value_parser = Server::parse::<6380>)]
    server: Server,
    #[command(flatten)]
    patience: RawPatience,
    #[command(flatten)]
    token: RawSetToken,
    /// The command and its arguments, such as `THROTTLE LIMIT ID`
    #[arg(value_name = "WORD", required = true)]
    words: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RawThrottr {
    /// Use a quota, which begins with the first use
    #[command(after_help = INSERT_HELP)]
    Insert {
        #[command(flatten)]
        ask: RawKey,
        /// How many uses there are in a lifetime
        #[arg(long, value_name = "N")]
        quota: u64,
        /// How many of them this is
        #[arg(long, value_name = "N", default_value_t = 1)]
        usage: u64,
        /// How long the quota lives, such as 60s or 1500ms
        #[arg(long, value_name = "DURATION", value_parser = Lifetime::parse)]
        ttl: Lifetime,
    },
    /// Look what is left of a quota
    Query(RawKey),
    /// Change what is left of a quota, or its lifetime
    #[command(after_help = UPDATE_HELP)]
    Update {
        #[command(flatten)]
        ask: RawKey,
        #[command(flatten)]
        change: RawChange,
    },
    /// Forget a quota
    Purge(RawKey),
}

#[derive(Debug, Args)]
pub(crate) struct RawKey {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9000")]
    #[arg(value_parser = Server::parse::<9000>)]
    server: Server,
    #[command(flatten)]
    patience: RawPatience,
    /// Who uses it, such as a user or an address
    #[arg(value_name = "CONSUMER", value_parser = id_parser())]
    consumer: ThrottrId,
    /// What is used, such as a path
    #[arg(value_name = "RESOURCE", value_parser = id_parser())]
    resource: ThrottrId,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RawChange {
    /// What is left: N sets it, +N adds to it, -N takes from it
    #[arg(long, value_name = "[+|-]N", allow_hyphen_values = true)]
    quota: Option<Changed<u64>>,
    /// How long it still lives: 60s sets it, +60s adds to it, -60s takes from it
    #[arg(long, value_name = "[+|-]DURATION", allow_hyphen_values = true)]
    #[arg(value_parser = parse_changed_length)]
    ttl: Option<Changed<Nanos>>,
}

/// A value, and what becomes of the old one.
#[derive(Clone, Copy, Debug)]
struct Changed<T> {
    change: Change,
    value: T,
}

fn split_sign(text: &str) -> (Change, &str) {
    if let Some(more) = text.strip_prefix('+') {
        (Change::Increase, more)
    } else if let Some(less) = text.strip_prefix('-') {
        (Change::Decrease, less)
    } else {
        (Change::Set, text)
    }
}

impl FromStr for Changed<u64> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (change, number) = split_sign(text);
        let digits = Some(number).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let value = digits.and_then(|digits| digits.parse().ok());
        let value = value.ok_or("write it like 20, +5 or -5")?;
        Ok(Self { change, value })
    }
}

fn parse_changed_length(text: &str) -> Result<Changed<Nanos>, String> {
    let (change, length) = split_sign(text);
    let value = parse_duration(length)
        .map_err(|error| format!("it {error}: write it like 60s, +30s or -1.5s"))?;
    Ok(Changed { change, value })
}

fn id_parser() -> impl TypedValueParser<Value = ThrottrId> {
    OsStringValueParser::new().try_map(|text| ThrottrId::new(text.into_encoded_bytes()))
}

impl From<RawDoorAsk> for DoorAsk {
    fn from(raw: RawDoorAsk) -> Self {
        match raw {
            RawDoorAsk::Udp(raw) => Self::Udp(raw.into()),
            RawDoorAsk::Bucket(raw) => Self::Bucket(raw.into()),
            RawDoorAsk::Throttr { op } => op.into(),
            RawDoorAsk::Resp(raw) => Self::Resp(raw.into()),
        }
    }
}

impl From<RawUdp> for UdpRequest {
    fn from(raw: RawUdp) -> Self {
        let words: Vec<_> = raw.request.into_iter().map(OsString::into_encoded_bytes).collect();
        let timeout = raw.patience.timeout;
        Self { server: raw.server, timeout, request: words.join(&b' ') }
    }
}

impl From<RawBucket> for BucketAsks {
    fn from(raw: RawBucket) -> Self {
        let RawBucket { server, patience: RawPatience { timeout }, name, cost, times } = raw;
        Self { server, timeout, name, cost, times }
    }
}

impl From<RawResp> for RespCommand {
    fn from(raw: RawResp) -> Self {
        let RawResp { server, patience: RawPatience { timeout }, token: RawSetToken(token), words } =
            raw;
        let words = words.into_iter().map(OsString::into_encoded_bytes).collect();
        Self { server, timeout, token, words }
    }
}

impl From<RawThrottr> for DoorAsk {
    fn from(raw: RawThrottr) -> Self {
        let (ask, op) = match raw {
            RawThrottr::Insert { ask, quota, usage, ttl } => {
                (ask, ThrottrOp::Insert { quota, usage, ttl })
            }
            RawThrottr::Query(ask) => (ask, ThrottrOp::Query),
            RawThrottr::Update { ask, change } => (ask, change.into()),
            RawThrottr::Purge(ask) => (ask, ThrottrOp::Purge),
        };
        let RawKey { server, patience: RawPatience { timeout }, consumer, resource, format } = ask;
        let key = ThrottrKey { consumer, resource };
        Self::Throttr(ThrottrAsk { server, timeout, key, op }, format)
    }
}

impl From<RawChange> for ThrottrOp {
    fn from(raw: RawChange) -> Self {
        match (raw.quota, raw.ttl) {
            (Some(Changed { change, value }), _) => Self::UpdateQuota { change, value },
            (None, Some(Changed { change, value })) => Self::UpdateTtl { change, length: value },
            (None, None) => unreachable!("one of the group is required"),
        }
    }
}
