//! What is answered, as JSON.

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate::limits::{Limit, NamedLimit};
use tollgate::{Decision, Explanation, Limiter, Merged, Mistake, Mode, Nanos, Request};
use utoipa::ToSchema;

use super::fields::Answered;
use crate::overrides::Seconds;

/// What a transaction was answered.
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Clone, Debug, Serialize, ToSchema)]
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
pub(super) struct StateBody {
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
pub(super) struct LimitBody {
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
    pub(super) of: Described,
    pub(super) decision: Decision,
}

/// What is asked, in words.
pub(super) struct Described {
    terms: Limit,
    is_shadow: bool,
    id: String,
    bucket: String,
}

impl Described {
    pub(super) fn new(limiter: &Limiter, ask: &Request<'_>) -> Result<Self, Mistake> {
        Ok(Self {
            terms: limiter.terms(ask.limit, ask.id)?,
            is_shadow: limiter.names().named(ask.limit).is_some_and(NamedLimit::is_shadow),
            id: limiter.id(ask.limit, ask.id)?,
            bucket: limiter.bucket_key(ask.limit, ask.id)?,
        })
    }
}

impl Decided<'_> {
    pub(super) fn answered(&self) -> Answered<'_> {
        let has_say = self.ask.mode != Mode::SpendOnly;
        Answered { name: self.ask.limit, limit: &self.of.terms, decision: self.decision, has_say }
    }
}

impl DecisionBody {
    /// `has_modes` says whether the asks had one.
    pub(super) fn new(
        decided: &[Decided<'_>],
        merged: &Merged,
        has_modes: bool,
    ) -> Result<Self, Mistake> {
        let mut asks = Vec::with_capacity(decided.len());
        for Decided { ask, of, decision } in decided {
            let mode = has_modes.then_some(mode_name(ask.mode));
            asks.push(AskOutcome {
                answer: AnswerBody::new(ask, of, decision),
                mode,
                cost: ask.cost,
            });
        }
        let decided_by = merged.decided_by;
        let mut answer =
            asks.get(decided_by).map(|ask| ask.answer.clone()).ok_or(Mistake::NoAsks)?;
        answer.state = StateBody::new(&merged.decision);
        Ok(Self { answer, decided_by, asks })
    }
}

impl AnswerBody {
    fn new(ask: &Request<'_>, of: &Described, decision: &Decision) -> Self {
        let limit = LimitBody { shadow: of.is_shadow, ..LimitBody::of(ask.limit, &of.terms) };
        let (id, bucket) = (of.id.clone(), of.bucket.clone());
        Self { state: StateBody::new(decision), limit, id, bucket }
    }
}

impl StateBody {
    pub(super) fn new(decision: &Decision) -> Self {
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
        Self { shadow: told.shadow, ..Self::of(&told.limit, &told.terms) }
    }

    fn of(name: &str, terms: &Limit) -> Self {
        Self {
            name: name.to_owned(),
            burst: terms.burst(),
            count: terms.count(),
            period: seconds(terms.period()),
            period_ns: terms.period().get(),
            shadow: false,
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
