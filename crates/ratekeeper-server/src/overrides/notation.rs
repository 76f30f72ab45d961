//! How times and lengths are written where programs read them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use ratekeeper::limits::Limit;
use ratekeeper::{Moment, Nanos};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

const SECOND: u128 = SECOND_NANOS as u128;
const SECOND_NANOS: u64 = 1_000_000_000;

/// A moment as RFC 3339 writes it, in UTC: `2040-12-01T00:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, format = DateTime, examples("2040-12-01T00:00:00Z"))]
pub struct Utc(pub Moment);

/// Why a text is not a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time from 1970 to 2262 with an offset: expected one such as 2040-12-01T00:00:00Z")]
pub struct UtcError;

/// Exact to the nanosecond.
impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_nanosecond(self.0.as_nanos().into()) {
            Ok(timestamp) => timestamp.fmt(f),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl FromStr for Utc {
    type Err = UtcError;

    fn from_str(text: &str) -> Result<Self, UtcError> {
        let timestamp: Timestamp = text.parse().map_err(|_| UtcError)?;
        let nanos = u64::try_from(timestamp.as_nanosecond()).map_err(|_| UtcError)?;
        let moment = Moment::from_nanos(nanos);
        if moment.as_nanos() == nanos { Ok(Self(moment)) } else { Err(UtcError) }
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Utc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A length as a number of seconds, exact to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = f64)]
pub struct Seconds(pub Nanos);

impl Seconds {
    /// As JSON writes it: a double could be a wait too short.
    pub(crate) fn decimal(self) -> Box<RawValue> {
        let mut text = Vec::new();
        self.write(&mut text);
        let text = String::from_utf8(text).unwrap_or_default();
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// Appends the same.
    pub(crate) fn write(self, to: &mut Vec<u8>) {
        let nanos = self.0.get();
        // Dividing 128 bits takes many times as long as 64, and writing them too. Writing a number
        // into memory cannot fail.
        let rest = if let Ok(nanos) = u64::try_from(nanos) {
            let _ = serde_json::to_writer(&mut *to, &(nanos / SECOND_NANOS));
            nanos % SECOND_NANOS
        } else {
            let _ = serde_json::to_writer(&mut *to, &(nanos / SECOND));
            u64::try_from(nanos % SECOND).unwrap_or_default()
        };
        if rest > 0 {
            write_fraction(rest, to);
        }
    }
}

/// Appends nanoseconds that are less than a second, as the fraction of one.
fn write_fraction(nanos: u64, to: &mut Vec<u8>) {
    let mut fraction = *b".000000000";
    let mut rest = nanos;
    for digit in fraction.iter_mut().skip(1).rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    let end = fraction.iter().rposition(|digit| *digit != b'0');
    to.extend_from_slice(fraction.get(..=end.unwrap_or_default()).unwrap_or_default());
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.decimal().serialize(serializer)
    }
}

/// Terms in the words of people: `300 per 3h`.
#[expect(clippy::ref_option, reason = "this is how serde calls it")]
pub(super) fn terms<S: Serializer>(
    terms: &Option<Limit>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match terms {
        Some(terms) => serializer.collect_str(terms),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests;
