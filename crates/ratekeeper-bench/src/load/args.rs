//! The arguments of `ratekeeper bench udp|bucket|throttr|http|resp|echo-udp|echo-tcp` as they are typed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ratekeeper::Nanos;
use ratekeeper_client::bucket::BucketName;
use ratekeeper_client::http::RawToken;
use ratekeeper_client::throttr::{Lifetime, ThrottrRequest};
use ratekeeper_client::{RawPatience, Server};
use ratekeeper_console::{Format, parse_length};

use super::Load;
use super::judge::RawJudge;
use super::keys::{CONNECTIONS_MAX, KEYS_MAX, Spread};
use super::target::{Command, Door, Step, Target};
use super::wire::template::HOLE;
use crate::error::BenchError;

pub(crate) use super::command::RawCommand;
use super::help::{
    BUCKET_HELP, ECHO_TCP_HELP, ECHO_UDP_HELP, HTTP_HELP, RESP_HELP, THROTTR_HELP, UDP_HELP,
};

/// How many datagrams can be sent as one: what the system takes.
const SEGMENTS_MAX: i64 = 64;
/// How many requests one connection can have in flight.
const DEPTH_MAX: u64 = 10_000;
/// How many requests all connections can have in flight.
const UNDERWAY_MAX: usize = 1_000_000;
/// How many requests can come due in a second.
const RATE_MAX: u64 = 10_000_000;
/// How many runs there can be in one go.
const STEPS_MAX: usize = 32;
/// How long a run can be.
const LENGTH_MAX: Nanos = Nanos::from_secs(3_600);

/// Which protocol, and with it what is asked; `M` is what else can be said.
#[derive(Debug, Subcommand)]
pub(crate) enum RawDoor<M: Args> {
    /// Measure a UDP rate limiter
    #[command(after_help = UDP_HELP)]
    Udp(RawLoad<RawUdp, M>),
    /// Measure a token-bucket server
    #[command(after_help = BUCKET_HELP)]
    Bucket(RawLoad<RawBucket, M>),
    /// Measure a Throttr server
    #[command(after_help = THROTTR_HELP)]
    Throttr(RawLoad<RawThrottr, M>),
    /// Measure an HTTP door
    #[command(after_help = HTTP_HELP)]
    Http(RawLoad<RawHttp, M>),
    /// Measure a server that speaks RESP: Ratekeeper, Redis and others
    #[command(after_help = RESP_HELP)]
    Resp(RawLoad<RawResp, M>),
    /// Measure a server that sends datagrams back, as a bound for those that decide
    #[command(after_help = ECHO_UDP_HELP)]
    EchoUdp(RawLoad<RawEchoUdp, M>),
    /// Measure a server that sends bytes back, as a bound for those that decide
    #[command(after_help = ECHO_TCP_HELP)]
    EchoTcp(RawLoad<RawEchoTcp, M>),
}

/// All that is said of one target.
#[derive(Debug, Args)]
pub(crate) struct RawLoad<D: Args, M: Args> {
    #[command(flatten)]
    door: D,
    #[command(flatten)]
    target: RawTarget,
    #[command(flatten)]
    measure: M,
}

#[derive(Debug, Args)]
pub(crate) struct RawTarget {
    #[command(flatten)]
    patience: RawPatience,
    /// How many connections to open
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX))]
    connections: u64,
    /// How many requests each connection sends at once; the next when all are answered
    #[arg(long, value_name = "N,..", default_value = "1", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=DEPTH_MAX))]
    depth: Vec<u64>,
    /// How many requests come due in a second [default: as many as are answered]
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Vec<u64>,
    /// How many different keys to ask for
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// How requests are spread over them: one, uniform, or zipf and its exponent
    #[arg(long, value_name = "one|uniform|zipf[:S]", default_value = "uniform")]
    spread: Spread,
    /// Which keys are drawn: two runs with the same seed ask for the same keys in the same order
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The server's process, to tell how much of a processor a request takes
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Look for answers all the time instead of sleeping until one comes
    #[arg(long)]
    spin: bool,
}

