//! From decisions to the text of header fields, for servers.
//!
//! Whatever is said is true: whoever waits as long as any field says, passes, if nobody else
//! spends. So every length of time is rounded up. [`read`](super::read) reads what is formatted
//! here, and never reads an earlier time than was meant.

use std::fmt::Write as _;

use jiff::Timestamp;
use ratekeeper_time::{Moment, Nanos};
use smallvec::SmallVec;

/// How many policies a list has at most.
pub const POLICIES_MAX: usize = 16;
/// How long a list of policies is at most, so that no client refuses the answer for its header.
/// One policy always fits: a name has a thousand bytes, each of which takes three at most.
pub const FIELD_BYTES_MAX: usize = 4 << 10;

/// The digits of the largest `u64`.
const DIGITS_MAX: usize = 20;
/// Most lists are not longer.
const LIST_BYTES: usize = 64;

/// The field that says what is left of each policy.
pub const RATELIMIT: &str = "ratelimit";
/// The field that says what the policies are.
pub const RATELIMIT_POLICY: &str = "ratelimit-policy";
/// The older field for how much there is when the bucket is full.
pub const X_RATELIMIT_LIMIT: &str = "x-ratelimit-limit";
/// The older field for how much is left.
pub const X_RATELIMIT_REMAINING: &str = "x-ratelimit-remaining";
/// The older field for when there is more, in one of the [`ResetStyle`]s.
pub const X_RATELIMIT_RESET: &str = "x-ratelimit-reset";

/// The largest integer of a structured field: 15 digits.
const INTEGER_MAX: u128 = 999_999_999_999_999;
const SECOND: u128 = SECOND_NANOS as u128;
const SECOND_NANOS: u64 = 1_000_000_000;
const MILLISECOND: u128 = 1_000_000;

/// One policy and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy<'a> {
    /// The name of the limit.
    pub name: &'a str,
    /// How much there is when the bucket is full.
    pub quota: u64,
    /// How long an empty bucket takes to fill.
    pub window: Nanos,
    /// How much is left.
    pub remaining: u64,
    /// How long until there is more; zero if the bucket is full.
    pub more_in: Nanos,
}

/// The two lists, which have the same policies in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// What `RateLimit-Policy` says.
    pub policies: String,
    /// What `RateLimit` says.
    pub states: String,
}

/// How `X-RateLimit-Reset` tells the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetStyle {
    /// Seconds from now.
    Seconds,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMillis,
    /// A date and time of day.
    Iso8601,
}

/// What `X-RateLimit-Reset` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// A number of seconds or milliseconds.
    Number(u64),
    /// A date and time of day.
    Date(String),
}

/// Lists policies, the first first, until there are enough. A name stands for one policy: of
/// several with the same name only the first is told. `retry_after` is what a denial says in
/// [`retry_after_secs`].
pub fn lists<'a>(
    policies: impl IntoIterator<Item = Policy<'a>>,
    retry_after: Option<u64>,
) -> Lists {
    let text = || String::with_capacity(LIST_BYTES);
    let mut lists = Lists { policies: text(), states: text() };
    let mut listed: SmallVec<[&str; POLICIES_MAX]> = SmallVec::new();
    for policy in policies {
        if listed.contains(&policy.name) {
            continue;
        }
        let lengths = (lists.policies.len(), lists.states.len());
        list_policy(&mut lists.policies, &policy);
        list_state(&mut lists.states, &policy, retry_after);
        if lists.policies.len().max(lists.states.len()) > FIELD_BYTES_MAX {
            lists.policies.truncate(lengths.0);
            lists.states.truncate(lengths.1);
            break;
        }
        listed.push(policy.name);
        if listed.len() == POLICIES_MAX {
            break;
        }
    }
    lists
}

/// What the list of states says of a policy: its `r`, and its `t` if it has one.
pub fn standing(remaining: u64, more_in: Nanos, retry_after: Option<u64>) -> (u64, Option<u64>) {
    let more_in = whole_secs(more_in);
    // Nobody who was denied has to wait for the buckets that would have let him pass.
    let is_told = more_in > 0 && retry_after.is_none_or(|retry_after| more_in <= retry_after);
    (integer(remaining.into()), is_told.then_some(more_in))
}

