//! Requests as bytes, and answers. All numbers are little-endian.

use ratekeeper::algorithm::quota::{Amend, Ask, Outcome, Unit};

/// The longest request: an insert whose two ids have 255 bytes each.
pub(super) const FRAME_BYTES_MAX: usize = 28 + 2 * 255;
/// The answer to an insert or a query.
pub(super) const STATE_BYTES: usize = 18;

const INSERT: u8 = 1;
const QUERY: u8 = 2;
const UPDATE: u8 = 3;
const PURGE: u8 = 4;

/// A request for the quota of a consumer on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) ask: Ask,
    /// Both, as they stand in the request: first how long they are, a byte each. So it is unlike
    /// that of every other pair, and there is nothing to put together for it.
    pub(super) key: &'a [u8],
}

impl<'a> Request<'a> {
    /// The consumer and the resource.
    pub(super) fn ids(&self) -> [&'a [u8]; 2] {
        let ids = match self.key {
            [consumer, _, ids @ ..] => ids.split_at_checked(usize::from(*consumer)),
            _ => None,
        };
        ids.unwrap_or_default().into()
    }
}

/// Whether a request can begin with this byte.
#[inline]
pub(super) fn is_opcode(byte: u8) -> bool {
    matches!(byte, INSERT | QUERY | UPDATE | PURGE)
}

/// The first request and what follows it; nothing if it is not complete, or none begins here.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Option<(Request<'_>, &[u8])> {
    let mut fields = Fields { rest: bytes };
    let ask = match fields.byte()? {
        INSERT => fields.insert()?,
        QUERY => Ask::Query,
        UPDATE => fields.update()?,
        PURGE => Ask::Purge,
        _ => return None,
    };
    let [consumer, resource, ..] = *fields.rest else { return None };
    let length = usize::from(consumer).saturating_add(resource.into()).saturating_add(2);
    let (key, rest) = fields.rest.split_at_checked(length)?;
    Some((Request { ask, key }, rest))
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    #[inline]
    fn insert(&mut self) -> Option<Ask> {
        let [quota, usage] = [self.number()?, self.number()?];
        let unit = match self.byte()? {
            0 => Unit::Nanoseconds,
            1 => Unit::Milliseconds,
            // The original takes whatever else it finds for seconds.
            _ => Unit::Seconds,
        };
        Some(Ask::Insert { quota, usage, ttl: self.number()?, unit })
    }

    fn update(&mut self) -> Option<Ask> {
        let [attribute, change] = [self.byte()?, self.byte()?];
        let value = self.number()?;
        let amend = match change {
            0 => Amend::Patch,
            1 => Amend::Increase,
            2 => Amend::Decrease,
            _ => return Some(Ask::Touch),
        };
        Some(match attribute {
            0 => Ask::AmendQuota(amend, value),
            1 => Ask::AmendLifetime(amend, value),
            _ => Ask::Touch,
        })
    }
}

/// Appends the answer to a request: the state of the quota, or whether it was changed.
#[inline]
pub(super) fn write(ask: &Ask, outcome: &Outcome, out: &mut Vec<u8>) {
    let can = u8::from(outcome.can);
    if !matches!(ask, Ask::Insert { .. } | Ask::Query) {
        out.push(can);
        return;
    }
    let unit = match outcome.unit {
        Unit::Nanoseconds => 0,
        Unit::Milliseconds => 1,
        Unit::Seconds => 2,
    };
    let ttl = i64::try_from(outcome.ttl).unwrap_or(i64::MAX);
    let mut state = [0; STATE_BYTES];
    state[0] = can;
    state[1..9].copy_from_slice(&outcome.remaining.to_le_bytes());
    state[9] = unit;
    state[10..].copy_from_slice(&ttl.to_le_bytes());
    out.extend_from_slice(&state);
}
