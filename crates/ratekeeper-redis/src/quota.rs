//! Requests to quotas: what is sent to the script, and what its answer means.

use ratekeeper::Moment;
use ratekeeper::algorithm::quota::{self, Amend, Outcome, Unit};
use redis::{Pipeline, Value};

use crate::bucket::{nonsense, write_moment};
use crate::failure::Failure;
use crate::key::{Kind, slot};
use crate::script::{Call, QUOTA, Script};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// One request to one quota.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is wanted.
    pub ask: quota::Ask,
}

/// The answer to an [`Ask`].
#[must_use = "a denial is no error: whoever does not look at it lets everybody pass"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What a store would have answered.
    pub outcome: Outcome,
    /// When it was decided, by the clock that decided.
    pub now: Moment,
}

pub(crate) struct Request<'a> {
    pub(crate) ask: &'a Ask<'a>,
    pub(crate) now: Option<Moment>,
}

impl Call for Request<'_> {
    fn script(&self) -> &'static Script {
        &QUOTA
    }

    fn slot(&self) -> u16 {
        slot(&Kind::Quota.key(self.ask.key))
    }

    fn write(&self, to: &mut Pipeline) {
        to.arg(1).arg(Kind::Quota.key(self.ask.key));
        write_moment(self.now, to);
        match self.ask.ask {
            quota::Ask::Insert { quota, usage, ttl, unit } => {
                // What lies beyond the last moment all ends there, so it may be cut.
                let length = u64::try_from(unit.length(ttl).get()).unwrap_or(u64::MAX);
                to.arg("insert").arg(quota).arg(usage);
                to.arg(length / NANOS_PER_SEC).arg(length % NANOS_PER_SEC).arg(word(unit));
            }
            quota::Ask::Query => {
                to.arg("query");
            }
            quota::Ask::Touch => {
                to.arg("touch");
            }
            quota::Ask::Purge => {
                to.arg("purge");
            }
            quota::Ask::AmendQuota(amend, value) => {
                to.arg("quota").arg(how(amend)).arg(value);
            }
            quota::Ask::AmendLifetime(amend, value) => {
                to.arg("lifetime").arg(how(amend)).arg(value);
            }
        }
    }
}

const fn how(amend: Amend) -> &'static str {
    match amend {
        Amend::Patch => "set",
        Amend::Increase => "add",
        Amend::Decrease => "take",
    }
}

const fn word(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Milliseconds => "ms",
        Unit::Seconds => "s",
    }
}

/// What a reply means.
pub(crate) fn read(reply: &Value) -> Result<Answer, Failure> {
    read_fields(reply).ok_or_else(|| nonsense(reply))
}

fn read_fields(reply: &Value) -> Option<Answer> {
    let Value::Array(items) = reply else { return None };
    let [Value::Int(secs), Value::Int(micros), Value::Int(can), rest @ ..] = items.as_slice()
    else {
        return None;
    };
    let now = point(*secs, micros.checked_mul(1_000)?)?;
    if rest.is_empty() {
        return Some(Answer { outcome: Outcome::default(), now });
    }
    let [
        Value::BulkString(remaining),
        Value::BulkString(unit),
        Value::Int(expires),
        Value::Int(fraction),
    ] = rest
    else {
        return None;
    };
    let unit = match unit.as_slice() {
        b"ns" => Unit::Nanoseconds,
        b"ms" => Unit::Milliseconds,
        b"s" => Unit::Seconds,
        _ => return None,
    };
    let remaining = str::from_utf8(remaining).ok()?.parse().ok()?;
    let ttl = unit.whole(point(*expires, *fraction)?.since(now));
    Some(Answer { outcome: Outcome { can: *can == 1, remaining, unit, ttl }, now })
}

fn point(secs: i64, nanos: i64) -> Option<Moment> {
    let (secs, nanos) = (u64::try_from(secs).ok()?, u64::try_from(nanos).ok()?);
    Some(Moment::from_nanos(secs.checked_mul(NANOS_PER_SEC)?.checked_add(nanos)?))
}

#[cfg(test)]
mod tests;
