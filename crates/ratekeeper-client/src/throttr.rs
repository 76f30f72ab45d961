//! Quotas with a lifetime, in Throttr's binary protocol.

mod wire;

use ratekeeper::Nanos;
use ratekeeper_console::parse_length;
use serde::Serialize;

use crate::connection::Connection;
use crate::{Failure, Server};
pub use wire::{
    Attribute, Change, ThrottrEntry, ThrottrId, ThrottrKey, ThrottrRequest, ThrottrUnit,
};

const DOOR: &str = "a Throttr server";

/// What to ask, and whom.
#[derive(Debug)]
pub struct ThrottrAsk {
    /// Who is asked.
    pub server: Server,
    /// How long to wait for each answer.
    pub timeout: Nanos,
    /// Who uses what.
    pub key: ThrottrKey,
    /// What is to be done.
    pub op: ThrottrOp,
}

/// What is to be done with a key.
#[derive(Debug)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum ThrottrOp {
    Insert { quota: u64, usage: u64, ttl: Lifetime },
    Query,
    UpdateQuota { change: Change, value: u64 },
    UpdateTtl { change: Change, length: Nanos },
    Purge,
}

/// A length of time in a unit that the protocol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The unit.
    pub unit: ThrottrUnit,
    /// How many of it.
    pub count: u64,
}

impl Lifetime {
    /// The length that is typed, in the largest unit of which it is a whole number. Refuses what is no
    /// duration, or too long to be sent.
    pub fn parse(text: &str) -> Result<Self, String> {
        let length = parse_length(text)?;
        let mut exact =
            ThrottrUnit::ALL.into_iter().filter_map(|unit| Some((unit, unit.count(length)?)));
        let (unit, count) = exact.next().ok_or("it is too long")?;
        Ok(Self { unit, count })
    }
}

/// What became of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum ThrottrAnswer {
    Insert { allowed: bool, remaining: u64, expires_in: i128, unit: &'static str },
    Query { found: bool, remaining: u64, expires_in: i128, unit: &'static str },
    Update { updated: bool },
    Purge { purged: bool },
}

impl ThrottrAsk {
    /// What the server answers.
    pub fn ask(&self) -> Result<ThrottrAnswer, Failure> {
        let connection = &mut Connection::open(&self.server, self.timeout)?;
        let key = &self.key;
        Ok(match self.op {
            ThrottrOp::Insert { quota, usage, ttl: Lifetime { unit, count } } => {
                let request = ThrottrRequest::Insert { quota, usage, unit, ttl: count };
                let ThrottrEntry { can, remaining, unit, ttl } =
                    ask_entry(connection, &request, key)?;
                let expires_in = unit.nanos(ttl);
                ThrottrAnswer::Insert { allowed: can, remaining, expires_in, unit: unit.as_str() }
            }
            ThrottrOp::Query => {
                let ThrottrEntry { can, remaining, unit, ttl } =
                    ask_entry(connection, &ThrottrRequest::Query, key)?;
                let expires_in = unit.nanos(ttl);
                ThrottrAnswer::Query { found: can, remaining, expires_in, unit: unit.as_str() }
            }
            ThrottrOp::UpdateQuota { change, value } => {
                let request = ThrottrRequest::Update { attribute: Attribute::Quota, change, value };
                ThrottrAnswer::Update { updated: ask_yes(connection, &request, key)? }
            }
            ThrottrOp::UpdateTtl { change, length } => {
                self.update_ttl(connection, change, length)?
            }
            ThrottrOp::Purge => {
                ThrottrAnswer::Purge { purged: ask_yes(connection, &ThrottrRequest::Purge, key)? }
            }
        })
    }

    /// The value is counted in the unit in which the entry was made, so that is asked first.
    fn update_ttl(
        &self,
        connection: &mut Connection,
        change: Change,
        length: Nanos,
    ) -> Result<ThrottrAnswer, Failure> {
        let entry = ask_entry(connection, &ThrottrRequest::Query, &self.key)?;
        if !entry.can {
            return Ok(ThrottrAnswer::Update { updated: false });
        }
        let value = entry.unit.count(length);
        let value = value.ok_or(Failure::Unit { unit: entry.unit.name(), length })?;
        let request = ThrottrRequest::Update { attribute: Attribute::Ttl, change, value };
        Ok(ThrottrAnswer::Update { updated: ask_yes(connection, &request, &self.key)? })
    }
}

fn ask_entry(
    connection: &mut Connection,
    request: &ThrottrRequest,
    key: &ThrottrKey,
) -> Result<ThrottrEntry, Failure> {
    let answer = connection.ask_bytes(&request.encode(key))?;
    ThrottrEntry::decode(&answer).ok_or_else(|| connection.strange(DOOR, &answer))
}

fn ask_yes(
    connection: &mut Connection,
    request: &ThrottrRequest,
    key: &ThrottrKey,
) -> Result<bool, Failure> {
    match connection.ask_bytes(&request.encode(key))? {
        [0] => Ok(false),
        [1] => Ok(true),
        answer => Err(connection.strange(DOOR, &answer)),
    }
}

impl ThrottrAnswer {
    /// Whether it was done, or allowed, or found.
    pub fn is_yes(&self) -> bool {
        let (Self::Insert { allowed: yes, .. }
        | Self::Query { found: yes, .. }
        | Self::Update { updated: yes }
        | Self::Purge { purged: yes }) = self;
        *yes
    }

    /// The same for people.
    pub fn describe(&self) -> String {
        match *self {
            Self::Insert { allowed, remaining, expires_in, unit } => {
                let verdict = if allowed { "allowed" } else { "denied" };
                format!("{verdict}, {remaining} left, {}", to_go(expires_in, unit))
            }
            Self::Query { found: true, remaining, expires_in, unit } => {
                format!("{remaining} left, {}", to_go(expires_in, unit))
            }
            Self::Update { updated: true } => "updated".into(),
            Self::Purge { purged: true } => "purged".into(),
            Self::Query { .. } | Self::Update { .. } | Self::Purge { .. } => {
                "not found: it was never inserted, it was purged, or its time is over".into()
            }
        }
    }
}

/// Servers leave away what is less than one of the unit.
fn to_go(nanos: i128, unit: &str) -> String {
    match u128::try_from(nanos) {
        Ok(0) | Err(_) => format!("less than 1{unit} to go"),
        Ok(nanos) => format!("{} to go", Nanos::new(nanos)),
    }
}
