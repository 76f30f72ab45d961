//! The buckets file: `NAME RATE`, one bucket per line, tokens per second.

use std::collections::HashMap;
use std::num::NonZeroU64;

use super::fault::{Faults, Report, Span, split_line};
use super::field::found;
use super::yaml::FILE_BYTES_MAX;
use super::{DefaultLimit, IdFormat, Limit, Limits, NAMES_MAX, NamedLimit, Origin, Source};
use crate::Nanos;
use crate::algorithm::Share;
use crate::algorithm::gcra::{BURST_MAX, greatest_common_divisor};
use crate::store::shared::Sharing;

/// The longest name a bucket can have: an ask for it still fits in a line of 1 KiB.
pub const BUCKET_NAME_BYTES_MAX: usize = 1000;
/// The highest rate a bucket can have, in tokens per second.
pub const BUCKET_RATE_MAX: u64 = 1_000_000_000;

/// How many words of a line are looked at: its columns, and one that is too many.
const WORDS_MAX: usize = 4;

const EXPECTED: &str = "expected lines such as `bucketa 1`: a name, and tokens per second";
const EXPECTED_RATE: &str = "expected tokens per second, such as 1, 2.5 or 1e2";
const TOO_FINE: &str =
    "it has too many decimals, or takes longer than a century: use a coarser rate";
const COMMENT_HELP: &str = "a comment needs a blank behind its #";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// `limits`, and a limit for each bucket.
pub(super) fn add(limits: Limits, source: &Source<'_>) -> Result<Limits, Faults> {
    let mut reader = Reader { limits, lines: HashMap::new(), report: Report::new(source) };
    reader.read(source.text);
    Faults::check([reader.report].into_iter())?;
    Ok(reader.limits)
}

struct Reader<'a> {
    limits: Limits,
    /// On which line each bucket stands.
    lines: HashMap<&'a str, u32>,
    report: Report<'a>,
}

/// A word of a line, and where it stands.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    span: Span,
}

