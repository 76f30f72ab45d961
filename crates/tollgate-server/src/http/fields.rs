//! From decisions to header fields: `RateLimit`, `RateLimit-Policy`, `Retry-After` and the older
//! `X-RateLimit-*`.
//!
//! Whatever they say is true: whoever waits as long as any of them says, passes, if nobody else
//! spends. So every length of time is rounded up.

#[cfg(test)]
mod parser;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt::Write as _;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use tollgate::limiter::TRANSACTION_ASKS_MAX;
use tollgate::limits::Limit;
use tollgate::{Decision, Moment, Nanos};

use crate::settings::XRateLimit;

/// How many policies are listed: the one that decided, then those that deny, then the strictest.
pub(crate) const POLICIES_MAX: usize = 16;
/// How long a list of policies is at most, so that no client refuses the answer for its header.
/// One policy always fits: a name has a thousand bytes, each of which takes three at most.
pub(crate) const FIELD_BYTES_MAX: usize = 4 << 10;

/// The largest integer of a structured field: 15 digits.
const INTEGER_MAX: u128 = 999_999_999_999_999;
const SECOND: u128 = 1_000_000_000;
const MILLISECOND: u128 = 1_000_000;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// One ask and what it was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    /// The name of the limit.
    pub(crate) name: &'a str,
    /// What applies to the id.
    pub(crate) limit: &'a Limit,
    pub(crate) decision: Decision,
    /// Whether it can deny its transaction; a spend-only ask cannot.
    pub(crate) has_say: bool,
}

/// What a transaction was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers<'a> {
    /// Its asks; of more than a transaction can have, the first.
    pub(crate) asks: &'a [Answered<'a>],
    /// Which of them decided.
    pub(crate) decided_by: usize,
    /// Whether the answer as a whole is a denial, so that the client has to come again.
    pub(crate) denied: bool,
}

/// Adds the fields that say how much is left and when there is more. `now` counts from 1970.
pub(crate) fn write(to: &mut HeaderMap, answers: &Answers<'_>, dialect: XRateLimit, now: Moment) {
    let retry_after = answers.retry_after_secs();
    write_lists(to, answers, retry_after);
    if let Some(secs) = retry_after {
        to.insert(RETRY_AFTER, secs.into());
    }
    if let Some(ask) = answers.asks.get(answers.decided_by) {
        write_dialect(to, ask, dialect, now);
    }
}

/// How long until the bucket has one more token; zero if it is full. At most a nanosecond too
/// long, as what is left of the current token is known in whole nanoseconds only.
pub(crate) fn next_in(limit: &Limit, decision: &Decision) -> Nanos {
    let (step, rate) = limit.rule().emission_interval();
    let missing = limit.burst().saturating_sub(decision.remaining);
    // Rounded down, so that the rest is rounded up.
    let others = u128::from(missing.saturating_sub(1)) * u128::from(step) / u128::from(rate.max(1));
    Nanos::new(decision.reset_in.get().saturating_sub(others))
}

impl Answered<'_> {
    fn denies(&self) -> bool {
        self.has_say && !self.decision.allowed
    }

    /// How long until there is more for whoever asked: until the same ask passes if it would not
    /// now, else until one more token is there. Zero if the bucket is full.
    fn more_in(&self) -> Nanos {
        match self.decision.retry_in {
            Nanos::ZERO => next_in(self.limit, &self.decision),
            wait => wait,
        }
    }

    /// In how many seconds an empty bucket becomes full.
    fn window_secs(&self) -> u64 {
        let (step, rate) = self.limit.rule().emission_interval();
        let ticks = u128::from(self.limit.burst()) * u128::from(step);
        integer(ticks.div_ceil(u128::from(rate.max(1)) * SECOND).max(1))
    }
}

impl Answers<'_> {
    /// The longest wait of the asks that deny; nothing unless the answer is a denial.
    fn retry_after_secs(&self) -> Option<u64> {
        let denying = self.asks.iter().filter(|ask| ask.denies());
        let waits = denying.map(|ask| whole_secs(ask.decision.retry_in));
        self.denied.then(|| waits.max().unwrap_or_default().max(1))
    }
}

