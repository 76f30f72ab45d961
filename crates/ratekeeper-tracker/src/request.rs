//! What is asked of an API, and what it answers.

use crate::headers::Unit;
use crate::origin::Origin;

/// The units of which requests may cost more than one.
const PRICED: [Unit; 4] = [Unit::Tokens, Unit::InputTokens, Unit::OutputTokens, Unit::Bytes];

/// A request that somebody wants to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    /// `GET`, `POST` ..
    pub method: &'r str,
    /// The path, with or without a query.
    pub path: &'r str,
    /// Where it goes: budgets belong to an origin. One that is empty is an origin, too.
    pub origin: Origin<'r>,
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

    /// The same request, to an origin.
    #[must_use]
    pub fn to(self, origin: Origin<'r>) -> Self {
        Self { origin, ..self }
    }
}

/// What a request costs besides being one. A cost that is not known may stay zero: then what such
/// requests usually take is reserved of whatever is limited, and the response says how much it was.
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
        self.said(unit).unwrap_or(1).max(1)
    }

    /// What was said of a unit; zero if nothing was. None where it is known anyway.
    fn said(&self, unit: Unit) -> Option<u64> {
        match unit {
            Unit::Requests | Unit::Concurrent => None,
            Unit::Tokens => Some(self.tokens),
            Unit::InputTokens => Some(self.input_tokens),
            Unit::OutputTokens => Some(self.output_tokens),
            Unit::Bytes => Some(self.bytes),
        }
    }

    fn of_mut(&mut self, unit: Unit) -> Option<&mut u64> {
        match unit {
            Unit::Requests | Unit::Concurrent => None,
            Unit::Tokens => Some(&mut self.tokens),
            Unit::InputTokens => Some(&mut self.input_tokens),
            Unit::OutputTokens => Some(&mut self.output_tokens),
            Unit::Bytes => Some(&mut self.bytes),
        }
    }
}

/// What is reserved for a request: what was said that it costs, and an estimate of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    costs: Costs,
    /// The units of which it is an estimate, a bit for each.
    guessed: u8,
}

impl Hold {
    pub(crate) const fn new(costs: Costs) -> Self {
        Self { costs, guessed: 0 }
    }

    /// What was said that it costs.
    #[cfg(feature = "sharing")]
    pub(crate) fn said(&self) -> Costs {
        let mut said = self.costs;
        for unit in PRICED.into_iter().filter(|unit| self.is_guessed(*unit)) {
            said.of_mut(unit).into_iter().for_each(|cost| *cost = 0);
        }
        said
    }

    pub(crate) fn of(&self, unit: Unit) -> u64 {
        self.costs.of(unit)
    }

    /// Whether the cost was neither said nor is it known anyway.
    pub(crate) fn is_unsaid(&self, unit: Unit) -> bool {
        self.is_guessed(unit) || self.costs.said(unit) == Some(0)
    }

    pub(crate) const fn is_guessed(&self, unit: Unit) -> bool {
        self.guessed & bit(unit) != 0
    }

    /// Reserves an estimate where nothing was said. Of several the highest counts.
    pub(crate) fn guess(&mut self, unit: Unit, cost: u64) {
        if let Some(known) = self.costs.of_mut(unit) {
            self.guessed |= bit(unit);
            *known = cost.max(*known);
        }
    }
}

const fn bit(unit: Unit) -> u8 {
    1 << unit as u8
}

/// What requests cost together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    /// What they cost beyond one each. Most never cost more.
    beyond: Option<Box<Beyond>>,
}

/// What requests cost beyond one each, and for how many of them that is an estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Beyond {
    costs: Costs,
    guessed: Costs,
}

impl Load {
    #[inline]
    pub(crate) fn add(&mut self, hold: &Hold) {
        self.requests += 1;
        self.each(hold, u64::saturating_add);
    }

    #[inline]
    pub(crate) fn remove(&mut self, hold: &Hold) {
        self.requests = self.requests.saturating_sub(1);
        self.each(hold, u64::saturating_sub);
    }

    pub(crate) fn of(&self, unit: Unit) -> u64 {
        let beyond = self.beyond.as_ref().and_then(|beyond| beyond.costs.said(unit));
        self.requests.saturating_add(beyond.unwrap_or(0))
    }

    /// For how many of them what they cost is an estimate.
    pub(crate) fn guessed(&self, unit: Unit) -> u64 {
        let guessed = self.beyond.as_ref().and_then(|beyond| beyond.guessed.said(unit));
        guessed.unwrap_or(0)
    }

    #[inline]
    fn each(&mut self, hold: &Hold, change: impl Fn(u64, u64) -> u64) {
        // Mostly nothing but requests counts.
        if hold.costs != Costs::default() {
            self.each_unit(hold, change);
        }
    }

    #[inline(never)]
    fn each_unit(&mut self, hold: &Hold, change: impl Fn(u64, u64) -> u64) {
        let Beyond { costs, guessed } = &mut **self.beyond.get_or_insert_default();
        for unit in PRICED {
            if let Some(all) = costs.of_mut(unit) {
                *all = change(*all, hold.of(unit) - 1);
            }
            if let Some(all) = guessed.of_mut(unit).filter(|_| hold.is_guessed(unit)) {
                *all = change(*all, 1);
            }
        }
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
