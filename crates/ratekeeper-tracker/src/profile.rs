//! What is known of an API before it has answered: a profile is data and a route function.
//!
//! [`Profile::generic`] needs nothing to be known. Where something is, it is quickly said:
//!
//! ```
//! use ratekeeper_time::Nanos;
//! use ratekeeper_tracker::profile::{Pace, Paces, Profile, Refill, RouteWriter};
//! use ratekeeper_tracker::{Request, Tracker};
//!
//! /// Each collection has a budget of its own; `GET` and `HEAD` share it.
//! fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
//!     let collection = request.path.split(['/', '?']).nth(1).unwrap_or_default();
//!     route.piece(if request.method == "HEAD" { "GET" } else { request.method });
//!     route.piece(collection);
//!     if collection == "status" {
//!         route.exempt();
//!     }
//! }
//!
//! const LIBRARY: Profile = Profile {
//!     name: "the library",
//!     route,
//!     paces: Paces::new(&[Pace::new(10, Nanos::from_secs(1))]),
//!     at_once: Some(4),
//!     refill: Refill::Fixed { precision: Nanos::from_secs(1) },
//!     ..Profile::generic()
//! };
//! let tracker = Tracker::new(LIBRARY);
//! # drop(tracker);
//! ```

mod discord;
mod github;
mod models;
pub(crate) mod route;

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

pub use crate::budget::Refill;
pub use crate::invalid::{INVALID_SECS_MAX, InvalidMax};
pub use crate::pace::{PACE_MAX, Pace, PaceCostFn};
pub(crate) use crate::paces::PaceCosts;
pub use crate::paces::{PACES_MAX, Paces};
use crate::request::Request;
pub(crate) use route::Route;
pub use route::{NAME_BYTES_MAX, RouteWriter};

/// The longest wait that is believed, where nothing else is set.
pub const LONGEST_WAIT_DEFAULT: Nanos = Nanos::from_secs(3_600);

/// From here on a whole number in a body is taken to count milliseconds, where nothing else shows
/// what it counts: few are told to wait for minutes by nothing but a body.
pub const WHOLE_MILLIS_MIN: u32 = 100;

/// Writes the pieces that tell a request's route from others.
pub type RouteFn = fn(&Request<'_>, &mut RouteWriter<'_>);

/// What is known of an API.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// What people call it; also the name of the bucket of all requests.
    pub name: &'static str,
    /// The hosts that are one API, in lower case: they share all budgets and limits, whatever the
    /// scheme and the port. Every other origin, and each if there are none, has an account of its
    /// own for which the profile holds as well.
    pub hosts: &'static [&'static str],
    /// Which budget a request belongs to.
    pub route: RouteFn,
    /// Limits on all requests, or on some of them, that are not told in header fields, and so are kept
    /// in advance.
    pub paces: Paces,
    /// How many requests may be in flight at once, where that is limited.
    pub at_once: Option<u32>,
    /// How budgets fill up again.
    pub refill: Refill,
    /// What the body of a refusal looks like.
    pub body: Body,
    /// Whether 403 may mean a limit as 429 does: if nothing is left, if `Retry-After` is there,
    /// or if the body speaks of a rate limit.
    pub forbidden_is_limited: bool,
    /// How long to wait after a refusal that does not say; doubled each time in a row.
    pub unsaid: Nanos,
    /// The longest wait that is believed, whatever is said: after it, one request finds out.
    pub longest_wait: Nanos,
    /// How many refused requests it bears: 401, 403 and 429 count, but for shared limits.
    pub invalid: Option<InvalidMax>,
}

/// What the body of a refusal looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Anything. Where it is a JSON object all the same, `retry_after` in it counts as
    /// [`BodyUnit::AsTold`].
    Any,
    /// A JSON object. A refusal that has another body and no field that names a limit is not from
    /// the API but from a proxy before it, and it is meant for every request. Where the body was not
    /// read, and with `HEAD`, it is the API's.
    Json {
        /// What the number in `retry_after` counts.
        retry_after: BodyUnit,
    },
}

/// What the number in the body of a refusal counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyUnit {
    /// What the API's own answers show: `Retry-After` or the reset in the same response, or in one
    /// before. Where none of them has shown it, a number with a fraction counts seconds, and so does
    /// a whole one, unless it is far longer than the limit's window or the reset, or
    /// [`WHOLE_MILLIS_MIN`] or more. What comes after that wait shows whether it was right.
    AsTold,
    /// Seconds, maybe with a fraction.
    Seconds,
    /// Milliseconds, maybe with a fraction.
    Milliseconds,
}

impl Profile {
    /// Any API: one budget for all of it, unless its responses name several.
    ///
    /// Requests whose paths differ only in numbers and identifiers are of one route, and a route
    /// moves to a bucket of its own once a response to it names one.
    pub const fn generic() -> Self {
        Self {
            name: "all requests",
            hosts: &[],
            route: generic_route,
            paces: Paces::NONE,
            at_once: None,
            refill: Refill::Moving,
            body: Body::Any,
            forbidden_is_limited: false,
            unsaid: Nanos::from_secs(1),
            longest_wait: LONGEST_WAIT_DEFAULT,
            invalid: None,
        }
    }

