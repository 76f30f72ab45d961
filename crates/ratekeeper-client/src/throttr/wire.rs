//! Throttr's wire: little-endian, packed, no length in front.

use ratekeeper::Nanos;

/// How long an id can be, in bytes: its length is one byte.
const ID_BYTES_MAX: usize = u8::MAX as usize;
/// How long the answer to an insert and to a query is, in bytes.
const ENTRY_BYTES: usize = 18;

/// Who uses what.
#[derive(Clone, Debug)]
pub struct ThrottrKey {
    /// Who uses it.
    pub consumer: ThrottrId,
    /// What is used.
    pub resource: ThrottrId,
}

/// A consumer or a resource: bytes that mean nothing to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottrId {
    length: u8,
    bytes: Vec<u8>,
}

impl ThrottrId {
    /// Refuses more bytes than can be sent.
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        match u8::try_from(bytes.len()) {
            Ok(length) => Ok(Self { length, bytes }),
            Err(_) => Err(format!("it has {} bytes, more than {ID_BYTES_MAX}", bytes.len())),
        }
    }
}

/// The unit in which a lifetime is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ThrottrUnit {
    Nanoseconds = 0,
    Milliseconds = 1,
    Seconds = 2,
}

impl ThrottrUnit {
    /// The largest comes first.
    pub const ALL: [Self; 3] = [Self::Seconds, Self::Milliseconds, Self::Nanoseconds];

    /// Its sign.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// Its name, of several.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
        }
    }

    /// How many of the unit `length` is, if it is a whole number that can be sent.
    pub fn count(self, length: Nanos) -> Option<u64> {
        let (length, size) = (length.get(), u128::from(self.size()));
        (length % size == 0).then(|| u64::try_from(length / size).ok()).flatten()
    }

    /// How long `count` of the unit are, in nanoseconds.
    pub fn nanos(self, count: i64) -> i128 {
        i128::from(count) * i128::from(self.size())
    }

    /// In nanoseconds.
    fn size(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
        }
    }
}

/// What an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum Attribute {
    Quota = 0,
    Ttl = 1,
}

/// How an update changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum Change {
    Set = 0,
    Increase = 1,
    Decrease = 2,
}

/// What can be asked about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of the protocol")]
pub enum ThrottrRequest {
    Insert { quota: u64, usage: u64, unit: ThrottrUnit, ttl: u64 },
    Query,
    Update { attribute: Attribute, change: Change, value: u64 },
    Purge,
}

impl ThrottrRequest {
    /// As it is sent.
    pub fn encode(&self, key: &ThrottrKey) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend([key.consumer.length, key.resource.length]);
        bytes.extend(&key.consumer.bytes);
        bytes.extend(&key.resource.bytes);
        bytes
    }

    /// What is sent before the lengths of the two ids, and these.
    pub fn head(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match *self {
            Self::Insert { quota, usage, unit, ttl } => {
                bytes.push(1);
                bytes.extend(quota.to_le_bytes());
                bytes.extend(usage.to_le_bytes());
                bytes.push(unit as u8);
                bytes.extend(ttl.to_le_bytes());
            }
            Self::Query => bytes.push(2),
            Self::Update { attribute, change, value } => {
                bytes.extend([3, attribute as u8, change as u8]);
                bytes.extend(value.to_le_bytes());
            }
            Self::Purge => bytes.push(4),
        }
        bytes
    }
}

/// What is kept under a key, as an insert or a query tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottrEntry {
    /// Of an insert: whether it passed. Of a query: whether there is something.
    pub can: bool,
    /// How many uses are left.
    pub remaining: u64,
    /// In what the lifetime is counted.
    pub unit: ThrottrUnit,
    /// Counted in the unit.
    pub ttl: i64,
}

impl ThrottrEntry {
    /// What the bytes say, if they say something.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let (can, rest) = bytes.split_first()?;
        let (remaining, rest) = rest.split_first_chunk()?;
        let (unit, rest) = rest.split_first()?;
        let ttl = rest.first_chunk()?;
        let can = match can {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self {
            can,
            remaining: u64::from_le_bytes(*remaining),
            unit: ThrottrUnit::ALL.into_iter().find(|known| *known as u8 == *unit)?,
            ttl: i64::from_le_bytes(*ttl),
        })
    }
}
