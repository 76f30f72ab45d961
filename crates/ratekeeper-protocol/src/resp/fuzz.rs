//! What holds for every stream of bytes.

use std::sync::Arc;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Keyed, Limiter};

use super::{Door, Gatekeeper, Pass, REQUEST_BYTES_MAX, Session};
use crate::drive::{cuts_of, drive};

/// Few, so that a fuzzer finds reads that are answered in parts.
const FUZZED_REPLY_BYTES: usize = 200;

const LIMITS: Source<'_> = Source {
    name: "limits",
    text: "L: {burst: 2, count: 1, period: 1s}\nI: {burst: 2, count: 1, period: 1s, id: ipAddress}\n",
};

/// Cutting the stream elsewhere changes no reply, no read causes more bytes of reply than is
/// promised, and no more than a request and a read are remembered. The first byte says whether
/// tokens are asked for.
///
/// # Panics
///
/// If that does not hold.
pub fn fuzz_one(data: &[u8]) {
    let (options, stream) = data.split_first().unwrap_or((&0, &[]));
    let has_tokens = options & 1 != 0;
    let run = |cuts: &mut dyn FnMut() -> usize| {
        let held_max = REQUEST_BYTES_MAX.saturating_add(stream.len());
        drive(&door(has_tokens), stream, cuts, Session::held_bytes, held_max)
    };
    let whole = run(&mut || usize::MAX);
    let cut = run(&mut cuts_of(data));
    assert_eq!(whole, cut);
    let decided = whole.counts.allowed.saturating_add(whole.counts.denied);
    assert!(decided <= whole.counts.requests);
}

#[expect(clippy::expect_used, reason = "what cannot be made cannot be fuzzed")]
pub(super) fn door(has_tokens: bool) -> Door {
    let limits = Limits::parse(&LIMITS, None).expect("the limits are right");
    let limiter = Limiter::with_secret(limits, MEMORY_MIN, Secret::new(1, 2));
    let limiter = Arc::new(limiter.expect("there is memory"));
    let buckets =
        Arc::new(Keyed::with_secret(MEMORY_MIN, Secret::new(1, 2)).expect("there is memory"));
    let door = Door::new(limiter, buckets).with_reply_bytes(FUZZED_REPLY_BYTES);
    if has_tokens { door.with_keeper(Arc::new(Keeper)) } else { door }
}

/// Knows two tokens.
struct Keeper;

impl Gatekeeper for Keeper {
    fn admit(&self, token: &[u8]) -> Option<Pass> {
        let may_decide = match token {
            b"d" => true,
            b"r" => false,
            _ => return None,
        };
        Some(Pass { may_decide, mark: [0; 32], as_of: 0 })
    }

    fn renew(&self, pass: Pass) -> Option<Pass> {
        Some(pass)
    }
}