impl Word<'_> {
    /// The help for a line that was likely meant as a comment if this is its name, else `help`.
    fn comment_or<'h>(&self, help: &'h str) -> &'h str {
        if self.text.starts_with('#') { COMMENT_HELP } else { help }
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, text: &'a str) {
        let start = Span { line: 1, column: 1, length: 1 };
        if text.len() > FILE_BYTES_MAX {
            let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
            return self.report.fault(start, message, "use fewer buckets");
        }
        let mut rest = Some(text);
        let (mut line, mut is_empty) = (0_u32, true);
        while let Some(text) = rest {
            let content;
            (content, rest) = split_line(text);
            line = line.saturating_add(1);
            let words: Vec<Word<'_>> = words(content, line).take(WORDS_MAX).collect();
            if !is_remark(&words) {
                is_empty = false;
                self.read_line(&words);
            }
        }
        if is_empty {
            self.report.fault(start, "there is no bucket in the file", EXPECTED);
        }
    }

    fn read_line(&mut self, words: &[Word<'a>]) {
        let [name, columns @ ..] = words else { return };
        let is_named = self.check_name(name);
        let limit = match columns {
            [] => {
                let message = format!("bucket `{}` has no rate", found(name.text));
                self.report.fault(name.span, message, name.comment_or(EXPECTED_RATE));
                None
            }
            [rate] => self.limit(name, *rate, None),
            [rate, burst] => self.limit(name, *rate, Some(*burst)),
            [_, _, extra, ..] => {
                let message = format!("bucket `{}` has a fourth column", found(name.text));
                let help = name.comment_or("expected NAME RATE [BURST]");
                self.report.fault(extra.span, message, help);
                None
            }
        };
        if let Some(limit) = limit.filter(|_| is_named) {
            self.declare(name, limit);
        }
    }

    /// Reports what cannot name another bucket.
    fn check_name(&mut self, name: &Word<'a>) -> bool {
        let shown = found(name.text);
        let mut refuse = |message: String, help: String| {
            self.report.fault(name.span, message, help);
            false
        };
        if name.text.len() > BUCKET_NAME_BYTES_MAX {
            let message = format!("the name is longer than {BUCKET_NAME_BYTES_MAX} bytes");
            return refuse(message, "use a shorter name".into());
        }
        if let Some(c) = name.text.chars().find(|&c| c.is_control() || c == BYTE_ORDER_MARK) {
            let message = format!("the character U+{:04X} cannot stand in a file", u32::from(c));
            return refuse(message, "remove it".into());
        }
        if let Some(line) = self.lines.get(name.text) {
            let help = format!("it is on line {line} already");
            return refuse(format!("bucket `{shown}` stands here twice"), help);
        }
        if let Some(named) = self.limits.named(name.text) {
            let help = named.default().map_or_else(
                || "use another name".into(),
                |default| format!("it is in {}: use another name", default.origin),
            );
            return refuse(format!("`{shown}` is the name of a limit"), help);
        }
        if self.limits.names.len() >= NAMES_MAX {
            let message = format!("there are more than {NAMES_MAX} limits and buckets");
            return refuse(message, "use fewer buckets".into());
        }
        self.lines.insert(name.text, name.span.line);
        true
    }

    fn limit(&mut self, name: &Word<'_>, rate: Word<'_>, burst: Option<Word<'_>>) -> Option<Limit> {
        let per_second = self.rate(name, rate);
        let burst = burst.map(|burst| self.burst(name, burst));
        let Rate { count, secs } = per_second?;
        // What comes in a second, rounded up: of a rate below one, a token still has to fit.
        let burst = burst.unwrap_or_else(|| Some(count.div_ceil(secs)))?;
        Limit::new(burst, count, Nanos::from_secs(secs))
            .map_err(|_| {
                let (name, rate_text) = (found(name.text), found(rate.text));
                let message = format!("Invalid rate for bucket {name}: {rate_text}");
                self.report.fault(rate.span, message, TOO_FINE);
            })
            .ok()
    }

    fn rate(&mut self, name: &Word<'_>, rate: Word<'_>) -> Option<Rate> {
        let (value, help) = match Rate::parse(rate.text) {
            Ok(rate) => return Some(rate),
            Err(RateError::NotANumber) => (found(rate.text), EXPECTED_RATE.to_owned()),
            Err(RateError::TooFine) => (found(rate.text), TOO_FINE.into()),
            Err(RateError::Beyond(value)) => {
                let help = format!("{EXPECTED_RATE}, above 0 and at most {BUCKET_RATE_MAX}");
                (shown_double(value), help)
            }
        };
        let message = format!("Invalid rate for bucket {}: {value}", found(name.text));
        self.report.fault(rate.span, message, help);
        None
    }

    fn burst(&mut self, name: &Word<'_>, burst: Word<'_>) -> Option<u64> {
        let is_decimal = burst.text.bytes().all(|byte| byte.is_ascii_digit());
        let tokens = burst.text.parse().ok().filter(|tokens| (1..=BURST_MAX).contains(tokens));
        if is_decimal && tokens.is_some() {
            return tokens;
        }
        let message =
            format!("Invalid burst for bucket {}: {}", found(name.text), found(burst.text));
        let help = format!("expected a whole number from 1 to {BURST_MAX}");
        self.report.fault(burst.span, message, name.comment_or(&help));
        None
    }

    fn declare(&mut self, name: &Word<'_>, limit: Limit) {
        let origin = Origin { file: self.report.file().clone(), line: name.span.line };
        let Limits { names, places, .. } = &mut self.limits;
        places.insert(name.text.into(), names.len());
        names.push(NamedLimit {
            name: name.text.into(),
            number: None,
            is_bucket: true,
            is_shadow: false,
            sharing: Sharing::default(),
            share: Share::default(),
            id_format: IdFormat::Any,
            default: Some(DefaultLimit { limit, origin }),
            overrides: Vec::new(),
        });
    }
}

/// The words of a line, with their columns. A byte order mark before the first is no part of it.
fn words(line: &str, number: u32) -> impl Iterator<Item = Word<'_>> {
    let skipped = if number == 1 { line.strip_prefix(BYTE_ORDER_MARK) } else { None };
    let mut rest = skipped.unwrap_or(line);
    let mut column = 1_u32;
    std::iter::from_fn(move || {
        let start = rest.find(|c: char| !c.is_whitespace())?;
        let (blanks, from_word) = rest.split_at(start);
        let end = from_word.find(char::is_whitespace).unwrap_or(from_word.len());
        let (text, behind) = from_word.split_at(end);
        rest = behind;
        let span = Span {
            line: number,
            column: column.saturating_add(chars(blanks)),
            length: chars(text),
        };
        column = span.column.saturating_add(span.length);
        Some(Word { text, span })
    })
}

fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// Whether a line says nothing: it is blank, or a `#` and words behind it. But a bucket may be
/// called `#`, so that a `#` with nothing but numbers behind it is one.
fn is_remark(words: &[Word<'_>]) -> bool {
    match words {
        [] => true,
        [Word { text: "#", .. }, columns @ ..] => {
            let is_number = |word: &Word<'_>| Decimal::parse(word.text).is_some();
            columns.is_empty() || columns.len() > 2 || !columns.iter().all(is_number)
        }
        _ => false,
    }
}

/// Tokens that come back in so many seconds, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    count: u64,
    secs: u64,
}

enum RateError {
    NotANumber,
    /// It has more decimals than can be counted with.
    TooFine,
    /// It is zero, negative or too high.
    Beyond(f64),
}

impl Rate {
    fn parse(text: &str) -> Result<Self, RateError> {
        let number = Decimal::parse(text).ok_or(RateError::NotANumber)?;
        let value = text.parse().map_err(|_| RateError::NotANumber)?;
        let beyond = RateError::Beyond(value);
        if number.is_negative || value == 0.0 {
            return Err(beyond);
        }
        let digits = number.digits.ok_or(if value > 1e9 { beyond } else { RateError::TooFine })?;
        let power = |exponent: i32| 10_u64.checked_pow(exponent.unsigned_abs());
        if number.exponent >= 0 {
            let count = power(number.exponent).and_then(|power| digits.checked_mul(power));
            let in_bounds = count.filter(|count| *count <= BUCKET_RATE_MAX);
            return in_bounds.map(|count| Self { count, secs: 1 }).ok_or(RateError::Beyond(value));
        }
        let secs = power(number.exponent).ok_or(RateError::TooFine)?;
        if u128::from(digits) > u128::from(BUCKET_RATE_MAX).saturating_mul(secs.into()) {
            return Err(RateError::Beyond(value));
        }
        let (Some(digits), Some(secs)) = (NonZeroU64::new(digits), NonZeroU64::new(secs)) else {
            return Err(RateError::TooFine);
        };
        let common = greatest_common_divisor(digits, secs);
        Ok(Self { count: digits.get() / common, secs: secs.get() / common })
    }
}

/// `digits * 10^exponent`, with no zero at the end of the digits.
struct Decimal {
    is_negative: bool,
    /// Nothing if there are too many.
    digits: Option<u64>,
    exponent: i32,
}

impl Decimal {
    /// A number such as `1`, `+2.5` or `1e2`.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, decimals) = match mantissa.split_once('.') {
            Some((whole, decimals)) => (whole, Some(decimals)),
            None => (mantissa, None),
        };
        let is_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let of_exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
        let parts = [Some(whole), decimals, of_exponent];
        if !parts.into_iter().flatten().all(is_digits) {
            return None;
        }
        let decimals = decimals.unwrap_or("");
        let written = [whole, decimals].concat();
        let digits = written.trim_end_matches('0');
        // One that does not fit is beyond all bounds either way.
        let far =
            if exponent.is_some_and(|text| text.starts_with('-')) { i32::MIN } else { i32::MAX };
        let exponent = exponent.map_or(0, |text| text.parse().unwrap_or(far));
        let count = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
        let zeros = count(&written).saturating_sub(count(digits));
        Some(Self {
            is_negative: text.starts_with('-'),
            digits: if digits.is_empty() { Some(0) } else { digits.parse().ok() },
            exponent: exponent.saturating_sub(count(decimals)).saturating_add(zeros),
        })
    }
}

/// As programs in Haskell write it, whose faults people may be looking for: `0.0`, `1.0e10`.
fn shown_double(value: f64) -> String {
    let size = value.abs();
    if size.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    if size == 0.0 || (0.1..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}