/// `RateLimit-Policy` and `RateLimit`, which list the same policies in the same order.
fn write_lists(to: &mut HeaderMap, answers: &Answers<'_>, retry_after: Option<u64>) {
    let mut places: [usize; TRANSACTION_ASKS_MAX] = std::array::from_fn(|place| place);
    let places = &mut places[..answers.asks.len().min(TRANSACTION_ASKS_MAX)];
    let order = |&place: &usize| (place != answers.decided_by, rank(&answers.asks[place]), place);
    places.sort_unstable_by_key(order);
    let (mut policies, mut states) = (String::new(), String::new());
    let mut listed: [&str; POLICIES_MAX] = [""; POLICIES_MAX];
    let mut count = 0;
    for ask in places.iter().map(|&place| &answers.asks[place]) {
        // A name stands for one policy. Of several ids under it the strictest is told.
        if listed[..count].contains(&ask.name) {
            continue;
        }
        let lengths = (policies.len(), states.len());
        list_policy(&mut policies, ask);
        list_state(&mut states, ask, retry_after);
        if policies.len().max(states.len()) > FIELD_BYTES_MAX {
            policies.truncate(lengths.0);
            states.truncate(lengths.1);
            break;
        }
        listed[count] = ask.name;
        count += 1;
        if count == POLICIES_MAX {
            break;
        }
    }
    insert(to, RATELIMIT_POLICY, policies);
    insert(to, RATELIMIT, states);
}

/// Smaller is told earlier: who denies, then who waits longest, then who has least left.
fn rank(ask: &Answered<'_>) -> impl Ord + use<> {
    (!ask.denies(), Reverse(ask.decision.retry_in), ask.decision.remaining)
}

fn list_policy(to: &mut String, ask: &Answered<'_>) {
    list_name(to, ask.name);
    let quota = integer(ask.limit.burst().into());
    let _ = write!(to, ";q={quota};w={}", ask.window_secs());
}

fn list_state(to: &mut String, ask: &Answered<'_>, retry_after: Option<u64>) {
    list_name(to, ask.name);
    let _ = write!(to, ";r={}", integer(ask.decision.remaining.into()));
    let more_in = whole_secs(ask.more_in());
    // Nobody who was denied has to wait for the buckets that would have let him pass.
    if more_in > 0 && retry_after.is_none_or(|retry_after| more_in <= retry_after) {
        let _ = write!(to, ";t={more_in}");
    }
}

/// A name as a string of a structured field, which can hold printable ASCII only. The rest is
/// percent-encoded, and the percent sign too, so that decoding always gives the name.
fn list_name(to: &mut String, name: &str) {
    to.push_str(if to.is_empty() { "\"" } else { ", \"" });
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => to.extend(['\\', byte.into()]),
            b'%' => to.push_str("%25"),
            b' '..=b'~' => to.push(byte.into()),
            _ => {
                let _ = write!(to, "%{byte:02X}");
            }
        }
    }
    to.push('"');
}

fn write_dialect(to: &mut HeaderMap, ask: &Answered<'_>, dialect: XRateLimit, now: Moment) {
    let at = u128::from(now.as_nanos()).saturating_add(ask.more_in().get());
    let reset = match dialect {
        XRateLimit::Off => return,
        XRateLimit::Seconds => whole_secs(ask.more_in()).into(),
        XRateLimit::Unix => integer(at.div_ceil(SECOND)).into(),
        XRateLimit::UnixMs => integer(at.div_ceil(MILLISECOND)).into(),
        XRateLimit::Iso8601 => return write_date(to, ask, at),
    };
    write_numbers(to, ask, reset);
}

fn write_date(to: &mut HeaderMap, ask: &Answered<'_>, at: u128) {
    let secs = i64::try_from(at.div_ceil(SECOND)).unwrap_or(i64::MAX);
    // The last second there is stands for all that come later.
    let date = Timestamp::from_second(secs).or(Timestamp::from_second(Timestamp::MAX.as_second()));
    let date = date.unwrap_or(Timestamp::MAX).to_string();
    if let Ok(date) = HeaderValue::try_from(date) {
        write_numbers(to, ask, date);
    }
}

fn write_numbers(to: &mut HeaderMap, ask: &Answered<'_>, reset: HeaderValue) {
    to.insert(X_RATELIMIT_LIMIT, ask.limit.burst().into());
    to.insert(X_RATELIMIT_REMAINING, ask.decision.remaining.into());
    to.insert(X_RATELIMIT_RESET, reset);
}

/// The text is printable ASCII, which a field can always hold.
fn insert(to: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        to.insert(name, value);
    }
}

/// Rounds up: a client that waits this long has waited long enough.
fn whole_secs(length: Nanos) -> u64 {
    integer(length.get().div_ceil(SECOND))
}

/// The largest integer that a field can hold stands for all that are larger.
fn integer(value: u128) -> u64 {
    u64::try_from(value.min(INTEGER_MAX)).unwrap_or(u64::MAX)
}
