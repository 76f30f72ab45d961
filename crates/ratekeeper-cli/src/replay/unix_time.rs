//! Seconds since 1970, as a decimal number, to a moment.

use ratekeeper::Moment;

/// A moment is so many decimals of a second.
const DECIMALS: i64 = 9;
/// A power of ten beyond this says nothing that a shorter text does not.
const EXPONENT_MAX: i64 = 400;

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTime {
    #[error("expected seconds since 1970 as a decimal number, such as 1700000000.5")]
    NotDecimal,
    #[error("time begins in 1970")]
    Negative,
    #[error("time ends in the year 2262, after 9223372036.854775807 seconds")]
    TooLate,
}

/// The moment that `text` says, to the nearest nanosecond. No digit is lost on the way there.
pub(super) fn parse(text: &[u8]) -> Result<Moment, BadTime> {
    let text = std::str::from_utf8(text).map_err(|_| BadTime::NotDecimal)?;
    if let Some(positive) = text.strip_prefix('-') {
        return Err(parse(positive.as_bytes()).map_or(BadTime::NotDecimal, |_| BadTime::Negative));
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(part) {
        return Err(BadTime::NotDecimal);
    }
    // Where the nanoseconds end, counted in digits from the first.
    let length = i64::try_from(whole.len()).map_err(|_| BadTime::NotDecimal)?;
    let end = length + exponent + DECIMALS;
    let nanos = round([whole, part].concat().as_bytes(), end).ok_or(BadTime::TooLate)?;
    if nanos > Moment::MAX.as_nanos() {
        return Err(BadTime::TooLate);
    }
    Ok(Moment::from_nanos(nanos))
}

/// The first `end` digits as a number, one more if what follows is a half or more. There are
/// zeros behind the last digit and before the first.
fn round(digits: &[u8], end: i64) -> Option<u64> {
    let Ok(end) = usize::try_from(end) else { return Some(0) };
    let value = |index| u64::from(digits.get(index).copied().unwrap_or(b'0') - b'0');
    let add = |sum: u64, index| sum.checked_mul(10)?.checked_add(value(index));
    let rounded_up = u64::from(value(end) >= 5);
    (0..end).try_fold(0, add)?.checked_add(rounded_up)
}

fn parse_exponent(text: &str) -> Result<i64, BadTime> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let exponent = text.parse().ok().filter(|_| is_digits(digits));
    let exponent: i64 = exponent.ok_or(BadTime::NotDecimal)?;
    Ok(exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
