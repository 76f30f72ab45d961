//! The fields of a limit, each with its rule.

use super::Limit;
use super::duration::{DurationError, parse_duration};
use super::fault::{Report, Span};
use super::name::nearest;
use super::yaml::{Key, Node, Pair, Value};
use crate::Nanos;
use crate::algorithm::gcra::{BURST_MAX, RuleError};

/// The longest comment on an override.
pub const COMMENT_BYTES_MAX: usize = 1 << 10;

/// How much of what was found is repeated in a fault.
const FOUND_CHARS_MAX: usize = 40;

const REQUIRED: [&str; 3] = ["burst", "count", "period"];

/// The fields of one entry, all of which are known.
pub struct Fields<'t, 'a> {
    owner: Owner<'t>,
    pairs: &'t [Pair<'a>],
}

/// What the fields belong to. A fault about a field that is not there points at it.
#[derive(Clone, Copy)]
pub struct Owner<'t> {
    /// Its name.
    pub name: &'t str,
    /// Where it stands.
    pub span: Span,
}

impl<'t> From<&'t Key<'_>> for Owner<'t> {
    fn from(key: &'t Key<'_>) -> Self {
        Self { name: &key.text, span: key.span }
    }
}

impl<'t, 'a> Fields<'t, 'a> {
    /// The fields below `owner`, if it has any. Reports those that are not among `known`.
    pub fn read(
        owner: Owner<'t>,
        node: &'t Node<'a>,
        known: &[&str],
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let name = found(owner.name);
        match &node.value {
            Value::Mapping(pairs) => return Some(Self::of(owner, pairs, known, report)),
            Value::Null => {
                let help = format!("expected {}", list(known));
                report.fault(owner.span, format!("{name} has no fields"), help);
            }
            Value::Scalar { .. } | Value::List(_) => {
                let message = format!("{name} is {}", describe(node));
                report.fault(node.span, message, format!("expected {}", list(known)));
            }
            Value::Refused => {}
        }
        None
    }

    /// The fields that `pairs` are. Reports those that are not among `known`.
    pub fn of(
        owner: Owner<'t>,
        pairs: &'t [Pair<'a>],
        known: &[&str],
        report: &mut Report<'_>,
    ) -> Self {
        for Pair { key, .. } in pairs {
            refuse_unknown(key, known, report);
        }
        Self { owner, pairs }
    }

    /// The field of this name.
    pub fn find(&self, name: &str) -> Option<&'t Pair<'a>> {
        self.pairs.iter().find(|pair| pair.key.text == name)
    }

    /// The limit that burst, count and period make.
    pub(super) fn limit(&self, report: &mut Report<'_>) -> Option<Limit> {
        self.refuse_missing(&REQUIRED, report);
        let [burst, count, period] = REQUIRED.map(|name| self.find(name));
        let in_bounds = |pair, report: &mut _| whole_number(pair, BURST_MAX, report);
        let burst_tokens = burst.and_then(|pair| in_bounds(pair, report));
        let count_tokens = count.and_then(|pair| whole_number(pair, u64::MAX, report));
        let length = period.and_then(|pair| duration(pair, report));
        let (burst_tokens, count_tokens, length) = (burst_tokens?, count_tokens?, length?);
        Limit::new(burst_tokens, count_tokens, length)
            .map_err(|error| {
                let pair = match error {
                    RuleError::Burst => burst,
                    RuleError::Count | RuleError::TooFine => count,
                    RuleError::Period => period,
                };
                let span = pair.map_or(self.owner.span, |pair| pair.value.span);
                report.fault(span, error.to_string(), "use a coarser rate");
            })
            .ok()
    }

    /// Reports those of `names` that are not there, in one fault, unless they are misspelt.
    pub fn refuse_missing(&self, names: &[&str], report: &mut Report<'_>) {
        let is_misspelt = |name: &str| {
            let near = |pair: &Pair<'_>| nearest(&pair.key.text, [name].into_iter()).is_some();
            self.pairs.iter().any(near)
        };
        let is_missing = |name: &&str| self.find(name).is_none() && !is_misspelt(name);
        let missing: Vec<&str> = names.iter().copied().filter(is_missing).collect();
        if !missing.is_empty() {
            let message = format!("{} has no {}", found(self.owner.name), list(&missing));
            report.fault(self.owner.span, message, format!("expected {}", list(names)));
        }
    }
}

/// Reports a field that is not among `known`.
pub fn refuse_unknown(key: &Key<'_>, known: &[&str], report: &mut Report<'_>) {
    if known.contains(&&*key.text) {
        return;
    }
    let help = match nearest(&key.text, known.iter().copied()) {
        Some(field) => format!("did you mean `{field}`?"),
        None => format!("expected {}", list(known)),
    };
    report.fault(key.span, format!("unknown field `{}`", found(&key.text)), help);
}

/// A whole number from 1 to `max`, in plain decimal digits.
pub fn whole_number(pair: &Pair<'_>, max: u64, report: &mut Report<'_>) -> Option<u64> {
    let Pair { key: Key { text: field, span, .. }, value } = pair;
    let expected = "expected a whole number such as 20";
    let text = match &value.value {
        Value::Scalar { text, is_plain: true } => text,
        Value::Scalar { text, .. } => {
            let help = format!("expected a whole number without quotes, found \"{}\"", found(text));
            report.fault(value.span, format!("{field} is a text"), help);
            return None;
        }
        Value::Null => return no_value(field, *span, expected, report),
        _ => return not_a_scalar(field, value, expected, report),
    };
    let refuse = |message: &str, help: String, report: &mut Report<'_>| {
        report.fault(value.span, format!("{field} {message}"), help);
        None
    };
    let negative = text.strip_prefix('-').is_some_and(is_decimal);
    match text.parse::<u64>() {
        _ if negative => refuse("is negative", expected.into(), report),
        _ if !is_decimal(text) => {
            let help = format!("{expected}, found `{}`", found(text));
            refuse("is not a whole number", help, report)
        }
        Ok(0) => refuse("is zero", format!("{expected}, at least 1"), report),
        _ if text.starts_with('0') => {
            let help = format!("write {}", found(text.trim_start_matches('0')));
            refuse("begins with a zero", help, report)
        }
        Ok(number) if number <= max => Some(number),
        _ => refuse("is too large", format!("expected at most {max}"), report),
    }
}

