//! Durations as the limits files write them: `180m`, `1.5h`, `1h30m`.
//!
//! The arithmetic is in whole numbers from the first digit to the last. A period that is not a
//! whole number of nanoseconds is refused rather than rounded, because a limit is exact.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use crate::Nanos;
use crate::algorithm::gcra::PERIOD_MAX;

const UNITS: [(&str, u128); 10] = [
    ("ns", 1),
    ("us", 1_000),
    // The micro sign and the Greek letter look alike, and keyboards disagree on which they type.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// How many decimals can matter: a week is 2^16 * 5^11 * 189 ns, so a seventeenth decimal that is
/// not zero always leaves a part of a nanosecond.
const DECIMALS_MAX: usize = 16;

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says it")]
pub enum DurationError {
    #[error("is empty")]
    Empty,
    #[error("is negative")]
    Negative,
    #[error("is zero")]
    Zero,
    #[error("has no unit")]
    NoUnit,
    #[error("has a number without a unit at its end")]
    NoLastUnit,
    #[error("has a unit that is not known")]
    UnknownUnit,
    #[error("is not a duration")]
    NoNumber,
    #[error("is not a whole number of nanoseconds")]
    NotWhole,
    #[error("is longer than {PERIOD_MAX}")]
    TooLong,
}

/// The length of time that `text` says: numbers, each followed by `ns`, `us`, `ms`, `s`, `m`, `h`,
/// `d` or `w`, added up. Refuses zero, a missing unit, a part of a nanosecond, and more than
/// [`PERIOD_MAX`].
///
/// ```
/// use ratekeeper::{Nanos, limits::parse_duration};
///
/// assert_eq!(parse_duration("1h30m"), parse_duration("1.5h"));
/// assert_eq!(parse_duration("180m"), Ok(Nanos::from_secs(3 * 60 * 60)));
/// assert!(parse_duration("180").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Nanos, DurationError> {
    match text.as_bytes().first() {
        None => return Err(DurationError::Empty),
        Some(b'-') => return Err(DurationError::Negative),
        Some(_) => {}
    }
    let (mut rest, mut total) = (text, 0_u128);
    while !rest.is_empty() {
        let (part, after) = parse_part(rest, rest.len() == text.len())?;
        total = total.checked_add(part).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    match Nanos::new(total) {
        Nanos::ZERO => Err(DurationError::Zero),
        length if length > PERIOD_MAX => Err(DurationError::TooLong),
        length => Ok(length),
    }
}

/// One number with its unit, and what follows them.
fn parse_part(text: &str, is_first: bool) -> Result<(u128, &str), DurationError> {
    let (whole, rest) = split_digits(text);
    let (decimals, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && decimals.is_empty() {
        return Err(DurationError::NoNumber);
    }
    if rest.is_empty() {
        return Err(if is_first { DurationError::NoUnit } else { DurationError::NoLastUnit });
    }
    let is_unit = |c: char| !c.is_ascii_digit() && c != '.';
    let (unit, rest) = rest.split_at(rest.find(|c| !is_unit(c)).unwrap_or(rest.len()));
    // A second point in the number: the parts cannot be told apart.
    if unit.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let (_, size) =
        UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(DurationError::UnknownUnit)?;
    let whole = number(whole)?.checked_mul(size).ok_or(DurationError::TooLong)?;
    let part = whole.checked_add(fraction(decimals, size)?).ok_or(DurationError::TooLong)?;
    Ok((part, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// No digits count as zero, so that `.5h` reads like `0.5h`.
fn number(digits: &str) -> Result<u128, DurationError> {
    digits
        .bytes()
        .try_fold(0_u128, |sum, digit| {
            sum.checked_mul(10)?.checked_add(digit.saturating_sub(b'0').into())
        })
        .ok_or(DurationError::TooLong)
}

/// The part of `size` that the decimals after the point say.
fn fraction(decimals: &str, size: u128) -> Result<u128, DurationError> {
    let decimals = decimals.trim_end_matches('0');
    if decimals.len() > DECIMALS_MAX {
        return Err(DurationError::NotWhole);
    }
    let (mut parts, mut scale) = (number(decimals)?.saturating_mul(size), 1);
    for _ in decimals.bytes() {
        scale = u128::saturating_mul(scale, 10);
    }
    match parts.checked_rem(scale) {
        Some(0) => parts = parts.checked_div(scale).unwrap_or_default(),
        _ => return Err(DurationError::NotWhole),
    }
    Ok(parts)
}
