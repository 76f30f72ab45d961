//! Verdicts on traces: no choice of times that explains a trace is ever overlooked, and what
//! nothing explains is found.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod average;
mod brute;
mod quota;
mod tokens;

use ratekeeper_oracle::trace::{NEVER, Said, Seen};
use ratekeeper_testkit::random::Random;

/// What somebody saw of an ask that was decided at `at`: answers may be late, and be lost.
fn seen(at: u64, allowed: bool, random: &mut Random, late_max: u64) -> Seen {
    let said = if allowed { Said::Allowed } else { Said::Denied };
    let sent = at - random.below(late_max + 1).min(at);
    let received = at + random.below(late_max + 1);
    if late_max > 0 && random.chance(1, 20) {
        return Seen { sent, received: NEVER, said: Said::Nothing };
    }
    Seen { sent, received, said }
}

/// Somebody who sees exactly when.
fn exactly(at: u64, said: Said) -> Seen {
    Seen { sent: at, received: at, said }
}

fn shuffle(asks: &mut [Seen], random: &mut Random) {
    for last in (1..asks.len()).rev() {
        asks.swap(last, random.index(last + 1));
    }
}
