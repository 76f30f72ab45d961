//! What holds for every stream of bytes.

use std::sync::Arc;

use ratekeeper::Limiter;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};

use super::{Door, Session};
use crate::drive::{cuts_of, drive};

/// Short, so that a fuzzer finds lines that are longer.
const FUZZED_LINE_BYTES_MAX: usize = 40;

const BUCKETS: Source<'_> = Source { name: "buckets", text: "a 1\nb 100\n\u{420} 0.5 7\n" };
/// With some that could be taken for an id of a limit, or of another bucket.
const BUCKETS_WITH_COLONS: Source<'_> =
    Source { name: "buckets", text: "a 1\nb 100\na:b 5\nL:x 1 5\n\u{420} 0.5 7\n" };
const LIMITS: Source<'_> = Source {
    name: "limits",
    text: "L: {burst: 2, count: 1, period: 1s}\nI: {burst: 2, count: 1, period: 1s, id: ipAddress}\n",
};

/// Cutting the stream elsewhere changes no reply, no read causes more bytes of reply than is
/// promised, and no more than a line is remembered.
///
/// # Panics
///
/// If that does not hold.
pub fn fuzz_one(data: &[u8]) {
    let buckets = if data.len().is_multiple_of(2) { &BUCKETS } else { &BUCKETS_WITH_COLONS };
    let [one, other] = [door(buckets), door(buckets)];
    let whole = drive(&one, data, || usize::MAX, Session::held_bytes, FUZZED_LINE_BYTES_MAX + 1);
    let cut = drive(&other, data, cuts_of(data), Session::held_bytes, FUZZED_LINE_BYTES_MAX + 1);
    assert_eq!(whole, cut);
    let lines = whole.replies.split(|byte| *byte == b'\n').skip(1).count();
    let counted = whole.counts.requests.saturating_add(whole.counts.malformed);
    assert_eq!(u64::try_from(lines), Ok(counted), "every line has one answer");
}

#[expect(clippy::expect_used, reason = "what cannot be made cannot be fuzzed")]
fn door(buckets: &Source<'_>) -> Door {
    let limits = Limits::parse(&LIMITS, None).expect("the limits are right");
    let limits = limits.with_buckets(buckets).expect("the buckets are right");
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, Secret::new(1, 2));
    let limiter = Arc::new(limiter.expect("there is memory"));
    Door::new(limiter).with_line_bytes_max(FUZZED_LINE_BYTES_MAX)
}
