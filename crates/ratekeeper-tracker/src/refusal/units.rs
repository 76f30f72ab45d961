//! What the numbers count that say for how long.
//!
//! `retry_after` in a body counts milliseconds for some APIs and seconds for others, and one has
//! changed from the one to the other. `Retry-After` counts seconds, but not everywhere. Numbers that
//! are said together of the same wait show which it is, for they differ by a thousand. A reset is not
//! always the same wait: only a number of some seconds that agrees with it shows milliseconds.

use ratekeeper_time::Nanos;

use crate::dialect::Dialect;
use crate::headers::{WAIT_MAX, Wait};
use crate::profile::{BodyUnit, WHOLE_MILLIS_MIN};

/// By how much two numbers may differ that say the same: each may be rounded to whole seconds.
const ROUNDED_SECS: f64 = 1.5;
/// A number that would be so many times the reset, in seconds, more likely counts milliseconds; a
/// reset is at least this long, for it may be told in whole seconds.
const RESETS_MAX: f64 = 3.0;
const RESET_MIN_SECS: f64 = 1.0;
/// By how much a reset may differ from the same wait in milliseconds, where it is told in whole
/// seconds, and where it is told more exactly, as a part of it.
const RESET_ROUNDED_SECS: f64 = 1.0;
const RESET_PART: f64 = 0.1;
/// Fewer milliseconds than that agree with too many resets by chance.
const SHOWN_MILLIS_MIN: f64 = 1_000.0;
/// A wait for a limit that is so many times as long as its window is in another unit.
const WINDOWS_MAX: f64 = 10.0;

/// A number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    value: f64,
    /// Whether it is written without a fraction.
    is_whole: bool,
}

/// What a refusal says besides its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// `Retry-After`.
    pub(super) header: Option<Wait>,
    /// When what is spent is there again.
    pub(super) reset: Option<Reset>,
    /// How long the window of the limit lasts.
    pub(super) window: Option<Nanos>,
}

/// What the number in a body says.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyWait {
    pub(super) wait: Wait,
    /// Whether it was taken for milliseconds.
    pub(super) is_millis: bool,
    /// Whether that is only likely.
    pub(super) is_guess: bool,
}

/// When what is spent is there again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reset {
    pub(super) wait: Wait,
    /// Whether it was told in whole seconds.
    pub(super) is_rounded: bool,
}

impl Number {
    /// What is below zero says nothing, as in a field: who came straight back would be refused again.
    pub(super) fn new(number: &serde_json::Number) -> Option<Self> {
        let value = number.as_f64().filter(|value| *value >= 0.0)?;
        Some(Self { value, is_whole: !number.is_f64() })
    }
}

/// What `Retry-After` says. It counts seconds, unless the body has the same number, and the profile
/// says or the reset shows that both are milliseconds; a wait that is only longer than the reset is
/// believed.
pub(super) fn of_header(
    wait: Wait,
    body: Option<Number>,
    unit: BodyUnit,
    reset: Option<Reset>,
    dialect: &mut Dialect,
) -> Wait {
    let said = secs(wait);
    let is_same = |body: Number| (body.value - said).abs() < f64::EPSILON;
    if body.is_some_and(is_same) {
        let shown = match unit {
            BodyUnit::AsTold => reset.and_then(|reset| shown_by_reset(said, reset)),
            // One millisecond in the body is one second in the field, which is rounded up.
            BodyUnit::Seconds | BodyUnit::Milliseconds => (said > ROUNDED_SECS).then_some(unit),
        };
        if let Some(shown) = shown {
            dialect.is_header_millis = shown == BodyUnit::Milliseconds;
        }
    }
    if dialect.is_header_millis { from_secs(said / 1e3) } else { wait }
}

/// What the number in a body says.
pub(super) fn of_body(
    number: Number,
    unit: BodyUnit,
    told: Told,
    dialect: &mut Dialect,
) -> Option<BodyWait> {
    let by_field = told.header.and_then(|field| shown_by_field(number.value, secs(field)));
    let by_reset = || told.reset.and_then(|reset| shown_by_reset(number.value, reset));
    let shown = by_field.or_else(by_reset);
    let by_itself = (!number.is_whole).then_some(BodyUnit::Seconds);
    dialect.body = shown.or(dialect.body).or(by_itself);
    let known = if unit == BodyUnit::AsTold { dialect.body } else { Some(unit) };
    let is_millis = match known {
        Some(known) => known == BodyUnit::Milliseconds,
        None => dialect.is_unit_sure || number.is_millis(told),
    };
    let secs = if is_millis { number.value / 1e3 } else { number.value };
    let is_guess = known.is_none();
    secs.is_finite().then(|| BodyWait { wait: from_secs(secs), is_millis, is_guess })
}

impl Number {
    /// Whether a whole number more likely counts milliseconds, where nothing has shown what it counts.
    fn is_millis(self, told: Told) -> bool {
        let by_window = told.window.map(|window| WINDOWS_MAX * nanos_to_secs(window));
        let by_reset = told.reset.map(|reset| RESETS_MAX * secs(reset.wait).max(RESET_MIN_SECS));
        by_window.into_iter().chain(by_reset).any(|longest| self.value > longest)
            || self.value >= f64::from(WHOLE_MILLIS_MIN)
    }

    /// For how long it is, if it counts seconds.
    pub(super) fn in_seconds(self) -> Nanos {
        from_secs(self.value).length
    }
}

/// What a number counts if `Retry-After` is that many seconds; nothing if both may be, or neither.
fn shown_by_field(number: f64, field_secs: f64) -> Option<BodyUnit> {
    let is_close = |secs: f64| (secs - field_secs).abs() <= ROUNDED_SECS;
    match (is_close(number), is_close(number / 1e3)) {
        // No wait at all says nothing.
        _ if field_secs <= 0.0 => None,
        (true, false) => Some(BodyUnit::Seconds),
        (false, true) => Some(BodyUnit::Milliseconds),
        _ => None,
    }
}

/// The same of a reset, which may come long before the wait is over.
fn shown_by_reset(number: f64, reset: Reset) -> Option<BodyUnit> {
    let reset_secs = secs(reset.wait);
    let differs_by = |secs: f64| (secs - reset_secs).abs();
    let (of_secs, of_millis) = (differs_by(number), differs_by(number / 1e3));
    let exactly = RESET_PART * reset_secs;
    let most = if reset.is_rounded { exactly.max(RESET_ROUNDED_SECS) } else { exactly };
    if of_secs <= ROUNDED_SECS {
        return (of_millis > ROUNDED_SECS).then_some(BodyUnit::Seconds);
    }
    let is_millis = number >= SHOWN_MILLIS_MIN && of_millis <= most;
    is_millis.then_some(BodyUnit::Milliseconds)
}

/// What was said, before it was cut.
fn secs(wait: Wait) -> f64 {
    wait.truly_secs.unwrap_or_else(|| nanos_to_secs(wait.length))
}

#[expect(clippy::cast_precision_loss, reason = "it is compared with what was rounded")]
fn nanos_to_secs(length: Nanos) -> f64 {
    length.get() as f64 / 1e9
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
fn from_secs(secs: f64) -> Wait {
    // A double beyond what an integer holds becomes the largest integer.
    let length = Nanos::new((secs * 1e9).ceil() as u128);
    let truly_secs = (length > WAIT_MAX).then_some(secs);
    Wait { length: length.min(WAIT_MAX), truly_secs }
}

#[cfg(test)]
mod tests;