/// How a run is made and told.
#[derive(Debug, Args)]
pub(crate) struct RawMeasure {
    /// How long to measure
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = parse_run)]
    length: Nanos,
    /// How long to ask before that
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_warm_up)]
    warm_up: Nanos,
    /// Draw the latencies, or of several runs throughput against latency, as SVG
    #[arg(long, value_name = "FILE.svg", value_parser = parse_chart)]
    chart: Option<PathBuf>,
    #[command(flatten)]
    judge: RawJudge,
    /// How to print the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RawUdp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2000")]
    #[arg(value_parser = Server::parse::<2000>)]
    server: Server,
    /// What to ask about
    #[arg(long, value_name = "TEXT", default_value = "ws ip=10.0.0.{key}")]
    key: String,
    #[command(flatten)]
    segments: RawSegments,
}

#[derive(Debug, Args)]
pub(crate) struct RawSegments {
    /// How many requests of a connection are sent as one datagram, which the system cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=SEGMENTS_MAX))]
    segments: u16,
}

#[derive(Debug, Args)]
pub(crate) struct RawEchoUdp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7")]
    #[arg(value_parser = Server::parse::<7>)]
    server: Server,
    /// How long a datagram is
    #[arg(long, value_name = "N", default_value_t = 40)]
    #[arg(value_parser = clap::value_parser!(u16).range(12..=1400))]
    bytes: u16,
    #[command(flatten)]
    segments: RawSegments,
}

#[derive(Debug, Args)]
pub(crate) struct RawEchoTcp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7")]
    #[arg(value_parser = Server::parse::<7>)]
    server: Server,
    /// How long a request is
    #[arg(long, value_name = "N", default_value_t = 40)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1400))]
    bytes: u16,
    /// How long the answer to one is [default: as the request]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1400))]
    answer_bytes: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct RawBucket {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4444")]
    #[arg(value_parser = Server::parse::<4444>)]
    server: Server,
    /// The buckets
    #[arg(long, value_name = "TEXT", default_value = "LoginsPerUser:user{key}")]
    #[arg(value_parser = BucketName::parse)]
    name: BucketName,
    /// How many tokens each request takes [default: 1, which is not sent]
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RawThrottr {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9000")]
    #[arg(value_parser = Server::parse::<9000>)]
    server: Server,
    /// Who uses it
    #[arg(long, value_name = "TEXT", default_value = "user{key}")]
    consumer: String,
    /// What is used
    #[arg(long, value_name = "TEXT", default_value = "/bench")]
    resource: String,
    /// How many uses there are in a lifetime
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    quota: u64,
    /// How long the quota lives
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = Lifetime::parse)]
    ttl: Lifetime,
    /// How many uses each request is
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RawHttp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    #[arg(value_parser = Server::parse::<8080>)]
    server: Server,
    #[command(flatten)]
    token: RawToken,
    /// The limit to spend from
    #[arg(long, value_name = "NAME", default_value = "LoginsPerUser")]
    limit: String,
    /// Who spends
    #[arg(long, value_name = "TEXT", default_value = "user{key}")]
    id: String,
    /// How many tokens each request takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RawResp {
    /// Where the server is
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6380")]
    #[arg(value_parser = Server::parse::<6380>)]
    server: Server,
    #[command(flatten)]
    token: RawToken,
    #[command(flatten)]
    command: RawCommand,
}

pub(crate) fn parse_run(text: &str) -> Result<Nanos, String> {
    let length = parse_length(text)?;
    let is_good = !length.is_zero() && length <= LENGTH_MAX;
    is_good.then_some(length).ok_or_else(|| format!("it is above 0s, up to {LENGTH_MAX}"))
}

/// Refuses what is no picture of this kind, or has no folder, before anything is measured.
fn parse_chart(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("svg")) {
        return Err("charts are drawn as SVG: name a file that ends in .svg".into());
    }
    match path.parent() {
        Some(folder) if folder != Path::new("") && !folder.is_dir() => {
            Err(format!("there is no folder {}", folder.display()))
        }
        _ => Ok(path),
    }
}

/// Zero is to count from the first request.
pub(crate) fn parse_warm_up(text: &str) -> Result<Nanos, String> {
    if text == "0" || text == "0s" { Ok(Nanos::ZERO) } else { parse_run(text) }
}

impl TryFrom<RawDoor<RawMeasure>> for Load {
    type Error = BenchError;

    /// Refuses what does not go together.
    fn try_from(raw: RawDoor<RawMeasure>) -> Result<Self, BenchError> {
        let (target, steps, measure) = raw.resolve()?;
        let RawMeasure { length, warm_up, chart, judge, format } = measure;
        let law = judge.read(&target)?;
        Ok(Self { target, steps, warm_up, length, law, chart, format })
    }
}

