//! Asks that bring their rule along: `CL.THROTTLE key max_burst count period [quantity]`.

use ratekeeper::algorithm::gcra::{BURST_MAX, PERIOD_MAX, Rule, RuleError};
use ratekeeper::algorithm::inline_rule::InlineRule;
use ratekeeper::limiter::INLINE_RULES;
use ratekeeper::limits::{ID_BYTES_MAX, IdError};
use ratekeeper::{Mistake, Nanos};

use super::codec::integer;
use super::connection::NO_INTEGER;
use super::reply;

/// What stands before a key in the name of its bucket, where others need to know that. No limit has a
/// blank in its name.
pub(super) const BUCKET_PREFIX: &[u8] = b"CL.THROTTLE key:";
/// A rule for asks that need none: a bucket that is filled is the same under all.
const ANY_RULE: (u64, u64, Nanos) = (1, 1, Nanos::from_secs(1));
/// The longest period that a rule can have, in whole seconds.
const PERIOD_SECONDS_MAX: u128 = PERIOD_MAX.get() / Nanos::from_secs(1).get();

/// What such an ask says behind its key.
pub(super) struct InlineAsk {
    pub(super) rule: InlineRule,
    pub(super) quantity: i64,
}

/// A rule, and how it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenRule {
    written: [i64; 3],
    pub(super) rule: InlineRule,
}

/// Why there is no such ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Integer,
    Rule(RuleError),
}

impl InlineAsk {
    /// Reads what stands behind the key. Clients bring the same rule again and again, so `last`
    /// remembers it.
    #[inline]
    pub(super) fn read(words: &[&[u8]], last: &mut Option<WrittenRule>) -> Result<Self, Refusal> {
        let [max_burst, count, period, quantity @ ..] = words else {
            return Err(Refusal::Integer);
        };
        let number = |word: &[u8]| integer(word).ok_or(Refusal::Integer);
        let written = [number(max_burst)?, number(count)?, number(period)?];
        let quantity = quantity.first().map_or(Ok(1), |word| number(word))?;
        let rule = match *last {
            Some(known) if known.written == written => known.rule,
            _ => last.insert(WrittenRule { written, rule: rule(written)? }).rule,
        };
        Ok(Self { rule, quantity })
    }
}

/// The rule of `max_burst count period`.
fn rule([max_burst, count, period]: [i64; 3]) -> Result<InlineRule, Refusal> {
    let natural = |number: i64| u64::try_from(number).unwrap_or_default();
    let burst = u64::try_from(max_burst).map_or(0, |most| most.saturating_add(1));
    let period = Nanos::from_secs(natural(period));
    let rule = Rule::new(burst, natural(count), period).map_err(Refusal::Rule)?;
    Ok(InlineRule::new(&rule))
}

/// A rule for asks that need none.
pub(super) fn any_rule() -> Result<InlineRule, Refusal> {
    let (burst, count, period) = ANY_RULE;
    Rule::new(burst, count, period).map(|rule| InlineRule::new(&rule)).map_err(Refusal::Rule)
}

/// What is wrong with a key, if it is too long.
#[inline]
pub(super) fn check_key(key: &[u8]) -> Result<(), Mistake> {
    if key.len() <= ID_BYTES_MAX { Ok(()) } else { Err(too_long(key)) }
}

#[cold]
fn too_long(key: &[u8]) -> Mistake {
    let (limit, id) = (INLINE_RULES.to_owned(), String::from_utf8_lossy(key).into_owned());
    Mistake::Id { limit, id, source: IdError::TooLong }
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
        };
        reply::error(&[b"ERR ", text.as_bytes()], out);
    }
}
