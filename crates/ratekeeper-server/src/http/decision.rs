//! What is answered, as JSON.
//!
//! The types say what it looks like. What asks are answered is written by [`write`] without making
//! one of them, which took a third of the instructions of a request; a test compares the two.

use ratekeeper::limiter::Entitled;
use ratekeeper::limits::Limit;
use ratekeeper::{Decision, Explanation, Merged, Mode, Nanos, Request};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::fields::Answered;
use crate::overrides::Seconds;

/// What a transaction was answered.
#[derive(ToSchema)]
#[cfg_attr(test, derive(Serialize))]
#[cfg_attr(not(test), expect(dead_code, reason = "only its schema is used"))]
#[schema(as = Decision)]
pub(super) struct DecisionBody {
    /// The answer of the ask that decided.
    #[serde(flatten)]
    answer: AnswerBody,
    /// Which ask decided, from 0.
    decided_by: usize,
    /// What each ask was answered, looking at its own bucket only.
    asks: Vec<AskOutcome>,
}

/// What one ask was answered.
#[derive(ToSchema)]
#[cfg_attr(test, derive(Serialize))]
#[cfg_attr(not(test), expect(dead_code, reason = "only its schema is used"))]
#[schema(as = Outcome)]
pub(super) struct AskOutcome {
    #[serde(flatten)]
    answer: AnswerBody,
    /// What the transaction did with it; only for spends.
    #[schema(value_type = super::decide::AskMode, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    cost: u64,
}

/// Whether it passes, and what the caller may want to know.
#[derive(ToSchema)]
#[cfg_attr(test, derive(Clone, Serialize))]
#[cfg_attr(not(test), expect(dead_code, reason = "only its schema is used"))]
#[schema(as = Answer)]
pub(super) struct AnswerBody {
    #[serde(flatten)]
    state: StateBody,
    limit: LimitBody,
    /// The id in its one spelling.
    id: String,
    /// The key of the bucket.
    bucket: String,
}

/// The numbers of an answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = State)]
pub struct StateBody {
    /// Whether it passes. For a refund: whether anything was given back.
    allowed: bool,
    /// Whether it would have been denied, had the limit not been in shadow.
    shadow: bool,
    /// How many tokens are left.
    remaining: u64,
    /// Seconds until the same ask, repeated, would pass; 0 if it would now.
    #[schema(value_type = f64, minimum = 0)]
    retry_in: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64, format = "uint128")]
    retry_in_ns: u128,
    /// Seconds until the bucket is full.
    #[schema(value_type = f64, minimum = 0)]
    reset_in: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64, format = "uint128")]
    reset_in_ns: u128,
}

/// What applies to an id: its override, else the default.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitBody {
    name: String,
    /// How many tokens a full bucket holds.
    burst: u64,
    /// How many tokens come back in a period.
    count: u64,
    /// The period in seconds.
    #[schema(value_type = f64, minimum = 0)]
    period: Box<RawValue>,
    /// The same in nanoseconds.
    #[schema(value_type = u64)]
    period_ns: u128,
    /// Whether the limit never denies.
    shadow: bool,
}

/// An ask, and what was decided about it.
pub(super) struct Decided<'a> {
    pub(super) ask: Request<'a>,
    pub(super) of: Entitled<'a>,
    pub(super) decision: Decision,
}

impl Decided<'_> {
    pub(super) fn answered(&self) -> Answered<'_> {
        let has_say = self.ask.mode != Mode::SpendOnly;
        Answered { name: self.ask.limit, limit: self.of.terms, decision: self.decision, has_say }
    }
}

/// Appends what a transaction was answered. `has_modes` says whether the asks had one.
pub(super) fn write(to: &mut Vec<u8>, decided: &[Decided<'_>], merged: &Merged, has_modes: bool) {
    to.push(b'{');
    let begin = to.len();
    if let Some(deciding) = decided.get(merged.decided_by) {
        deciding.write(&merged.decision, to);
    }
    let deciding = begin..to.len();
    field(",\"decided_by\":", &merged.decided_by, to);
    to.extend_from_slice(b",\"asks\":[");
    for (place, each) in decided.iter().enumerate() {
        to.extend_from_slice(if place == 0 { b"{" } else { b",{" });
        // The ask that decided mostly says the same once more.
        if place == merged.decided_by && each.decision == merged.decision {
            to.extend_from_within(deciding.clone());
        } else {
            each.write(&each.decision, to);
        }
        if has_modes {
            mode(each.ask.mode, to);
        }
        field(",\"cost\":", &each.ask.cost, to);
        to.push(b'}');
    }
    to.extend_from_slice(b"]}");
}

impl Decided<'_> {
    /// Appends the fields of an answer.
    fn write(&self, decision: &Decision, to: &mut Vec<u8>) {
        state(decision, to);
        limit(self.ask.limit, &self.of, to);
        escaped(self.of.id, to);
        bucket(self.of.prefix, to);
        escaped(self.of.id, to);
        to.push(b'"');
    }
}