    /// Discord.
    pub const fn discord() -> Self {
        discord::PROFILE
    }

    /// GitHub's REST and GraphQL API.
    pub const fn github() -> Self {
        github::PROFILE
    }

    /// `OpenAI`. Say the model in [`Request::group`], for each has budgets of its own.
    pub const fn openai() -> Self {
        models::OPENAI
    }

    /// Anthropic. Say the model in [`Request::group`], for each has budgets of its own.
    pub const fn anthropic() -> Self {
        models::ANTHROPIC
    }

    pub(crate) fn route(&self, request: &Request<'_>, now: Moment) -> Route {
        self.write(request, now, None)
    }

    /// What people call the bucket that a request belongs to until the server names it.
    pub(crate) fn describe(&self, request: &Request<'_>, now: Moment) -> String {
        let mut name = String::new();
        self.write(request, now, Some(&mut name));
        if name.is_empty() {
            self.name.clone_into(&mut name);
        }
        name
    }

    fn write(&self, request: &Request<'_>, now: Moment, name: Option<&mut String>) -> Route {
        let mut writer = RouteWriter::new(now, name);
        if !request.group.is_empty() {
            writer.major(request.group);
        }
        (self.route)(request, &mut writer);
        let route = Route { is_bodiless: request.method == "HEAD", ..writer.finish() };
        if route.exempt { route } else { Route { costs: PaceCosts::of(self, request), ..route } }
    }
}

fn generic_route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    route.shares();
    route.piece(request.method);
    for segment in segments(request.path) {
        route.piece(if is_identifier(segment) { ":id" } else { segment });
    }
}

/// The parts of a path, without its query.
#[inline]
fn segments(path: &str) -> Segments<'_> {
    Segments { rest: behind_slashes(path) }
}

/// Goes through a path once: it is walked for every request.
#[derive(Clone, Debug)]
struct Segments<'p> {
    /// Empty, or begins with a part that is not.
    rest: &'p str,
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    #[expect(clippy::inline_always, reason = "a call takes as long as a part of a path")]
    #[inline(always)]
    fn next(&mut self) -> Option<&'p str> {
        if self.rest.is_empty() {
            return None;
        }
        let (segment, rest) = self.rest.split_at(segment_end(self.rest.as_bytes()));
        self.rest = behind_slashes(rest);
        Some(segment)
    }
}

/// What is behind the slash that a path may begin with, or behind several; nothing where the path
/// is over.
#[inline]
fn behind_slashes(path: &str) -> &str {
    match path.as_bytes() {
        [b'/', b'a'..=b'z' | b'0'..=b'9', ..] => &path[1..],
        [] => path,
        _ => behind_any(path),
    }
}

#[cold]
fn behind_any(path: &str) -> &str {
    let path = path.trim_start_matches('/');
    if path.starts_with(['?', '#']) { "" } else { path }
}

/// Where the first part of a path ends. Eight bytes are looked at together, which is several times
/// as quick as one by one; the last eight may have been looked at before.
#[inline]
fn segment_end(path: &[u8]) -> usize {
    let Some(last) = path.last_chunk::<8>() else {
        let end = path.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        return end.unwrap_or(path.len());
    };
    let (words, _) = path.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        if let Some(end) = word_end(*word) {
            return at * word.len() + end;
        }
    }
    word_end(*last).map_or(path.len(), |end| path.len() - last.len() + end)
}

/// Where in eight bytes a part of a path ends.
#[inline]
fn word_end(word: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(word);
    // `/` and `?` differ in one bit.
    let ends = zero_bytes((word | each(0x10)) ^ each(b'?')) | zero_bytes(word ^ each(b'#'));
    (ends != 0).then_some(ends.trailing_zeros() as usize / 8)
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Has the highest bit set of the first byte that is zero, and no bit below it.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(each(1)) & !word & each(0x80)
}

/// Whether a part of a path looks as if it named one of many things: a number, or something with
/// digits that is as long as a hash or an UUID.
fn is_identifier(segment: &str) -> bool {
    const LONG: usize = 16;
    if segment.len() < LONG {
        is_number(segment)
    } else {
        segment.bytes().any(|byte| byte.is_ascii_digit())
    }
}

fn is_number(segment: &str) -> bool {
    let Some(last) = segment.as_bytes().last_chunk::<8>() else {
        return !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    };
    let (words, _) = segment.as_bytes().as_chunks::<8>();
    words.iter().chain([last]).all(|word| are_digits(u64::from_le_bytes(*word)))
}

/// Digits are 0x30 to 0x39: six more is still below 0x40.
const fn are_digits(word: u64) -> bool {
    let high = each(0xf0);
    word & high == each(0x30) && word.wrapping_add(each(6)) & high == each(0x30)
}

#[cfg(test)]
mod tests;
