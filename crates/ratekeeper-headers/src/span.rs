//! Lengths of time and points in time, in whatever shape they are written.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ratekeeper_time::Nanos;

use super::number::{self, BILLION, Number};
use super::said::{WAIT_MAX, Wait};

/// A number of this or more is no length in seconds but a point: seconds since 1970. As a length
/// it would be 31 years; as a point it is in 2001.
pub(super) const EPOCH_SECS_MIN: u64 = 1_000_000_000;
/// A number of this or more is a point in milliseconds since 1970. As seconds it would be in the
/// year 5138; as milliseconds it is in 1973.
pub(super) const EPOCH_MILLIS_MIN: u64 = 100_000_000_000;
/// No date is longer, however it is written.
const DATE_BYTES_MAX: usize = 64;

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MILLISECOND: u64 = 1_000_000;

/// A length of time; also a point, as the length since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Span {
    Nanos(u64),
    /// Seconds, where nanoseconds do not fit into 64 bits, which is 584 years; finite.
    Huge(f64),
}

/// When something will be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    /// So long after the response was sent.
    After(Span),
    /// So long after 1970.
    At(Span),
}

impl Span {
    /// `number` units of `unit` nanoseconds each, rounded up.
    pub(super) fn of(number: Number, unit: u64) -> Self {
        let units = match number {
            Number::Exact { whole, billionths } => {
                let part =
                    if unit == SECOND { u64::from(billionths) } else { part(billionths, unit) };
                let nanos = whole.checked_mul(unit).and_then(|nanos| nanos.checked_add(part));
                if let Some(nanos) = nanos {
                    return Self::Nanos(nanos);
                }
                double(whole)
            }
            Number::Huge(units) => units,
        };
        Self::Huge(units * (double(unit) / double(SECOND)))
    }

    /// The longer, which is the stricter.
    pub(super) fn longer(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nanos(a), Self::Nanos(b)) => Self::Nanos(a.max(b)),
            (Self::Huge(a), Self::Huge(b)) => Self::Huge(a.max(b)),
            (huge @ Self::Huge(_), _) | (_, huge) => huge,
        }
    }

    /// How long it is from `start` to this point; nothing if that is past.
    pub(super) fn since(self, start: u64) -> Self {
        match self {
            Self::Nanos(nanos) => Self::Nanos(nanos.saturating_sub(start)),
            Self::Huge(secs) => Self::Huge(secs - Self::Nanos(start).secs()),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nanos(a), Self::Nanos(b)) if a.checked_add(b).is_some() => {
                Self::Nanos(a.saturating_add(b))
            }
            _ => Self::Huge((self.secs() + other.secs()).min(f64::MAX)),
        }
    }

    /// In whole nanoseconds; what is longer than they can say is cut.
    pub(super) fn nanos(self) -> u64 {
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Huge(_) => u64::MAX,
        }
    }

    fn secs(self) -> f64 {
        match self {
            Self::Nanos(nanos) => double(nanos / SECOND) + double(nanos % SECOND) / double(SECOND),
            Self::Huge(secs) => secs,
        }
    }

    pub(super) fn wait(self) -> Wait {
        match self {
            Self::Nanos(nanos) if u128::from(nanos) <= WAIT_MAX.get() => {
                Wait { length: Nanos::new(nanos.into()), truly_secs: None }
            }
            long => Wait { length: WAIT_MAX, truly_secs: Some(long.secs()) },
        }
    }
}

/// So many billionths of a unit, rounded up.
fn part(billionths: u32, unit: u64) -> u64 {
    let product = u128::from(billionths).saturating_mul(unit.into());
    u64::try_from(product.div_ceil(BILLION.into())).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "it is told to a person")]
fn double(value: u64) -> f64 {
    value as f64
}

/// A reset: a length in seconds, a point since 1970 in seconds or milliseconds, a duration with
/// units, or a date. Which number is meant is told by its size.
pub(super) fn read_reset(text: &[u8]) -> Option<When> {
    let Some(number) = number::read(text) else { return read_words(text) };
    Some(match number {
        Number::Exact { whole, .. } if whole < EPOCH_SECS_MIN => {
            When::After(Span::of(number, SECOND))
        }
        Number::Exact { whole, .. } if whole < EPOCH_MILLIS_MIN => {
            When::At(Span::of(number, SECOND))
        }
        _ => When::At(Span::of(number, MILLISECOND)),
    })
}

/// How long to wait: a number is always a length in units of `unit` nanoseconds.
pub(super) fn read_wait(text: &[u8], unit: u64) -> Option<When> {
    match number::read(text) {
        Some(number) => Some(When::After(Span::of(number, unit))),
        None => read_words(text),
    }
}

fn read_words(text: &[u8]) -> Option<When> {
    match text {
        [b'0'..=b'9', .., b'a'..=b'z'] => read_duration(text).map(When::After),
        _ => None,
    }
    .or_else(|| read_date(text).map(When::At))
}

/// A length as Go prints it: `1h2m3.5s`, `20ms`. Days are read too.
fn read_duration(text: &[u8]) -> Option<Span> {
    let (mut sum, mut rest) = (Span::Nanos(0), text);
    while !rest.is_empty() {
        let (number, behind) = number::read_leading(rest)?;
        let letters = behind.iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let (unit, behind) = behind.split_at_checked(letters)?;
        let unit = match unit {
            b"ns" => 1,
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
            b"ms" => MILLISECOND,
            b"s" => SECOND,
            b"m" => 60_000_000_000,
            b"h" => 3_600_000_000_000,
            b"d" => 86_400_000_000_000,
            _ => return None,
        };
        sum = sum.plus(Span::of(number, unit));
        rest = behind;
    }
    Some(sum)
}

/// A point in time: one of HTTP's three forms, or ISO 8601. Without a zone it is UTC.
pub(super) fn read_date(text: &[u8]) -> Option<Span> {
    let text = str::from_utf8(text).ok().filter(|text| text.len() <= DATE_BYTES_MAX)?;
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return read_http_date(text);
    }
    let timestamp = text.parse().or_else(|_| {
        let local: DateTime = text.strip_suffix(" UTC").unwrap_or(text).parse()?;
        local.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp())
    });
    let timestamp: Timestamp = timestamp.ok()?;
    let secs = timestamp.as_second();
    Some(match u64::try_from(timestamp.as_nanosecond()) {
        Ok(nanos) => Span::Nanos(nanos),
        Err(_) if secs > 0 => Span::Huge(double(secs.unsigned_abs())),
        // What was before 1970 is past, as is all of 1970.
        Err(_) => Span::Nanos(0),
    })
}

fn read_http_date(text: &str) -> Option<Span> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since_1970 = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let whole = Number::Exact { whole: since_1970.as_secs(), billionths: 0 };
    Some(Span::of(whole, SECOND))
}
