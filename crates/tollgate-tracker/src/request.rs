//! What is asked of an API, and what it answers.

use crate::headers::Unit;

/// A request that somebody wants to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    /// `GET`, `POST` ..
    pub method: &'r str,
    /// The path, with or without a query.
    pub path: &'r str,
    /// What else keeps budgets apart: the model where an API limits each, or the account where
    /// several are used. Usually empty.
    pub group: &'r str,
    /// What it will cost, as far as that is known before.
    pub costs: Costs,
}

impl<'r> Request<'r> {
    /// A request that costs one request.
    pub fn new(method: &'r str, path: &'r str) -> Self {
        Self { method, path, ..Self::default() }
    }
}

/// What a request costs besides being one. A cost that is not known may stay zero; then one is
/// reserved of whatever is limited, and the response says how much it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Tokens of a language model, read and written.
    pub tokens: u64,
    /// Tokens that the model reads.
    pub input_tokens: u64,
    /// Tokens that the model writes.
    pub output_tokens: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Costs {
    /// How much of a unit is reserved: never nothing, for a budget that has nothing left refuses
    /// whoever comes.
    pub(crate) fn of(&self, unit: Unit) -> u64 {
        let cost = match unit {
            Unit::Requests | Unit::Concurrent => 1,
            Unit::Tokens => self.tokens,
            Unit::InputTokens => self.input_tokens,
            Unit::OutputTokens => self.output_tokens,
            Unit::Bytes => self.bytes,
        };
        cost.max(1)
    }
}

/// What requests cost together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    /// What they cost beyond one each. Most never cost more.
    beyond: Option<Box<Costs>>,
}

impl Load {
    pub(crate) fn add(&mut self, costs: &Costs) {
        self.requests += 1;
        self.each(costs, u64::saturating_add);
    }

    pub(crate) fn remove(&mut self, costs: &Costs) {
        self.requests = self.requests.saturating_sub(1);
        self.each(costs, u64::saturating_sub);
    }

    pub(crate) fn of(&self, unit: Unit) -> u64 {
        let beyond = self.beyond.as_ref().map_or(0, |beyond| match unit {
            Unit::Requests | Unit::Concurrent => 0,
            Unit::Tokens => beyond.tokens,
            Unit::InputTokens => beyond.input_tokens,
            Unit::OutputTokens => beyond.output_tokens,
            Unit::Bytes => beyond.bytes,
        });
        self.requests.saturating_add(beyond)
    }

    #[inline]
    fn each(&mut self, costs: &Costs, change: impl Fn(u64, u64) -> u64) {
        if *costs == Costs::default() {
            return;
        }
        let all = self.beyond.get_or_insert_default();
        all.tokens = change(all.tokens, costs.tokens.saturating_sub(1));
        all.input_tokens = change(all.input_tokens, costs.input_tokens.saturating_sub(1));
        all.output_tokens = change(all.output_tokens, costs.output_tokens.saturating_sub(1));
        all.bytes = change(all.bytes, costs.bytes.saturating_sub(1));
    }
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Response<'b, H> {
    /// The status code.
    pub status: u16,
    /// The header fields: an iterator over names and values.
    pub fields: H,
    /// The body, where it was read. Only that of a refusal is looked at.
    pub body: Option<&'b [u8]>,
}
