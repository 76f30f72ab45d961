//! From decisions to header fields: `RateLimit`, `RateLimit-Policy`, `Retry-After` and the older
//! `X-RateLimit-*`. Which asks are told, and in which order, is decided here; how they are written,
//! in the module that also reads such fields.
//!
//! Whatever they say is true: whoever waits as long as any of them says, passes, if nobody else
//! spends.

#[cfg(test)]
mod parser;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ratekeeper::limiter::TRANSACTION_ASKS_MAX;
use ratekeeper::limits::Limit;
use ratekeeper::{Decision, Moment, Nanos};
#[cfg(test)]
use ratekeeper_headers::format::FIELD_BYTES_MAX;
use ratekeeper_headers::format::{self, POLICIES_MAX, Policy, Reset, ResetStyle};
use smallvec::SmallVec;

use crate::settings::XRateLimit;

const RATELIMIT: HeaderName = HeaderName::from_static(format::RATELIMIT);
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static(format::RATELIMIT_POLICY);
const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static(format::X_RATELIMIT_LIMIT);
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static(format::X_RATELIMIT_REMAINING);
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static(format::X_RATELIMIT_RESET);

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

/// Where fields are added.
pub(crate) trait Head {
    /// Adds a field. The text is printable ASCII, which a field can always hold.
    fn text(&mut self, name: HeaderName, text: String);

    /// Adds a field that is a number.
    fn number(&mut self, name: HeaderName, number: u64);
}

/// Fields as lines, as HTTP/1 has them.
pub(crate) struct Lines<'o>(pub(crate) &'o mut Vec<u8>);

impl Head for Lines<'_> {
    fn text(&mut self, name: HeaderName, text: String) {
        let Self(out) = self;
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        let Self(out) = self;
        out.extend_from_slice(name.as_str().as_bytes());
        digits(": ", number, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a number, and what stands before it.
pub(crate) fn digits(before: &str, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(before.as_bytes());
    // Writing a number into memory cannot fail.
    let _ = serde_json::to_writer(out, &number);
}

impl Head for HeaderMap {
    fn text(&mut self, name: HeaderName, text: String) {
        if let Ok(value) = HeaderValue::try_from(text) {
            self.insert(name, value);
        }
    }

    fn number(&mut self, name: HeaderName, number: u64) {
        self.insert(name, number.into());
    }
}

/// Adds the fields that say how much is left and when there is more. `wall` is what the wall clock
/// says.
pub(crate) fn write(to: &mut impl Head, answers: &Answers<'_>, dialect: XRateLimit, wall: Moment) {
    let retry_after = answers.retry_after_secs();
    write_lists(to, answers, retry_after);
    let Some(ask) = answers.asks.get(answers.decided_by) else { return };
    write_others(to, ask, retry_after, dialect, wall);
}

/// What the two lists say of a single ask, as lines, up to the number of what is left: always the
/// same for the same limit.
pub(crate) fn begin_lists(ask: &Answered<'_>) -> String {
    let policies = format::lists([policy(ask)], None).policies;
    let name = format::quoted(ask.name);
    format!("{RATELIMIT_POLICY}: {policies}\r\n{RATELIMIT}: {name};r=")
}

/// Adds what [`begin_lists`] leaves out: the number of what is left, when there is more, and the
/// other fields.
pub(crate) fn finish_lists(
    to: &mut Vec<u8>,
    ask: &Answered<'_>,
    denied: bool,
    dialect: XRateLimit,
    wall: Moment,
) {
    let answers = Answers { asks: std::slice::from_ref(ask), decided_by: 0, denied };
    let retry_after = answers.retry_after_secs();
    let (remaining, more_in) = format::standing(ask.decision.remaining, ask.more_in(), retry_after);
    digits("", remaining, to);
    if let Some(more_in) = more_in {
        digits(";t=", more_in, to);
    }
    to.extend_from_slice(b"\r\n");
    write_others(&mut Lines(to), ask, retry_after, dialect, wall);
}

fn write_others(
    to: &mut impl Head,
    ask: &Answered<'_>,
    retry_after: Option<u64>,
    dialect: XRateLimit,
    wall: Moment,
) {
    if let Some(secs) = retry_after {
        to.number(RETRY_AFTER, secs);
    }
    write_dialect(to, ask, dialect, wall);
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

    /// How long an empty bucket takes to fill.
    fn window(&self) -> Nanos {
        let (step, rate) = self.limit.rule().emission_interval();
        let ticks = u128::from(self.limit.burst()) * u128::from(step);
        Nanos::new(ticks.div_ceil(rate.max(1).into()))
    }
}

impl Answers<'_> {
    /// The longest wait of the asks that deny; nothing unless the answer is a denial.
    fn retry_after_secs(&self) -> Option<u64> {
        let denying = self.asks.iter().filter(|ask| ask.denies());
        let longest = denying.map(|ask| ask.decision.retry_in).max().unwrap_or_default();
        self.denied.then(|| format::retry_after_secs(longest))
    }
}

/// `RateLimit-Policy` and `RateLimit`, which list the same policies in the same order.
fn write_lists(to: &mut impl Head, answers: &Answers<'_>, retry_after: Option<u64>) {
    let mut places: SmallVec<[usize; POLICIES_MAX]> =
        (0..answers.asks.len().min(TRANSACTION_ASKS_MAX)).collect();
    let order = |&place: &usize| (place != answers.decided_by, rank(&answers.asks[place]), place);
    places.sort_unstable_by_key(order);
    let policies = places.iter().map(|&place| policy(&answers.asks[place]));
    let lists = format::lists(policies, retry_after);
    to.text(RATELIMIT_POLICY, lists.policies);
    to.text(RATELIMIT, lists.states);
}

fn policy<'a>(ask: &Answered<'a>) -> Policy<'a> {
    Policy {
        name: ask.name,
        quota: ask.limit.burst(),
        window: ask.window(),
        remaining: ask.decision.remaining,
        more_in: ask.more_in(),
    }
}

/// Smaller is told earlier: who denies, then who waits longest, then who has least left.
fn rank(ask: &Answered<'_>) -> impl Ord + use<> {
    (!ask.denies(), Reverse(ask.decision.retry_in), ask.decision.remaining)
}

fn write_dialect(to: &mut impl Head, ask: &Answered<'_>, dialect: XRateLimit, wall: Moment) {
    let style = match dialect {
        XRateLimit::Off => return,
        XRateLimit::Seconds => ResetStyle::Seconds,
        XRateLimit::Unix => ResetStyle::Unix,
        XRateLimit::UnixMs => ResetStyle::UnixMillis,
        XRateLimit::Iso8601 => ResetStyle::Iso8601,
    };
    to.number(X_RATELIMIT_LIMIT, ask.limit.burst());
    to.number(X_RATELIMIT_REMAINING, ask.decision.remaining);
    match format::reset(style, ask.more_in(), wall) {
        Reset::Number(number) => to.number(X_RATELIMIT_RESET, number),
        Reset::Date(date) => to.text(X_RATELIMIT_RESET, date),
    }
}