/// A name as both lists have it.
pub fn quoted(name: &str) -> String {
    let mut text = String::new();
    list_name(&mut text, name);
    text
}

/// What `Retry-After` says to whoever has to wait so long: whole seconds, at least one, as who is
/// told to wait none comes straight back and is denied again.
pub fn retry_after_secs(wait: Nanos) -> u64 {
    whole_secs(wait).max(1)
}

/// What `X-RateLimit-Reset` says if there is more in `more_in`. `now` counts from 1970.
pub fn reset(style: ResetStyle, more_in: Nanos, now: Moment) -> Reset {
    let at = u128::from(now.as_nanos()).saturating_add(more_in.get());
    Reset::Number(match style {
        ResetStyle::Seconds => whole_secs(more_in),
        ResetStyle::Unix => integer(at.div_ceil(SECOND)),
        ResetStyle::UnixMillis => integer(at.div_ceil(MILLISECOND)),
        ResetStyle::Iso8601 => return Reset::Date(date(at)),
    })
}

fn list_policy(to: &mut String, policy: &Policy<'_>) {
    list_name(to, policy.name);
    list_number(to, ";q=", integer(policy.quota.into()));
    list_number(to, ";w=", whole_secs(policy.window).max(1));
}

fn list_state(to: &mut String, policy: &Policy<'_>, retry_after: Option<u64>) {
    list_name(to, policy.name);
    let (remaining, more_in) = standing(policy.remaining, policy.more_in, retry_after);
    list_number(to, ";r=", remaining);
    if let Some(more_in) = more_in {
        list_number(to, ";t=", more_in);
    }
}

/// Without `write!`, which took a sixth of the instructions of a server that answers little else.
fn list_number(to: &mut String, before: &str, number: u64) {
    let mut digits = [b'0'; DIGITS_MAX];
    let (mut rest, mut start) = (number, DIGITS_MAX);
    for digit in digits.iter_mut().rev() {
        *digit = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or_default());
        (rest, start) = (rest / 10, start.saturating_sub(1));
        if rest == 0 {
            break;
        }
    }
    to.push_str(before);
    let digits = digits.get(start..).unwrap_or_default();
    to.push_str(std::str::from_utf8(digits).unwrap_or_default());
}

/// A name as a string of a structured field, which can hold printable ASCII only. The rest is
/// percent-encoded, and the percent sign too, so that decoding always gives the name.
fn list_name(to: &mut String, name: &str) {
    to.push_str(if to.is_empty() { "\"" } else { ", \"" });
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'%');
    if name.bytes().all(is_plain) {
        to.push_str(name);
    } else {
        list_odd_name(to, name);
    }
    to.push('"');
}

fn list_odd_name(to: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => to.extend(['\\', byte.into()]),
            b'%' => to.push_str("%25"),
            b' '..=b'~' => to.push(byte.into()),
            _ => {
                let _ = write!(to, "%{byte:02X}");
            }
        }
    }
}

fn date(at: u128) -> String {
    let secs = i64::try_from(at.div_ceil(SECOND)).unwrap_or(i64::MAX);
    // The last second there is stands for all that come later.
    let date = Timestamp::from_second(secs).or(Timestamp::from_second(Timestamp::MAX.as_second()));
    date.unwrap_or(Timestamp::MAX).to_string()
}

/// Rounds up: a client that waits this long has waited long enough.
fn whole_secs(length: Nanos) -> u64 {
    // Dividing 128 bits takes many times as long as 64.
    match u64::try_from(length.get()) {
        Ok(nanos) => nanos.div_ceil(SECOND_NANOS),
        Err(_) => integer(length.get().div_ceil(SECOND)),
    }
}

/// The largest integer that a field can hold stands for all that are larger.
fn integer(value: u128) -> u64 {
    u64::try_from(value.min(INTEGER_MAX)).unwrap_or(u64::MAX)
}
