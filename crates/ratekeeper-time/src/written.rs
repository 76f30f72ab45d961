//! Moments as text: `@` and whole nanoseconds since the epoch, so that lengths are not taken for them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Moment;

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("@{}", self.as_nanos()))
    }
}

impl<'d> Deserialize<'d> for Moment {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let nanos = text.strip_prefix('@').and_then(|nanos| nanos.parse().ok());
        nanos.map(Self::from_nanos).ok_or_else(|| {
            D::Error::custom(format_args!("expected `@` and nanoseconds, and found `{text}`"))
        })
    }
}
