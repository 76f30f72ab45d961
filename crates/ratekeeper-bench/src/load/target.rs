//! Who is measured, and with what.

use std::fmt;

use ratekeeper::Nanos;
use ratekeeper_client::Server;
use ratekeeper_client::throttr::ThrottrRequest;
use ratekeeper_server::settings::SecretText;

use super::keys::Spread;
use super::wire::template::{HOLE, Template};

/// A server, and how it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) door: Door,
    pub(crate) server: Server,
    pub(crate) timeout: Nanos,
    pub(crate) connections: usize,
    pub(crate) keys: u64,
    pub(crate) spread: Spread,
    /// Decides which keys are drawn.
    pub(crate) seed: u64,
    /// The server's process, if its use of the processor is to be told.
    pub(crate) pid: Option<u32>,
    /// Whether answers are looked for all the time, instead of sleeping until one comes.
    pub(crate) spin: bool,
}

/// How much is asked at once, or how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// How many requests each connection has in flight at most.
    pub(crate) depth: usize,
    /// How many arrive in a second, over all connections; if nothing is said, a connection asks
    /// again once it was answered.
    pub(crate) rate: Option<u64>,
}

/// What is asked, in which protocol; and of datagrams, how many may be sent as one.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    Udp { key: String, segments: usize },
    EchoUdp { bytes: usize, segments: usize },
    EchoTcp { bytes: usize, answer_bytes: usize },
    Bucket { name: String, cost: Option<u64> },
    Throttr { insert: ThrottrRequest, consumer: String, resource: String },
    Http { limit: String, id: String, cost: u64, token: Option<SecretText> },
    Resp { command: Command, token: Option<SecretText> },
}

/// What is asked of a server that speaks RESP.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) words: Words,
    /// The number that says no, if it is the answer or the first in it.
    pub(crate) denied: Option<i64>,
    pub(crate) cost: u64,
    pub(crate) decides: Decides,
}

/// What decides over a command, as far as the command says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decides {
    /// The rule in it, for a key: burst, count, and the period in seconds.
    Rule {
        rule: [u64; 3],
        key: String,
    },
    /// The limit that it names, for an id.
    Limit {
        limit: String,
        id: String,
    },
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// As they are sent.
    Plain(Vec<String>),
    /// Those behind the digest of a script, which the server is given first.
    Script(Vec<String>),
}

impl Target {
    /// An empty request.
    pub(crate) fn template(&self) -> Template {
        Template::new(self.keys)
    }
}

impl Door {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Udp { .. } => "udp",
            Self::EchoUdp { .. } => "echo-udp",
            Self::EchoTcp { .. } => "echo-tcp",
            Self::Bucket { .. } => "bucket",
            Self::Throttr { .. } => "throttr",
            Self::Http { .. } => "http",
            Self::Resp { .. } => "resp",
        }
    }

    /// What to call such a server.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Udp { .. } => "a UDP rate limiter",
            Self::EchoUdp { .. } | Self::EchoTcp { .. } => "an echo server",
            Self::Bucket { .. } => "a token-bucket server",
            Self::Throttr { .. } => "a Throttr server",
            Self::Http { .. } => "an HTTP door",
            Self::Resp { .. } => "a server that speaks RESP",
        }
    }

    /// Whether requests for one key are none for another.
    pub(crate) fn has_keys(&self) -> bool {
        // To an echo all are alike, so that it does nothing else.
        let is_echo = matches!(self, Self::EchoUdp { .. } | Self::EchoTcp { .. });
        is_echo || self.to_string().contains(HOLE)
    }

    /// How many datagrams the system is given at once, to be cut where they go out.
    pub(crate) fn segments(&self) -> usize {
        match self {
            Self::Udp { segments, .. } | Self::EchoUdp { segments, .. } => *segments,
            _ => 1,
        }
    }

    /// How many tokens each request asks for.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Self::Udp { .. } | Self::EchoUdp { .. } | Self::EchoTcp { .. } => 1,
            Self::Bucket { cost, .. } => cost.unwrap_or(1),
            Self::Throttr { insert: ThrottrRequest::Insert { usage, .. }, .. } => *usage,
            Self::Throttr { .. } => 0,
            Self::Http { cost, .. } => *cost,
            Self::Resp { command, .. } => command.cost,
        }
    }
}

/// What is sent, as people write it.
impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp { key, .. } => write!(f, "over_limit {key}"),
            Self::EchoUdp { bytes, .. } => write!(f, "{bytes} bytes"),
            Self::EchoTcp { bytes, answer_bytes } => {
                write!(f, "{bytes} bytes, {answer_bytes} back")
            }
            Self::Bucket { name, cost: None } => write!(f, "get {name}"),
            Self::Bucket { name, cost: Some(cost) } => write!(f, "get {name} {cost}"),
            Self::Throttr { consumer, resource, insert } => {
                write!(f, "insert {consumer} {resource}")?;
                let ThrottrRequest::Insert { quota, usage, unit, ttl } = insert else {
                    return Ok(());
                };
                write!(f, ", {usage} of {quota} in {ttl}{}", unit.as_str())
            }
            Self::Http { limit, id, cost, .. } => write!(f, "POST /v1/spend {limit} {id} {cost}"),
            Self::Resp { command, .. } => match &command.words {
                Words::Plain(words) => f.write_str(&words.join(" ")),
                Words::Script(words) => write!(f, "EVALSHA .. {}", words.join(" ")),
            },
        }
    }
}
