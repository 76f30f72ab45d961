//! Discord: budgets by route and major parameter, and fifty requests a second in all.

use tollgate::{Moment, Nanos};

use super::{
    Body, BodyUnit, InvalidMax, Pace, Profile, Refill, RouteWriter, is_identifier, is_number,
};
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

/// The parts of a path that are looked at; no route of Discord's has more.
const PARTS_MAX: usize = 12;

fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut parts = [""; PARTS_MAX];
    let mut count = 0;
    for (place, part) in parts.iter_mut().zip(super::segments(request.path)) {
        *place = part;
        count += 1;
    }
    let parts = match &parts[..count] {
        ["api", version, rest @ ..] if is_version(version) => rest,
        ["api", rest @ ..] => rest,
        all => all,
    };
    match (request.method, parts) {
        // Adding and removing reactions is one budget, whatever the reaction.
        ("PUT" | "DELETE", ["channels", channel, "messages", _, "reactions", ..]) => {
            route.piece("REACT");
            route.piece("channels");
            route.major(channel);
            route.alone();
        }
        ("DELETE", ["channels", channel, "messages", message]) => {
            let is_old = is_old(message, route.now());
            route.piece(if is_old { "DELETE OLD" } else { "DELETE" });
            route.piece("channels");
            route.major(channel);
            route.piece("messages");
            route.alone();
        }
        (method, parts) => {
            route.piece(method);
            for part in write_majors(parts, route) {
                route.piece(if is_identifier(part) { ":id" } else { part });
            }
        }
    }
}

/// Writes the first parts of a path, of which some identifiers keep budgets apart; what is left.
fn write_majors<'p>(parts: &'p [&'p str], route: &mut RouteWriter<'_>) -> &'p [&'p str] {
    match parts {
        [root @ ("channels" | "guilds"), id, rest @ ..] if is_number(id) => {
            route.piece(root);
            route.major(id);
            rest
        }
        [root @ "webhooks", id, token, rest @ ..] => {
            route.piece(root);
            route.major(id);
            route.secret(token);
            if token.starts_with(INTERACTION_TOKEN) {
                route.exempt();
            }
            rest
        }
        [root @ "webhooks", id] => {
            route.piece(root);
            route.major(id);
            &[]
        }
        [root @ "interactions", id, _token, rest @ ..] => {
            route.piece(root);
            route.major(id);
            route.piece(":token");
            route.exempt();
            rest
        }
        // Whoever has the code of an invitation may come in, so it is nobody's to read.
        [root @ "invites", _code, rest @ ..] => {
            route.piece(root);
            route.piece(":code");
            rest
        }
        all => all,
    }
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
