//! `ratekeeper ask bucket`: tokens from a token-bucket server.

use ratekeeper::Nanos;

use super::address::Server;
use super::connection::Connection;
use super::error::Failure;
use crate::error::{Error, Exit};
use crate::output::{Output, say};

const DOOR: &str = "a token-bucket server";

/// What to ask, and whom.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) server: Server,
    pub(crate) timeout: Nanos,
    pub(crate) name: Name,
    /// How many tokens each ask takes; one, and in the words of old clients, if nothing is said.
    pub(crate) cost: Option<u64>,
    pub(crate) times: u64,
}

/// The name of a bucket: without blanks, which end it on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    /// Refuses what cannot be sent as a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a bucket's name is not empty and has no blanks".into());
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a server said to a `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    Token,
    Nothing,
    NotFound,
    Invalid,
}

/// One bucket, asked over one connection.
pub(crate) struct Getter {
    connection: Connection,
    request: Vec<u8>,
}

impl Getter {
    /// Connects, to ask for `cost` tokens of the bucket `name`, again and again.
    pub(crate) fn open(
        server: &Server,
        timeout: Nanos,
        name: &Name,
        cost: Option<u64>,
    ) -> Result<Self, Failure> {
        let cost = cost.map(|cost| format!(" {cost}")).unwrap_or_default();
        // With a carriage return, because the original knows no other end of a line.
        let request = format!("get {}{cost}\r\n", name.as_str()).into_bytes();
        Ok(Self { connection: Connection::open(server, timeout)?, request })
    }

    /// Asks once. Refuses answers that such a server does not give.
    pub(crate) fn get(&mut self) -> Result<Granted, Failure> {
        let line = self.connection.ask_line(&self.request)?;
        Ok(match line.strip_suffix(b"\r").unwrap_or(&line) {
            b"1" => Granted::Token,
            b"0" => Granted::Nothing,
            b"BUCKET NOT FOUND" => Granted::NotFound,
            b"INVALID COMMAND" => Granted::Invalid,
            _ => return Err(self.connection.strange(DOOR, &line)),
        })
    }

    /// Why `granted` is no verdict, if it is none.
    pub(crate) fn failure(&self, granted: Granted, name: &Name) -> Option<Failure> {
        let server = self.connection.server().clone();
        match granted {
            Granted::Token | Granted::Nothing => None,
            Granted::NotFound => Some(Failure::NoBucket { server, name: name.0.clone() }),
            Granted::Invalid => Some(Failure::Invalid {
                server,
                request: String::from_utf8_lossy(&self.request).trim_end().to_owned(),
                advice: "not every server knows of a cost; leave --cost out",
            }),
        }
    }
}

impl Granted {
    /// As it was received.
    fn as_str(self) -> &'static str {
        match self {
            Self::Token => "1",
            Self::Nothing => "0",
            Self::NotFound => "BUCKET NOT FOUND",
            Self::Invalid => "INVALID COMMAND",
        }
    }
}

/// Asks, and prints each answer as it comes.
pub(crate) fn run(bucket: &Bucket) -> Result<Exit, Error> {
    let mut getter = Getter::open(&bucket.server, bucket.timeout, &bucket.name, bucket.cost)?;
    let mut output = Output::new();
    let (mut allowed, mut denied, mut last) = (0_u64, 0_u64, Granted::Nothing);
    for _ in 0..bucket.times {
        last = getter.get()?;
        output.line(last.as_str())?;
        output.finish()?;
        if let Some(failure) = getter.failure(last, &bucket.name) {
            return Err(failure.into());
        }
        *(if last == Granted::Token { &mut allowed } else { &mut denied }) += 1;
        if output.is_closed() {
            break;
        }
    }
    if bucket.times > 1 {
        say(format_args!("{allowed} allowed, {denied} denied"));
    }
    Ok(if last == Granted::Token { Exit::Allowed } else { Exit::Denied })
}
