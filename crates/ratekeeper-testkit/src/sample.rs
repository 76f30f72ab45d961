//! Sampling of terms: every decade of rate and burst, and the awkward fractions in particular.

use crate::random::Random;
use crate::terms::{Terms, gcd};

/// The longest period sampled: one year.
pub const PERIOD_NS_MAX: u64 = 365 * 86_400 * SECOND_NS;
/// The highest count sampled, in lowest terms.
pub const COUNT_MAX: u64 = 1 << 32;
/// The largest burst sampled.
pub const BURST_MAX: u64 = 1 << 32;
/// How often terms that the subject does not accept are sampled anew before giving up.
pub const TRIES_MAX: usize = 10_000;

const SECOND_NS: u64 = 1_000_000_000;
const PERIODS_NS: [u64; 7] = [
    1_000,
    1_000_000,
    SECOND_NS,
    60 * SECOND_NS,
    3_600 * SECOND_NS,
    86_400 * SECOND_NS,
    PERIOD_NS_MAX,
];

/// Rates that have broken limiters before, as count and period.
const AWKWARD: [(u64, u64); 14] = [
    (999_999_937, SECOND_NS),
    (700_000_000, SECOND_NS),
    (3, SECOND_NS),
    (7, 11),
    (1, 1),
    (1, 2),
    (2, 3),
    (SECOND_NS, SECOND_NS),
    (1, PERIOD_NS_MAX),
    (300, 10_800 * SECOND_NS),
    (4_294_967_291, PERIOD_NS_MAX),
    (COUNT_MAX, PERIOD_NS_MAX - 1),
    (COUNT_MAX - 1, COUNT_MAX),
    (999_999_999, SECOND_NS + 7),
];

/// Samples terms that `accepts` says yes to.
///
/// # Panics
/// Where `accepts` refuses everything: there is nothing to test then.
pub fn terms(random: &mut Random, accepts: fn(Terms) -> bool) -> Terms {
    accepted(accepts, || any_terms(random))
}

/// Samples the terms that `old` might be changed to: often near, sometimes unrelated.
///
/// # Panics
/// Where `accepts` refuses everything.
pub fn changed(random: &mut Random, old: Terms, accepts: fn(Terms) -> bool) -> Terms {
    accepted(accepts, || match random.below(6) {
        0 => Terms { burst: burst(random), ..old },
        1 => Terms { burst: near(random, old.burst, BURST_MAX), ..old },
        2 => Terms { count: near(random, old.count, old.period_ns.min(COUNT_MAX)), ..old },
        3 => Terms { period_ns: near(random, old.period_ns, PERIOD_NS_MAX).max(old.count), ..old },
        4 => {
            let (count, period_ns) = unreduced(random, (old.count, old.period_ns));
            Terms { count, period_ns, ..old }
        }
        _ => any_terms(random),
    })
}

fn accepted(accepts: fn(Terms) -> bool, mut sample: impl FnMut() -> Terms) -> Terms {
    // A change of a rate that was not reduced may leave it with a count that is out of range.
    let in_range = |terms: Terms| terms.count / terms.ticks_per_step() <= COUNT_MAX;
    let found = (0..TRIES_MAX).map(|_| sample()).find(|&terms| in_range(terms) && accepts(terms));
    found.expect("the subject accepts some of the terms")
}

fn any_terms(random: &mut Random) -> Terms {
    let burst = burst(random);
    let (count, period_ns) = rate(random);
    Terms { burst, count, period_ns }
}

fn burst(random: &mut Random) -> u64 {
    match random.below(16) {
        0 => 1,
        1 => BURST_MAX,
        2 => BURST_MAX - 1,
        3..=6 => random.between(1, 20),
        _ => random.log_between(1, BURST_MAX),
    }
}

fn rate(random: &mut Random) -> (u64, u64) {
    match random.below(8) {
        0 | 1 => random.pick(&AWKWARD),
        2 | 3 => {
            let period_ns = random.pick(&PERIODS_NS);
            (count_for(random, period_ns), period_ns)
        }
        4 => free(random),
        5 => {
            let rate = free(random);
            unreduced(random, rate)
        }
        _ => without_common_factor(free(random)),
    }
}

/// Any period, and a count of at most one per nanosecond.
fn free(random: &mut Random) -> (u64, u64) {
    let period_ns = random.log_between(1, PERIOD_NS_MAX);
    (count_for(random, period_ns), period_ns)
}

fn count_for(random: &mut Random, period_ns: u64) -> u64 {
    random.log_between(1, period_ns.min(COUNT_MAX))
}

fn without_common_factor((count, period_ns): (u64, u64)) -> (u64, u64) {
    let coprime = (1..=count).rev().find(|&count| gcd(count, period_ns) == 1);
    (coprime.unwrap_or(1), period_ns)
}

/// The same rate spelled with larger numbers.
fn unreduced(random: &mut Random, (count, period_ns): (u64, u64)) -> (u64, u64) {
    let factor = random.log_between(1, (PERIOD_NS_MAX / period_ns).max(1));
    (count * factor, period_ns * factor)
}

/// A neighbour, a small multiple or a small fraction of `value`, from 1 to `max`.
fn near(random: &mut Random, value: u64, max: u64) -> u64 {
    let near = match random.below(4) {
        0 => value.saturating_sub(random.below(3)),
        1 => value.saturating_add(random.below(3)),
        2 => value.saturating_mul(random.between(2, 7)),
        _ => value / random.between(2, 7),
    };
    near.clamp(1, max)
}
