//! Discord: budgets by route and major parameter, and fifty requests a second in all.

use tollgate::{Moment, Nanos};

use super::{Body, BodyUnit, InvalidMax, Pace, Profile, Refill, RouteWriter, is_identifier};
use crate::request::Request;

pub(super) const PROFILE: Profile = Profile {
    name: "discord",
    route,
    pace: Some(Pace { count: 50, window: Nanos::from_secs(1) }),
    // `X-RateLimit-Reset-After` has three decimals.
    refill: Refill::Fixed { precision: Nanos::new(1_000_000) },
    body: Body::Json { retry_after: BodyUnit::Seconds },
    forbidden_is_limited: false,
    unsaid: Nanos::from_secs(1),
    invalid: Some(InvalidMax { count: 10_000, window: Nanos::from_secs(600) }),
};

/// Messages older than this are deleted on a smaller budget.
const OLD: Nanos = Nanos::from_secs(14 * 86_400);
/// What identifiers count milliseconds from: the first second of 2015.
const ID_EPOCH_MS: u64 = 1_420_070_400_000;
/// The tokens of interactions are Base64 of a text that begins with "interaction".
const INTERACTION_TOKEN: &str = "aW50ZXJhY3Rpb2";

fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut segments = super::segments(request.path).peekable();
    let _ = segments.next_if_eq(&"api");
    let _ = segments.next_if(|segment| is_version(segment));
    let Some(root) = segments.next() else { return route.piece(request.method) };

    // Adding and removing reactions is one budget, whatever the reaction.
    let mut rest = segments.clone();
    let is_message = root == "channels" && rest.nth(1) == Some("messages");
    let message = if is_message { rest.next() } else { None };
    let reacts = is_message && request.method != "GET" && rest.next() == Some("reactions");
    route.piece(if reacts { "REACT" } else { request.method });

    write_majors(root, &mut segments, route);
    for segment in segments {
        route.piece(if is_identifier(segment) { ":id" } else { segment });
        if segment == "reactions" {
            break;
        }
    }
    if reacts {
        route.alone();
    } else if let Some(message) = message.filter(|_| request.method == "DELETE") {
        route.alone();
        if is_old(message, route.now()) {
            route.piece("old");
        }
    }
}

/// The first parts of a path, of which some identifiers keep budgets apart.
fn write_majors<'p>(
    root: &'p str,
    segments: &mut std::iter::Peekable<impl Iterator<Item = &'p str>>,
    route: &mut RouteWriter<'_>,
) {
    route.piece(root);
    match root {
        "channels" | "guilds" => {
            if let Some(id) = segments.next_if(|segment| is_number(segment)) {
                route.major(id);
            }
        }
        "webhooks" => {
            if let Some(id) = segments.next_if(|segment| is_number(segment)) {
                route.major(id);
            }
            if let Some(token) = segments.next() {
                route.secret(token);
                if token.starts_with(INTERACTION_TOKEN) {
                    route.exempt();
                }
            }
        }
        "interactions" => {
            if let Some(id) = segments.next() {
                route.major(id);
            }
            if segments.next().is_some() {
                route.piece(":token");
            }
            route.exempt();
        }
        // Whoever has the code of an invitation may come in, so it is nobody's to read.
        "invites" if segments.next().is_some() => route.piece(":code"),
        _ => {}
    }
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(is_number)
}

fn is_number(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether an identifier was made long ago: it begins with when that was.
fn is_old(id: &str, now: Moment) -> bool {
    let Ok(id) = id.parse::<u64>() else { return false };
    let made_ms = (id >> 22).saturating_add(ID_EPOCH_MS);
    now.since(Moment::from_nanos(made_ms.saturating_mul(1_000_000))) > OLD
}
