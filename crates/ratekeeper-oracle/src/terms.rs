//! The terms of a limit, and the two roundings of its answers.

use std::fmt;

use num_bigint::BigInt;

/// What a limit allows: `burst` tokens at once, refilled at `count` per `period_ns`.
///
/// No field may be zero. Inside the oracle, time is counted in *ticks* of `1/count` ns: in ticks a
/// moment is `ns * count` and one token is `period_ns`, both whole, so nothing is ever rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How many tokens a full bucket holds.
    pub burst: u64,
    /// How many tokens flow back in one period.
    pub count: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
}

impl Terms {
    /// Whether the terms mean anything: no field is zero.
    pub fn are_valid(self) -> bool {
        self.burst > 0 && self.count > 0 && self.period_ns > 0
    }

    /// The emission interval rounded down to whole nanoseconds; for sampling, never for deciding.
    pub fn interval_ns_floor(self) -> u64 {
        self.period_ns / self.count
    }

    /// How many ticks make the finest step in time that these terms can tell apart.
    ///
    /// Every state reachable from a whole nanosecond is a multiple of `1/count'` ns, where
    /// `count'/period'` is the rate in lowest terms; a tick is finer where the rate is not reduced.
    pub fn ticks_per_step(self) -> u64 {
        gcd(self.count, self.period_ns)
    }

    /// Whether no caller could tell the two apart: 2 per 2 s is 1 per 1 s.
    pub fn mean_the_same_as(self, other: Self) -> bool {
        self.burst == other.burst
            && product(self.count, other.period_ns) == product(other.count, self.period_ns)
    }

    /// A moment or length in nanoseconds, in ticks.
    pub fn ticks(self, ns: u64) -> BigInt {
        product(ns, self.count)
    }

    /// What `tokens` cost in time, in ticks.
    pub fn price(self, tokens: u64) -> BigInt {
        product(tokens, self.period_ns)
    }

    /// The first number of tokens that is too large for a bucket to hide under these terms.
    ///
    /// A bucket has 96 bits for its arrival time, counted in the finest steps, and hides tokens in
    /// those that no arrival time of these terms reaches, if time ends before 2^63 ns.
    pub fn hidden_end(self) -> BigInt {
        let step = self.ticks_per_step();
        let last = self.ticks(u64::MAX >> 1) / step + self.price(self.burst) / step;
        BigInt::from(1) << 96_u64.saturating_sub(last.bits())
    }

    /// Whole tokens in a length of time, rounded down; none in a negative one.
    pub(crate) fn tokens_floor(self, ticks: &BigInt) -> u64 {
        let tokens = ticks.max(&BigInt::ZERO) / self.period_ns;
        u64::try_from(tokens).expect("no bucket holds more than its burst")
    }

    /// Whole nanoseconds that cover a length of time; none for a negative one.
    pub(crate) fn ns_ceil(self, ticks: &BigInt) -> u128 {
        let ns = ceil_div(ticks.max(&BigInt::ZERO), self.count);
        u128::try_from(ns).expect("burst * period is below 2^128 ns")
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "burst {}, {} per {} ns", self.burst, self.count, self.period_ns)
    }
}

/// `dividend / divisor` rounded up, for a dividend that is not negative.
pub fn ceil_div(dividend: &BigInt, divisor: u64) -> BigInt {
    (dividend + (divisor - 1)) / divisor
}

/// The greatest common divisor; `gcd(a, 0)` is `a`.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn product(a: u64, b: u64) -> BigInt {
    BigInt::from(u128::from(a) * u128::from(b))
}