/// Appends how it was decided, and what is left.
pub(super) fn state(decision: &Decision, to: &mut Vec<u8>) {
    let verdict = match (decision.allowed, decision.shadow) {
        (true, false) => "\"allowed\":true,\"shadow\":false,\"remaining\":",
        (true, true) => "\"allowed\":true,\"shadow\":true,\"remaining\":",
        (false, false) => "\"allowed\":false,\"shadow\":false,\"remaining\":",
        (false, true) => "\"allowed\":false,\"shadow\":true,\"remaining\":",
    };
    field(verdict, &decision.remaining, to);
    length(",\"retry_in\":", ",\"retry_in_ns\":", decision.retry_in, to);
    length(",\"reset_in\":", ",\"reset_in_ns\":", decision.reset_in, to);
}

/// Appends what applies, up to where the id stands.
pub(super) fn limit(name: &str, of: &Entitled<'_>, to: &mut Vec<u8>) {
    field(",\"limit\":{\"name\":", name, to);
    field(",\"burst\":", &of.terms.burst(), to);
    field(",\"count\":", &of.terms.count(), to);
    length(",\"period\":", ",\"period_ns\":", of.terms.period(), to);
    field(",\"shadow\":", &of.shadow, to);
    to.extend_from_slice(b"},\"id\":\"");
}

/// Appends what stands between the id and the id in the key of its bucket.
pub(super) fn bucket(prefix: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(b"\",\"bucket\":\"");
    escaped(prefix, to);
    to.push(b':');
}

/// Appends what a transaction did with an ask.
pub(super) fn mode(mode: Mode, to: &mut Vec<u8>) {
    to.extend_from_slice(b",\"mode\":\"");
    to.extend_from_slice(mode_name(mode).as_bytes());
    to.push(b'"');
}

/// Appends a text without the quotes around it.
pub(super) fn escaped(text: &str, to: &mut Vec<u8>) {
    // All of it is looked at, which takes less than stopping at the first.
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().fold(true, |so_far, byte| so_far & is_plain(byte)) {
        to.extend_from_slice(text.as_bytes());
        return;
    }
    let begin = to.len();
    field("", text, to);
    to.remove(begin);
    to.pop();
}

/// Appends a field: what stands before its value, and the value.
pub(super) fn field<T: Serialize + ?Sized>(before: &str, value: &T, to: &mut Vec<u8>) {
    to.extend_from_slice(before.as_bytes());
    // Writing numbers and texts into memory cannot fail.
    let _ = serde_json::to_writer(&mut *to, value);
}

/// Appends a length in seconds, and in nanoseconds.
fn length(before: &str, before_nanos: &str, length: Nanos, to: &mut Vec<u8>) {
    to.extend_from_slice(before.as_bytes());
    Seconds(length).write(to);
    // Writing 128 bits takes many times as long as 64.
    match u64::try_from(length.get()) {
        Ok(nanos) => field(before_nanos, &nanos, to),
        Err(_) => field(before_nanos, &length.get(), to),
    }
}

impl StateBody {
    /// What was decided.
    pub fn new(decision: &Decision) -> Self {
        let Decision { allowed, shadow, remaining, retry_in, reset_in } = *decision;
        Self {
            allowed,
            shadow,
            remaining,
            retry_in: seconds(retry_in),
            retry_in_ns: retry_in.get(),
            reset_in: seconds(reset_in),
            reset_in_ns: reset_in.get(),
        }
    }
}

impl LimitBody {
    /// The limit of an explanation.
    pub(super) fn explained(told: &Explanation) -> Self {
        Self::new(&told.limit, &told.terms, told.shadow)
    }

    /// What a limit allows to an id.
    pub fn new(name: &str, terms: &Limit, shadow: bool) -> Self {
        Self {
            name: name.to_owned(),
            burst: terms.burst(),
            count: terms.count(),
            period: seconds(terms.period()),
            period_ns: terms.period().get(),
            shadow,
        }
    }
}

pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::CheckAndSpend => "check-and-spend",
        Mode::CheckOnly => "check-only",
        Mode::SpendOnly => "spend-only",
    }
}

/// Seconds as an exact decimal.
pub(super) fn seconds(length: Nanos) -> Box<RawValue> {
    Seconds(length).decimal()
}

#[cfg(test)]
mod tests;
