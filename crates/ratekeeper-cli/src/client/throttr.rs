//! `ratekeeper ask throttr`: quotas with a lifetime, in Throttr's binary protocol.

use ratekeeper::Nanos;
use serde::Serialize;

use super::address::Server;
use super::connection::Connection;
use super::error::Failure;
use super::wire::{Attribute, Change, Entry, Key, Request, Unit};
use crate::args::Format;
use crate::error::{Error, Exit};
use crate::output::Output;

const DOOR: &str = "a Throttr server";

/// What to ask, and whom.
#[derive(Debug)]
pub(crate) struct Throttr {
    pub(crate) server: Server,
    pub(crate) timeout: Nanos,
    pub(crate) format: Format,
    pub(crate) key: Key,
    pub(crate) op: Op,
}

/// What is to be done with a key.
#[derive(Debug)]
pub(crate) enum Op {
    Insert { quota: u64, usage: u64, ttl: Lifetime },
    Query,
    UpdateQuota { change: Change, value: u64 },
    UpdateTtl { change: Change, length: Nanos },
    Purge,
}

/// A length of time in a unit that the protocol has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) unit: Unit,
    pub(crate) count: u64,
}

/// What became of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Insert { allowed: bool, remaining: u64, expires_in: i128, unit: &'static str },
    Query { found: bool, remaining: u64, expires_in: i128, unit: &'static str },
    Update { updated: bool },
    Purge { purged: bool },
}

/// Asks, and prints what was answered.
pub(crate) fn run(throttr: &Throttr) -> Result<Exit, Error> {
    let mut connection = Connection::open(&throttr.server, throttr.timeout)?;
    let answer = throttr.ask(&mut connection)?;
    let mut output = Output::new();
    match throttr.format {
        Format::Text => output.line(answer.describe())?,
        Format::Json => output.json(&answer)?,
    }
    output.finish()?;
    Ok(if answer.is_yes() { Exit::Allowed } else { Exit::Denied })
}

impl Throttr {
    fn ask(&self, connection: &mut Connection) -> Result<Answer, Failure> {
        let key = &self.key;
        Ok(match self.op {
            Op::Insert { quota, usage, ttl: Lifetime { unit, count } } => {
                let request = Request::Insert { quota, usage, unit, ttl: count };
                let Entry { can, remaining, unit, ttl } = ask_entry(connection, &request, key)?;
                let expires_in = unit.nanos(ttl);
                Answer::Insert { allowed: can, remaining, expires_in, unit: unit.as_str() }
            }
            Op::Query => {
                let Entry { can, remaining, unit, ttl } =
                    ask_entry(connection, &Request::Query, key)?;
                let expires_in = unit.nanos(ttl);
                Answer::Query { found: can, remaining, expires_in, unit: unit.as_str() }
            }
            Op::UpdateQuota { change, value } => {
                let request = Request::Update { attribute: Attribute::Quota, change, value };
                Answer::Update { updated: ask_yes(connection, &request, key)? }
            }
            Op::UpdateTtl { change, length } => self.update_ttl(connection, change, length)?,
            Op::Purge => Answer::Purge { purged: ask_yes(connection, &Request::Purge, key)? },
        })
    }

    /// The value is counted in the unit in which the entry was made, so that is asked first.
    fn update_ttl(
        &self,
        connection: &mut Connection,
        change: Change,
        length: Nanos,
    ) -> Result<Answer, Failure> {
        let entry = ask_entry(connection, &Request::Query, &self.key)?;
        if !entry.can {
            return Ok(Answer::Update { updated: false });
        }
        let value = entry.unit.count(length);
        let value = value.ok_or(Failure::Unit { unit: entry.unit.name(), length })?;
        let request = Request::Update { attribute: Attribute::Ttl, change, value };
        Ok(Answer::Update { updated: ask_yes(connection, &request, &self.key)? })
    }
}

fn ask_entry(connection: &mut Connection, request: &Request, key: &Key) -> Result<Entry, Failure> {
    let answer = connection.ask_bytes(&request.encode(key))?;
    Entry::decode(&answer).ok_or_else(|| connection.strange(DOOR, &answer))
}

fn ask_yes(connection: &mut Connection, request: &Request, key: &Key) -> Result<bool, Failure> {
    match connection.ask_bytes(&request.encode(key))? {
        [0] => Ok(false),
        [1] => Ok(true),
        answer => Err(connection.strange(DOOR, &answer)),
    }
}

impl Answer {
    fn is_yes(&self) -> bool {
        let (Self::Insert { allowed: yes, .. }
        | Self::Query { found: yes, .. }
        | Self::Update { updated: yes }
        | Self::Purge { purged: yes }) = self;
        *yes
    }

    fn describe(&self) -> String {
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
