//! Numbers as fields hold them: digits, perhaps a fraction, perhaps an exponent.

/// What a fraction is counted in: there are so many billionths in one.
pub(super) const BILLION: u32 = 1_000_000_000;
/// So many digits always fit into 64 bits.
const DIGITS_MAX: usize = 19;

/// A number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// `whole` and `billionths`, rounded up; at most [`BILLION`] of them.
    Exact { whole: u64, billionths: u32 },
    /// What has more digits than surely fit, as near as a double can say it. Always finite.
    Huge(f64),
}

impl Number {
    /// As a count, rounded down: half a request is none.
    pub(super) fn count(self) -> u64 {
        match self {
            Self::Exact { whole, .. } => whole,
            Self::Huge(_) => u64::MAX,
        }
    }

    fn from_double(value: f64) -> Option<Self> {
        // The largest double stands for all that no double can hold.
        let value = value.min(f64::MAX);
        if value.is_nan() || value < 0.0 {
            return None;
        }
        if value >= 2.0_f64.powi(64) {
            return Some(Self::Huge(value));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was compared with zero and with 2^64; the fraction is the other half"
        )]
        let (whole, billionths) =
            (value as u64, (value.fract() * f64::from(BILLION)).ceil() as u32);
        Some(Self::Exact { whole, billionths })
    }
}

/// The count that `text` is, rounded down.
#[inline]
pub(super) fn read_count(text: &[u8]) -> Option<u64> {
    match read_digits(text)? {
        (Some(count), []) => Some(count),
        _ => read(text).map(Number::count),
    }
}

/// The number that `text` is. There is no sign: a negative count or length says nothing, and
/// servers use it to say so.
#[inline]
pub(super) fn read(text: &[u8]) -> Option<Number> {
    match read_leading(text)? {
        (number, []) => Some(number),
        (_, [b'e' | b'E', exponent @ ..]) => read_scientific(text, exponent),
        _ => None,
    }
}

/// The number that `text` begins with, and what is behind it.
#[inline]
pub(super) fn read_leading(text: &[u8]) -> Option<(Number, &[u8])> {
    let (whole, mut rest) = read_digits(text)?;
    let mut billionths = 0;
    if let [b'.', fraction @ ..] = rest {
        (billionths, rest) = read_fraction(fraction)?;
    }
    let number = match whole {
        Some(whole) => Number::Exact { whole, billionths },
        // There may be zeros in front.
        None => Number::from_double(double(text.get(..text.len().checked_sub(rest.len())?)?)?)?,
    };
    Some((number, rest))
}

/// The digits that `text` begins with, of which there is at least one; `None` in the pair if there
/// are more than 64 bits can surely hold.
#[inline]
fn read_digits(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let (mut value, mut rest) = (0_u64, text);
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit & 0xf));
        rest = behind;
    }
    let count = text.len().saturating_sub(rest.len());
    (count > 0).then_some(((count <= DIGITS_MAX).then_some(value), rest))
}

/// The fraction that `text` begins with, in billionths, rounded up.
fn read_fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut value, mut unit, mut rest) = (0_u32, BILLION, text);
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        if unit == 1 {
            return Some(round_up(value, rest));
        }
        unit /= 10;
        value = value.wrapping_add(u32::from(digit & 0xf).wrapping_mul(unit));
        rest = behind;
    }
    (unit < BILLION).then_some((value, rest))
}

/// Rounds a fraction up by the digits that are behind its billionths.
#[cold]
fn round_up(billionths: u32, text: &[u8]) -> (u32, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let is_more = digits.iter().any(|digit| *digit != b'0');
    (billionths.saturating_add(is_more.into()), rest)
}

/// A number with an exponent, as some languages print what is very large.
#[cold]
fn read_scientific(text: &[u8], exponent: &[u8]) -> Option<Number> {
    let digits = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    Number::from_double(double(text).filter(|_| is_number)?)
}

#[cold]
fn double(text: &[u8]) -> Option<f64> {
    let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    Some(value.min(f64::MAX))
}
