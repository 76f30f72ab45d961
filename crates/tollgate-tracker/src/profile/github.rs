//! GitHub: one budget for most, others for searching and for GraphQL, and limits it does not tell.

use tollgate::Nanos;

use super::{Body, Profile, Refill, RouteWriter};
use crate::request::Request;

pub(super) const PROFILE: Profile = Profile {
    name: "github",
    route,
    pace: None,
    // The reset is a whole second of a clock that is known to the second.
    refill: Refill::Fixed { precision: Nanos::from_secs(1) },
    body: Body::Any,
    forbidden_is_limited: true,
    unsaid: Nanos::from_secs(60),
    invalid: None,
};

fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut segments = super::segments(request.path).peekable();
    // Where it runs on somebody's own machines, the API is below a path of its own.
    let _ = segments.next_if_eq(&"api");
    let _ = segments.next_if_eq(&"v3");
    route.piece(match (segments.next(), segments.next()) {
        (Some("search"), Some("code")) => "code_search",
        (Some("search"), _) => "search",
        (Some("graphql"), _) => "graphql",
        _ => "core",
    });
}