/// A number from 0 to `max` such as `20` or `0.5`, without a sign or an exponent.
pub fn decimal(pair: &Pair<'_>, max: f64, report: &mut Report<'_>) -> Option<f64> {
    let Pair { key: Key { text: field, span, .. }, value } = pair;
    let expected = "expected a number such as 20 or 0.5";
    let text = match &value.value {
        Value::Scalar { text, is_plain: true } => text,
        Value::Scalar { text, .. } => {
            let help = format!("expected a number without quotes, found \"{}\"", found(text));
            report.fault(value.span, format!("{field} is a text"), help);
            return None;
        }
        Value::Null => return no_value(field, *span, expected, report),
        _ => return not_a_scalar(field, value, expected, report),
    };
    let is_number = |text: &str| {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        is_decimal(whole) && is_decimal(part)
    };
    let (message, help) = match text.parse::<f64>() {
        Ok(number) if is_number(text) && number <= max => return Some(number),
        _ if is_number(text) => ("is too large", format!("expected at most {max}")),
        _ if text.strip_prefix('-').is_some_and(is_number) => ("is negative", expected.into()),
        _ => ("is not a number", format!("{expected}, found `{}`", found(text))),
    };
    report.fault(value.span, format!("{field} {message}"), help);
    None
}

/// `true` or `false`.
pub fn boolean(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<bool> {
    let Pair { key: Key { text: field, span, .. }, value } = pair;
    let expected = "expected true or false";
    match &value.value {
        Value::Scalar { text, is_plain: true } if text == "true" => Some(true),
        Value::Scalar { text, is_plain: true } if text == "false" => Some(false),
        Value::Scalar { text, .. } => {
            let help = format!("{expected}, found `{}`", found(text));
            report.fault(value.span, format!("{field} is neither true nor false"), help);
            None
        }
        Value::Null => no_value(field, *span, expected, report),
        _ => not_a_scalar(field, value, expected, report),
    }
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A length of time, such as `1h30m`.
pub fn duration(pair: &Pair<'_>, report: &mut Report<'_>) -> Option<Nanos> {
    let field = &pair.key.text;
    let text = text(pair, "expected a duration such as 180s, 3m or 1h30m", report)?;
    parse_duration(text)
        .map_err(|error| {
            let help = duration_help(error, text);
            report.fault(pair.value.span, format!("{field} {error}"), help);
        })
        .ok()
}

fn duration_help(error: DurationError, text: &str) -> String {
    match error {
        DurationError::NoUnit => format!("did you mean {0}s or {0}m?", found(text)),
        DurationError::NoLastUnit | DurationError::UnknownUnit => {
            "expected the units ns, us, ms, s, m, h, d or w, as in 1h30m".into()
        }
        DurationError::NotWhole => "use a smaller unit, or fewer decimals".into(),
        DurationError::Empty
        | DurationError::Negative
        | DurationError::Zero
        | DurationError::NoNumber
        | DurationError::TooLong => "expected a duration such as 180s, 3m or 1h30m".into(),
    }
}

/// The text of a field, quoted or not: a bare number is a text of digits.
pub fn text<'t>(pair: &'t Pair<'_>, expected: &str, report: &mut Report<'_>) -> Option<&'t str> {
    let field = &pair.key.text;
    match &pair.value.value {
        Value::Scalar { text, .. } if text.is_empty() => {
            report.fault(pair.value.span, format!("{field} is empty"), expected);
            None
        }
        Value::Scalar { text, .. } => Some(text),
        Value::Null => no_value(field, pair.key.span, expected, report),
        _ => not_a_scalar(field, &pair.value, expected, report),
    }
}

/// Points at the field: where its value is missing, there is nothing to point at.
fn no_value<T>(field: &str, span: Span, expected: &str, report: &mut Report<'_>) -> Option<T> {
    report.fault(span, format!("{field} has no value"), expected);
    None
}

fn not_a_scalar<T>(
    field: &str,
    value: &Node<'_>,
    expected: &str,
    report: &mut Report<'_>,
) -> Option<T> {
    if !matches!(value.value, Value::Refused) {
        report.fault(value.span, format!("{field} is {}", describe(value)), expected);
    }
    None
}

/// What stands there, for a fault that says what should.
pub fn describe(node: &Node<'_>) -> String {
    match &node.value {
        Value::Null | Value::Refused => "nothing".into(),
        Value::Scalar { text, .. } => format!("`{}`", found(text)),
        Value::List(_) => "a list".into(),
        Value::Mapping(_) => "a mapping".into(),
    }
}

/// What was found, short enough to repeat.
pub fn found(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(FOUND_CHARS_MAX).flat_map(shown_char).collect();
    if chars.next().is_some() {
        shown.push_str("..");
    }
    shown
}

/// A fault or change is told in one line, whatever the file says.
pub(super) fn shown_char(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = (!c.is_control()).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// `burst, count and period`
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).into(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}