impl<M: Args> RawDoor<M> {
    /// What is asked of whom, and what else was said. Refuses what does not go together.
    pub(crate) fn resolve(self) -> Result<(Target, Vec<Step>, M), BenchError> {
        match self {
            Self::Udp(raw) => raw.resolve(|RawUdp { server, key, segments }| {
                Ok((server, Door::Udp { key, segments: segments.segments.into() }))
            }),
            Self::EchoUdp(raw) => raw.resolve(|RawEchoUdp { server, bytes, segments }| {
                let segments = segments.segments.into();
                Ok((server, Door::EchoUdp { bytes: bytes.into(), segments }))
            }),
            Self::EchoTcp(raw) => raw.resolve(|RawEchoTcp { server, bytes, answer_bytes }| {
                let answer_bytes = answer_bytes.unwrap_or(bytes).into();
                Ok((server, Door::EchoTcp { bytes: bytes.into(), answer_bytes }))
            }),
            Self::Bucket(raw) => raw.resolve(|RawBucket { server, name, cost }| {
                Ok((server, Door::Bucket { name: name.as_str().to_owned(), cost }))
            }),
            Self::Throttr(raw) => raw.resolve(|raw| Ok((raw.server.clone(), raw.into()))),
            Self::Http(raw) => raw.resolve(|RawHttp { server, token, limit, id, cost }| {
                Ok((server, Door::Http { limit, id, cost, token: token.read()? }))
            }),
            Self::Resp(raw) => raw.resolve(|RawResp { server, token, command }| {
                let command = Command::try_from(command).map_err(BenchError::Usage)?;
                Ok((server, Door::Resp { command, token: token.read()? }))
            }),
        }
    }
}

impl<D: Args, M: Args> RawLoad<D, M> {
    fn resolve(
        self,
        door: impl FnOnce(D) -> Result<(Server, Door), BenchError>,
    ) -> Result<(Target, Vec<Step>, M), BenchError> {
        let (server, door) = door(self.door)?;
        let RawTarget { patience, connections, depth, rate, keys, spread, seed, pid, spin } =
            self.target;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let connections = count(connections);
        let steps = steps(&depth.into_iter().map(count).collect::<Vec<_>>(), &rate)?;
        let depth = steps.iter().map(|step| step.depth).max().unwrap_or(1);
        let timeout = patience.timeout;
        let target = Target { door, server, timeout, connections, keys, spread, seed, pid, spin };
        if connections.saturating_mul(depth) > UNDERWAY_MAX {
            let words =
                format!("{connections} connections with {depth} requests each are too many");
            return Err(BenchError::Usage(format!("{words}: at most {UNDERWAY_MAX} in flight")));
        }
        let segments = target.door.segments();
        let depth = steps.iter().map(|step| step.depth).min().unwrap_or(1);
        if segments > depth {
            let words = format!("--segments {segments} are more than a connection sends");
            return Err(BenchError::Usage(format!(
                "{words}: at most the least --depth, which is {depth}"
            )));
        }
        if keys > 1 && spread != Spread::One && !target.door.has_keys() {
            let words = format!("`{}` is the same for every key", target.door);
            return Err(BenchError::Usage(format!("{words}: write {HOLE} into it, or --keys 1")));
        }
        Ok((target, steps, self.measure))
    }
}

/// Every depth, or every rate. Refuses several of both, and too many.
fn steps(depths: &[usize], rates: &[u64]) -> Result<Vec<Step>, BenchError> {
    let steps: Vec<Step> = match (depths, rates) {
        (depths, []) => depths.iter().map(|&depth| Step { depth, rate: None }).collect(),
        (&[depth], rates) => rates.iter().map(|&rate| Step { depth, rate: Some(rate) }).collect(),
        (depths, &[rate]) => depths.iter().map(|&depth| Step { depth, rate: Some(rate) }).collect(),
        _ => return Err(BenchError::Usage("several depths or several rates, but not both".into())),
    };
    if steps.len() > STEPS_MAX {
        let words = format!("{} runs in one go are too many: at most {STEPS_MAX}", steps.len());
        return Err(BenchError::Usage(words));
    }
    Ok(steps)
}

impl From<RawThrottr> for Door {
    fn from(raw: RawThrottr) -> Self {
        let RawThrottr { consumer, resource, quota, ttl, cost, .. } = raw;
        let insert = ThrottrRequest::Insert { quota, usage: cost, unit: ttl.unit, ttl: ttl.count };
        Self::Throttr { insert, consumer, resource }
    }
}
