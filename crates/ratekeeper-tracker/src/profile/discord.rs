//! Discord: budgets by route and major parameter, and fifty requests a second in all.

use ratekeeper_time::{Moment, Nanos};

use super::{
    Body, BodyUnit, InvalidMax, Pace, Paces, Profile, Refill, RouteWriter, Segments, is_identifier,
    is_number,
};
use crate::request::Request;

pub(super) const PROFILE: Profile = Profile {
    name: "discord",
    hosts: &[
        "discord.com",
        "canary.discord.com",
        "ptb.discord.com",
        "discordapp.com",
        "canary.discordapp.com",
        "ptb.discordapp.com",
    ],
    route,
    // "All bots can make up to 50 requests per second to our API"; interactions are not bound to it:
    // <https://docs.discord.com/developers/topics/rate-limits>, November 2026.
    paces: Paces::new(&[Pace::new(50, Nanos::from_secs(1))]),
    at_once: None,
    // `X-RateLimit-Reset-After` has three decimals.
    refill: Refill::Fixed { precision: Nanos::new(1_000_000) },
    body: Body::Json { retry_after: BodyUnit::AsTold },
    forbidden_is_limited: false,
    unsaid: Nanos::from_secs(1),
    longest_wait: super::LONGEST_WAIT_DEFAULT,
    invalid: Some(InvalidMax { count: 10_000, window: Nanos::from_secs(600) }),
};

/// Messages older than this are deleted on a smaller budget.
const OLD: Nanos = Nanos::from_secs(14 * 86_400);
/// What identifiers count milliseconds from: the first second of 2015.
const ID_EPOCH_MS: u64 = 1_420_070_400_000;
/// The tokens of interactions are Base64 of a text that begins with "interaction".
const INTERACTION_TOKEN: &str = "aW50ZXJhY3Rpb2";

fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut parts = super::segments(request.path);
    let mut root = parts.next().unwrap_or_default();
    if root == "api" {
        root = parts.next().unwrap_or_default();
        if is_version(root) {
            root = parts.next().unwrap_or_default();
        }
    }
    if root == "channels" && write_message(request.method, parts.clone(), route) {
        return;
    }
    route.piece(request.method);
    write_majors(root, &mut parts, route);
    for part in parts {
        route.piece(if is_identifier(part) { ":id" } else { part });
    }
}

/// Writes the routes of messages that have budgets of their own. Whether it was one of them.
fn write_message(method: &str, mut parts: Segments<'_>, route: &mut RouteWriter<'_>) -> bool {
    if method != "DELETE" && method != "PUT" {
        return false;
    }
    let (Some(channel), Some("messages"), Some(message)) =
        (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    match (method, parts.next()) {
        // Adding and removing reactions is one budget, whatever the reaction.
        (_, Some("reactions")) => {
            route.piece("REACT");
            route.piece("channels");
            route.major(channel);
        }
        ("DELETE", None) => {
            let is_old = is_old(message, route.now());
            route.piece(if is_old { "DELETE OLD" } else { "DELETE" });
            route.piece("channels");
            route.major(channel);
            route.piece("messages");
        }
        _ => return false,
    }
    route.alone();
    true
}

/// Writes the first parts of a path, of which some identifiers keep budgets apart.
fn write_majors(root: &str, parts: &mut Segments<'_>, route: &mut RouteWriter<'_>) {
    let mut ahead = parts.clone();
    match (root, ahead.next()) {
        ("channels" | "guilds", Some(id)) if is_number(id) => {
            route.piece(root);
            route.major(id);
        }
        ("webhooks", Some(id)) => {
            route.piece(root);
            route.major(id);
            if let Some(token) = ahead.next() {
                route.secret(token);
                if token.starts_with(INTERACTION_TOKEN) {
                    route.exempt();
                }
            }
        }
        ("interactions", Some(id)) if ahead.next().is_some() => {
            route.piece(root);
            route.major(id);
            route.piece(":token");
            route.exempt();
        }
        // Whoever has the code of an invitation may come in, so it is nobody's to read.
        ("invites", Some(_code)) => {
            route.piece(root);
            route.piece(":code");
        }
        ("", _) => {}
        _ => {
            route.piece(if is_identifier(root) { ":id" } else { root });
            return;
        }
    }
    *parts = ahead;
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(is_number)
}

/// Whether an identifier was made long ago: it begins with when that was.
fn is_old(id: &str, now: Moment) -> bool {
    let Ok(id) = id.parse::<u64>() else { return false };
    let made_ms = (id >> 22).saturating_add(ID_EPOCH_MS);
    now.since(Moment::from_nanos(made_ms.saturating_mul(1_000_000))) > OLD
}
