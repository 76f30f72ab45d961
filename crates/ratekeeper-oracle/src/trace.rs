//! Judging answers that were seen from outside.
//!
//! Whoever asks knows when a request was sent and when its answer was received. It was decided at
//! some time in between, and requests that overlap may have been decided in either order. So a
//! finding here holds for *every* choice of times in between: what only a network can have
//! reordered is never held against the limiter. Clocks need not agree, only run equally fast.
//!
//! Nothing is assumed about what was spent before the first request. For what was allowed, all may
//! have been there; for what was denied, nothing may.

mod average;
mod finding;
mod quota;
mod tokens;
mod windows;

use crate::terms::Terms;
pub use finding::{Finding, Findings, Why};

/// What was seen of one ask. Times are in nanoseconds, on the clock of whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// It was decided no earlier than this,
    pub sent: u64,
    /// and no later than this. Of one that was not answered nobody knows: [`NEVER`].
    pub received: u64,
    /// What was answered.
    pub said: Said,
}

impl Seen {
    /// When the answer was received, or the request sent that was not answered.
    pub fn answered_at(&self) -> u64 {
        if self.received == NEVER { self.sent } else { self.received }
    }
}

/// When an answer was received that was not.
pub const NEVER: u64 = u64::MAX;

/// What an ask was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// It was allowed.
    Allowed,
    /// It was denied.
    Denied,
    /// Nobody answered: it may have been spent, at any time since, or not.
    Nothing,
}

/// What decides over the asks of one bucket. All of them ask for as much as each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Tokens, of which each ask takes `cost`.
    Tokens {
        /// What the bucket holds, and how it is refilled.
        terms: Terms,
        /// At least 1, at most the burst.
        cost: u64,
    },
    /// A decaying average of uses per period.
    Average {
        /// How many uses per period are too many.
        limit: f64,
        /// The period, in seconds.
        period_secs: f64,
        /// Whether uses that are refused count too.
        strict: bool,
    },
    /// A counter that lives for a while from its first use, then begins anew.
    Quota {
        /// How many uses there are in a lifetime.
        quota: u64,
        /// How many each ask takes; at least 1.
        usage: u64,
        /// How long it lives, in nanoseconds; at least 1.
        ttl_ns: u64,
    },
    /// Always the same.
    Fixed {
        /// Whether all are allowed, or none.
        allowed: bool,
    },
}

/// How long a period, or a lifetime, can be, in nanoseconds: 146 years.
const PERIOD_NS_MAX: u64 = 1 << 62;
/// How many tokens there can be in a burst, or in a period.
const TOKENS_MAX: u64 = 1 << 32;
/// How many asks of one bucket can be judged. With the two above, sums stay below 2^127.
const ASKS_MAX: usize = 1 << 30;

impl Rule {
    /// Why asks under this rule cannot be judged, if they cannot.
    pub fn refusal(&self) -> Option<&'static str> {
        let is_too_long = |ns: u64| ns == 0 || ns > PERIOD_NS_MAX;
        match *self {
            Self::Tokens { terms, cost } => {
                let Terms { burst, count, period_ns } = terms;
                let is_beyond = burst > TOKENS_MAX || count > TOKENS_MAX || is_too_long(period_ns);
                match cost {
                    _ if !terms.are_valid() || is_beyond => Some("its numbers are beyond bounds"),
                    0 => Some("a cost of 0 takes nothing, so nothing can go wrong"),
                    cost if cost > burst => Some("the cost is more than a bucket ever holds"),
                    _ => None,
                }
            }
            Self::Average { limit, period_secs, .. } => {
                let is_good = limit.is_finite() && period_secs.is_finite() && period_secs > 0.0;
                (!is_good).then_some("its numbers are beyond bounds")
            }
            Self::Quota { usage: 0, .. } => {
                Some("a cost of 0 takes nothing, so nothing can go wrong")
            }
            Self::Quota { quota, usage, ttl_ns } => {
                let is_beyond = quota / usage > TOKENS_MAX / 2 || is_too_long(ttl_ns);
                is_beyond.then_some("its numbers are beyond bounds")
            }
            Self::Fixed { .. } => None,
        }
    }

    /// What certainly went wrong among the asks of one bucket, in any order, of which the first was
    /// sent no earlier than `start`; the first `told_max` of each kind are told. Finds nothing where
    /// there is a [`refusal`](Self::refusal).
    pub fn judge(&self, start: u64, asks: &[Seen], told_max: usize) -> Findings {
        let mut findings = Findings::new(told_max);
        if self.refusal().is_some() || asks.len() > ASKS_MAX {
            return findings;
        }
        match *self {
            Self::Tokens { terms, cost } => {
                windows::judge(terms, cost, asks, &mut findings);
                tokens::judge(terms, cost, start, asks, &mut findings);
            }
            // Even the first use is denied: its rate is 0.
            Self::Average { limit, .. } if limit <= 0.0 => fixed(false, asks, &mut findings),
            Self::Average { limit, period_secs, strict } => {
                let average = average::Average { limit, period_secs, strict };
                average.judge_allowed(asks, &mut findings);
                average.judge_denied(start, asks, &mut findings);
            }
            Self::Quota { quota, usage, ttl_ns } => {
                quota::judge(quota / usage, ttl_ns, start, asks, &mut findings);
            }
            Self::Fixed { allowed } => fixed(allowed, asks, &mut findings),
        }
        findings
    }
}

fn fixed(allowed: bool, asks: &[Seen], findings: &mut Findings) {
    for ask in asks {
        match (ask.said, allowed) {
            (Said::Allowed, false) => findings.over(ask, Why::Never),
            (Said::Denied, true) => findings.wrong(ask, Why::Always),
            _ => {}
        }
    }
}

/// Those that were answered so, by when they were received.
fn answered(asks: &[Seen], said: Said) -> Vec<Seen> {
    let mut found: Vec<Seen> = asks.iter().filter(|ask| ask.said == said).copied().collect();
    found.sort_unstable_by_key(|ask| (ask.received, ask.sent));
    found
}

/// Asks that may have been counted, to be found by when they may have been.
struct Counted {
    /// In order.
    sent: Vec<u64>,
    /// In order, whoever they belong to.
    received: Vec<u64>,
}

impl Counted {
    fn new(asks: impl Iterator<Item = Seen> + Clone) -> Self {
        let mut sent: Vec<u64> = asks.clone().map(|ask| ask.sent).collect();
        let mut received: Vec<u64> = asks.map(|ask| ask.received).collect();
        sent.sort_unstable();
        received.sort_unstable();
        Self { sent, received }
    }

    /// How many may have been decided in `from..=until`: sent by its end, and not received before
    /// it begins.
    fn during(&self, from: u64, until: u64) -> usize {
        let sent = self.sent.partition_point(|&sent| sent <= until);
        sent.saturating_sub(self.before(from))
    }

    /// How many were received before.
    fn before(&self, moment: u64) -> usize {
        self.received.partition_point(|&received| received < moment)
    }
}
