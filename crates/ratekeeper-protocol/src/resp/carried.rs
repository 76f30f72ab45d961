//! Asks that bring their rule along: `CL.THROTTLE key max_burst count period [quantity]`.

use std::borrow::Cow;

use ratekeeper::algorithm::gcra::{BURST_MAX, PERIOD_MAX, Rule, RuleError};
use ratekeeper::limiter::TooManyRules;
use ratekeeper::{Carried, Limiter, Moment, Nanos};

use super::codec::integer;
use super::connection::NO_INTEGER;
use super::reply;
use crate::scan;

/// What the text of a key begins with that stands for other bytes.
const HEX: &str = "hex:";

/// The longest period that a rule can have, in whole seconds.
const PERIOD_SECONDS_MAX: u128 = PERIOD_MAX.get() / Nanos::from_secs(1).get();

/// The limiter that makes rules known, and the time that it is told.
#[derive(Clone, Copy)]
pub(super) struct Desk<'l> {
    pub(super) limiter: &'l Limiter,
    pub(super) now: Moment,
}

/// What an ask of this kind says.
pub(super) struct Asked {
    pub(super) rule: KnownRule,
    pub(super) quantity: i64,
}

/// A rule that the limiter knows, and how it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownRule {
    terms: Terms,
    pub(super) burst: u64,
    pub(super) carried: Carried,
}

/// `max_burst count period`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    max_burst: i64,
    count: i64,
    period: i64,
}

/// Why there is no such ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Integer,
    Rule(RuleError),
    Full(TooManyRules),
}

impl Asked {
    /// Reads what stands behind the key. Clients bring the same rule again and again, so `last`
    /// remembers it.
    #[inline]
    pub(super) fn read(
        words: &[&[u8]],
        last: &mut Option<KnownRule>,
        desk: Desk<'_>,
    ) -> Result<Self, Refusal> {
        let [max_burst, count, period, quantity @ ..] = words else {
            return Err(Refusal::Integer);
        };
        let number = |word: &[u8]| integer(word).ok_or(Refusal::Integer);
        let terms =
            Terms { max_burst: number(max_burst)?, count: number(count)?, period: number(period)? };
        let quantity = quantity.first().map_or(Ok(1), |word| number(word))?;
        let rule = match *last {
            Some(rule) if rule.terms == terms && desk.still_has(rule.carried) => rule,
            _ => *last.insert(terms.make_known(desk)?),
        };
        Ok(Self { rule, quantity })
    }
}

impl Terms {
    fn make_known(self, desk: Desk<'_>) -> Result<KnownRule, Refusal> {
        let natural = |number: i64| u64::try_from(number).unwrap_or_default();
        let burst = u64::try_from(self.max_burst).map_or(0, |most| most.saturating_add(1));
        let period = Nanos::from_secs(natural(self.period));
        let rule = Rule::new(burst, natural(self.count), period).map_err(Refusal::Rule)?;
        let carried = desk.carry(rule)?;
        Ok(KnownRule { terms: self, burst, carried })
    }
}

impl Desk<'_> {
    fn carry(self, rule: Rule) -> Result<Carried, Refusal> {
        self.limiter.carry(rule, self.now).map_err(Refusal::Full)
    }

    /// A rule for whoever needs none: a bucket that is filled is the same under all.
    pub(super) fn any_rule(self) -> Result<Carried, Refusal> {
        self.carry(Rule::new(1, 1, Nanos::from_secs(1)).map_err(Refusal::Rule)?)
    }

    /// Whether a rule need not be carried again.
    #[inline]
    pub(super) fn still_has(self, carried: Carried) -> bool {
        self.limiter.still_carries(carried)
    }
}

impl Refusal {
    #[cold]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let text = match self {
            Self::Integer => return reply::error(&[NO_INTEGER], out),
            Self::Rule(RuleError::Burst) => {
                format!("max_burst must be from 0 to {}", BURST_MAX.saturating_sub(1))
            }
            Self::Rule(RuleError::Period) => {
                format!("period must be from 1 to {PERIOD_SECONDS_MAX} seconds")
            }
            Self::Rule(error) => error.to_string(),
            Self::Full(error) => error.to_string(),
        };
        reply::error(&[b"ERR ", text.as_bytes()], out);
    }
}

/// The text of a key, if it is one; a key of any other bytes has to be written out first. It may be a
/// part of `text`.
#[inline]
pub(super) fn plain<'a>(key: &'a [u8], text: &'a str) -> Option<&'a str> {
    scan::text_in(text, key).filter(|text| !text.starts_with(HEX))
}

/// The text that stands for a key of any bytes, and for no other key.
pub(super) fn text_of(key: &[u8]) -> Cow<'_, str> {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    plain(key, "").map_or_else(
        || {
            let digits = key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]);
            Cow::Owned(HEX.chars().chain(digits).collect())
        },
        Cow::Borrowed,
    )
}
