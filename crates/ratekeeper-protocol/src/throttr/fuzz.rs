//! What holds for every stream of bytes.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter};

use super::codec::FRAME_BYTES_MAX;
use super::{Door, Options, Session};
use crate::drive::{cuts_of, drive};

const LIMITS: Source<'_> = Source {
    name: "limits",
    text: "L: {burst: 2, count: 1, period: 1s}\nI: {burst: 2, count: 1, period: 1s, id: ipAddress}\n",
};

/// Cutting a stream of requests elsewhere changes no reply. Whatever the stream, no read causes
/// more bytes of reply than is promised, and less than a request is remembered. The first byte
/// chooses the options.
///
/// # Panics
///
/// If that does not hold.
pub fn fuzz_one(data: &[u8]) {
    let (options, stream) = data.split_first().unwrap_or((&0, &[]));
    let options = Options { strict: options & 1 != 0, named_limits: options & 2 != 0 };
    let run = |cuts: &mut dyn FnMut() -> usize| {
        drive(&door(options), stream, cuts, Session::held_bytes, FRAME_BYTES_MAX - 1)
    };
    let whole = run(&mut || usize::MAX);
    let cut = run(&mut cuts_of(data));
    // Where garbage begins and how much of it is discarded depends on the reads.
    if whole.malformed == 0 {
        assert_eq!(whole, cut);
    }
    assert!(whole.malformed <= 1, "garbage ends a read");
    let inserts = whole.counts.allowed.saturating_add(whole.counts.denied);
    assert!(inserts <= whole.counts.requests);
}

#[expect(clippy::expect_used, reason = "what cannot be made cannot be fuzzed")]
fn door(options: Options) -> Door {
    let secret = Secret::new(1, 2);
    let limits = Limits::parse(&LIMITS, None).expect("the limits are right");
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, secret).expect("there is memory");
    let quotas = Keyed::with_secret(MEMORY_MIN, secret).expect("there is memory");
    Door::new(Arc::new(quotas), Arc::new(limiter), options)
}
