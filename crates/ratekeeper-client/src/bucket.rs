//! Tokens from a token-bucket server.

use ratekeeper::Nanos;

use crate::connection::Connection;
use crate::{Failure, Server};

const DOOR: &str = "a token-bucket server";

/// The name of a bucket: without blanks, which end it on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketName(String);

impl BucketName {
    /// Refuses what cannot be sent as a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a bucket's name is not empty and has no blanks".into());
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reply of a server to a `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketAnswer {
    /// All tokens that were asked for.
    Token,
    /// No token.
    Nothing,
    /// There is no such bucket.
    NotFound,
    /// The request was not understood.
    Invalid,
}

/// One bucket, asked over one connection.
pub struct BucketClient {
    connection: Connection,
    request: Vec<u8>,
}

impl BucketClient {
    /// Connects, to ask for `cost` tokens of the bucket `name`, again and again.
    pub fn open(
        server: &Server,
        timeout: Nanos,
        name: &BucketName,
        cost: Option<u64>,
    ) -> Result<Self, Failure> {
        let cost = cost.map(|cost| format!(" {cost}")).unwrap_or_default();
        // With a carriage return, because the original knows no other end of a line.
        let request = format!("get {}{cost}\r\n", name.as_str()).into_bytes();
        Ok(Self { connection: Connection::open(server, timeout)?, request })
    }

    /// Asks once. Refuses answers that such a server does not give.
    pub fn get(&mut self) -> Result<BucketAnswer, Failure> {
        let line = self.connection.ask_line(&self.request)?;
        Ok(match line.strip_suffix(b"\r").unwrap_or(&line) {
            b"1" => BucketAnswer::Token,
            b"0" => BucketAnswer::Nothing,
            b"BUCKET NOT FOUND" => BucketAnswer::NotFound,
            b"INVALID COMMAND" => BucketAnswer::Invalid,
            _ => return Err(self.connection.strange(DOOR, &line)),
        })
    }

    /// Why `granted` is no verdict, if it is none.
    pub fn failure(&self, granted: BucketAnswer, name: &BucketName) -> Option<Failure> {
        let server = self.connection.server().clone();
        match granted {
            BucketAnswer::Token | BucketAnswer::Nothing => None,
            BucketAnswer::NotFound => Some(Failure::NoBucket { server, name: name.0.clone() }),
            BucketAnswer::Invalid => Some(Failure::Invalid {
                server,
                request: String::from_utf8_lossy(&self.request).trim_end().to_owned(),
                advice: "not every server knows of a cost; leave --cost out",
            }),
        }
    }
}

impl BucketAnswer {
    /// As it was received.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "1",
            Self::Nothing => "0",
            Self::NotFound => "BUCKET NOT FOUND",
            Self::Invalid => "INVALID COMMAND",
        }
    }
}
