//! A decision as programs read it.

use serde::Serialize;
use tollgate::Decision;

/// One line of JSON; the order of the fields is the order of the keys. Times are whole
/// nanoseconds and may be larger than 64 bits.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    allowed: bool,
    remaining: u64,
    retry_in: u128,
    reset_in: u128,
    limit: &'a str,
    id: &'a str,
    bucket: &'a str,
    /// Only where it is so: a limit that is in shadow lets pass what it would have denied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
}

impl<'a> Answer<'a> {
    /// What was decided, for an id as it was given, over the bucket it is counted in.
    pub(crate) fn new(decision: &Decision, limit: &'a str, id: &'a str, bucket: &'a str) -> Self {
        Self {
            allowed: decision.allowed,
            remaining: decision.remaining,
            retry_in: decision.retry_in.get(),
            reset_in: decision.reset_in.get(),
            limit,
            id,
            bucket,
            shadow: decision.shadow,
        }
    }
}
