//! Which field is which: by its name, whatever its case.

use super::said::Unit;
use super::span::SECOND;

/// A field that says something about limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field {
    /// Something about one budget.
    Of(&'static Group, Part),
    /// What the one budget of a dialect with one is called.
    Name,
    Bucket,
    Resource,
    Global,
    Scope,
    RetryAfter,
    RetryAfterMillis,
    /// The list `RateLimit`.
    States,
    /// The list `RateLimit-Policy`.
    Policies,
    Date,
    Age,
}

/// What is said of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Limit,
    Remaining,
    Used,
    Reset,
    ResetAfter,
    WindowMillis,
    /// `used/limit` in one field.
    UsedOfLimit,
}

/// A budget that a field's name speaks of.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    pub(super) name: &'static str,
    /// `None` if it counts what a request does not tell.
    pub(super) unit: Option<Unit>,
    /// In nanoseconds.
    pub(super) window: Option<u64>,
}

const fn group(name: &'static str, unit: Option<Unit>) -> Group {
    Group { name, unit, window: None }
}

const fn each(name: &'static str, secs: u64) -> Group {
    Group { name, unit: Some(Unit::Requests), window: Some(secs.saturating_mul(SECOND)) }
}

/// The one budget of a dialect that has but one.
pub(super) static ONLY: Group = group("", Some(Unit::Requests));

static GROUPS: [Group; 18] = [
    group("requests", Some(Unit::Requests)),
    group("tokens", Some(Unit::Tokens)),
    group("input-tokens", Some(Unit::InputTokens)),
    group("output-tokens", Some(Unit::OutputTokens)),
    group("priority-input-tokens", Some(Unit::InputTokens)),
    group("priority-output-tokens", Some(Unit::OutputTokens)),
    group("tokens-prompt", Some(Unit::InputTokens)),
    group("tokens-generated", Some(Unit::OutputTokens)),
    group("complexity", None),
    group("endpoint-requests", Some(Unit::Requests)),
    each("second", 1),
    each("secondly", 1),
    each("minute", 60),
    each("hour", 3_600),
    each("day", 86_400),
    each("daily", 86_400),
    group("month", Some(Unit::Requests)),
    group("year", Some(Unit::Requests)),
];
static APP_DAY: Group = each("app-24hour", 86_400);
static USER_DAY: Group = each("user-24hour", 86_400);

const RARE_PREFIXES: [&str; 3] = ["x-rate-limit-", "x-hubspot-ratelimit-", "x-sib-ratelimit-"];
const DAY_PREFIXES: [(&str, &Group); 2] =
    [("x-app-limit-24hour-", &APP_DAY), ("x-user-limit-24hour-", &USER_DAY)];

impl Field {
    /// Whether there may be a field of this name. Most fields of a response are none of ours, and
    /// are told by their first letter.
    #[inline]
    pub(super) fn may_be(name: &str) -> bool {
        let first = name.as_bytes().first().map_or(0, |first| first | 0x20);
        matches!(first, b'x' | b'r' | b'a' | b'b' | b'd')
    }

    /// The field that has this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name.as_bytes().first()? | 0x20 {
            b'x' => of_x(name),
            b'r' => of_r(name),
            b'a' if is(name, "age") => Some(Self::Age),
            b'a' => {
                let suffix = behind(name, "anthropic-")?;
                by_group(behind(suffix, "ratelimit-").unwrap_or(suffix))
            }
            b'b' => of_lists(behind(name, "beta-")?),
            b'd' => is(name, "date").then_some(Self::Date),
            _ => None,
        }
    }
}

#[inline]
fn of_x(name: &str) -> Option<Field> {
    match behind(name, "x-ratelimit-") {
        Some(suffix) => of_suffix(suffix),
        None => of_rare_x(name),
    }
}

fn of_rare_x(name: &str) -> Option<Field> {
    if let Some(suffix) = RARE_PREFIXES.iter().find_map(|prefix| behind(name, prefix)) {
        return of_suffix(suffix);
    }
    if let Some((suffix, group)) =
        DAY_PREFIXES.iter().find_map(|(prefix, group)| Some((behind(name, prefix)?, *group)))
    {
        return Some(Field::Of(group, part(suffix)?));
    }
    match name.len() {
        12 if is(name, "x-rate-limit") => Some(Field::Of(&ONLY, Part::Limit)),
        19 if is(name, "x-ms-retry-after-ms") => Some(Field::RetryAfterMillis),
        29 if is(name, "x-shopify-shop-api-call-limit") => {
            Some(Field::Of(&ONLY, Part::UsedOfLimit))
        }
        _ => None,
    }
}

fn of_r(name: &str) -> Option<Field> {
    match name.len() {
        11 if is(name, "retry-after") => Some(Field::RetryAfter),
        14 if is(name, "retry-after-ms") => Some(Field::RetryAfterMillis),
        _ => of_lists(name).or_else(|| of_suffix(behind(name, "ratelimit-")?)),
    }
}

fn of_lists(name: &str) -> Option<Field> {
    match name.len() {
        9 if is(name, "ratelimit") => Some(Field::States),
        16 if is(name, "ratelimit-policy") => Some(Field::Policies),
        _ => None,
    }
}

/// What is behind a prefix that says that the field is about limits.
#[inline]
fn of_suffix(suffix: &str) -> Option<Field> {
    if let Some(part) = part(suffix) {
        return Some(Field::Of(&ONLY, part));
    }
    match suffix.len() {
        4 if is(suffix, "name") => Some(Field::Name),
        5 if is(suffix, "scope") => Some(Field::Scope),
        6 if is(suffix, "bucket") => Some(Field::Bucket),
        6 if is(suffix, "global") => Some(Field::Global),
        8 if is(suffix, "resource") => Some(Field::Resource),
        11 if is(suffix, "retry-after") => Some(Field::RetryAfter),
        _ => by_group(suffix),
    }
}

#[inline]
fn part(name: &str) -> Option<Part> {
    match name.len() {
        3 if is(name, "max") => Some(Part::Limit),
        4 if is(name, "used") => Some(Part::Used),
        5 if is(name, "limit") => Some(Part::Limit),
        5 if is(name, "reset") => Some(Part::Reset),
        8 if is(name, "observed") => Some(Part::Used),
        9 if is(name, "remaining") => Some(Part::Remaining),
        11 if is(name, "reset-after") => Some(Part::ResetAfter),
        21 if is(name, "interval-milliseconds") => Some(Part::WindowMillis),
        _ => None,
    }
}

/// `limit-tokens`, `tokens-limit`, or only `daily`, which is its limit.
fn by_group(suffix: &str) -> Option<Field> {
    let find = |name: &str| GROUPS.iter().find(|group| is(name, group.name));
    let first = || suffix.split_once('-').map(|(part, group)| (group, part));
    let last = || suffix.rsplit_once('-');
    let known = |(group, name): (&str, &str)| Some(Field::Of(find(group)?, part(name)?));
    let alone = || {
        let is_limit = is(suffix, "daily") || is(suffix, "secondly");
        Some(Field::Of(find(suffix).filter(|_| is_limit)?, Part::Limit))
    };
    first().and_then(known).or_else(|| last().and_then(known)).or_else(alone)
}

/// Most names come in lower case, and whole words are compared faster than letters.
#[inline]
fn is(name: &str, other: &str) -> bool {
    name == other || name.eq_ignore_ascii_case(other)
}

/// What is behind `prefix`.
#[inline]
fn behind<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    is(start, prefix).then_some(rest)
}
