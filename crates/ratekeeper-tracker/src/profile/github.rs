//! GitHub: one budget for most, others for searching, for GraphQL and for some more, and limits it
//! does not tell.
//!
//! Which of its resources a request counts against is told with every answer. Those that are
//! documented are expected before, so that nothing goes on another's account even once; a route that
//! is answered with another name leaves for it.

use ratekeeper_time::Nanos;

use super::{Body, Pace, Paces, Profile, Refill, RouteWriter, Segments, is_identifier};
use crate::request::Request;

pub(super) const PROFILE: Profile = Profile {
    name: "github",
    // Both count against the same limits; archives and raw files come from others.
    hosts: &["api.github.com", "uploads.github.com"],
    route,
    paces: Paces::new(&[
        Pace::counting("rest", 900, MINUTE, rest_points),
        Pace::counting("graphql", 2_000, MINUTE, graphql_points),
        Pace::counting("content", 80, MINUTE, content),
        Pace::counting("content of an hour", 500, Nanos::from_secs(3_600), content),
    ]),
    at_once: Some(100),
    // The reset is a whole second of a clock that is known to the second.
    refill: Refill::Fixed { precision: Nanos::from_secs(1) },
    body: Body::Any,
    forbidden_is_limited: true,
    unsaid: Nanos::from_secs(60),
    longest_wait: super::LONGEST_WAIT_DEFAULT,
    invalid: None,
};

// The secondary limits, which no answer tells, from "Rate limits for the REST API" in GitHub's
// documentation, November 2026: no more than 100 requests at once, of REST and GraphQL together; 900
// points a minute for endpoints of REST and 2,000 for that of GraphQL; and in general 80 requests a
// minute and 500 an hour that generate content. The seconds of processor time that it also limits
// cannot be seen from outside.

const MINUTE: Nanos = Nanos::from_secs(60);

/// The points of a request are one if it only reads, and five if it writes.
fn rest_points(request: &Request<'_>) -> u16 {
    match (is_graphql(request), request.method) {
        (true, _) => 0,
        (false, "GET" | "HEAD" | "OPTIONS") => 1,
        (false, _) => 5,
    }
}

/// A mutation has five points, but is only seen in the body. Each is taken to be a query.
fn graphql_points(request: &Request<'_>) -> u16 {
    u16::from(is_graphql(request))
}

/// What creates or changes something is taken to generate content.
fn content(request: &Request<'_>) -> u16 {
    let writes = matches!(request.method, "POST" | "PATCH" | "PUT");
    u16::from(writes && !is_graphql(request))
}

fn is_graphql(request: &Request<'_>) -> bool {
    let mut segments = super::segments(request.path);
    let first = segments.next();
    first == Some("graphql") || first == Some("api") && segments.next() == Some("graphql")
}

/// The parts of a path that tell routes apart. Below there are names of people's own things.
const PARTS_MAX: usize = 5;

fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut parts = [""; PARTS_MAX];
    let count = template(super::segments(request.path), &mut parts);
    let parts = &parts[..count];
    route.resource(resource(request.method, parts));
    route.piece(request.method);
    for part in parts {
        route.piece(part);
    }
}

/// The first parts of a path, without what the names of things are in; how many there are.
fn template<'p>(segments: Segments<'p>, parts: &mut [&'p str; PARTS_MAX]) -> usize {
    let mut segments = segments.peekable();
    // Where it runs on somebody's own machines, the API is below a path of its own.
    let _ = segments.next_if_eq(&"api");
    let _ = segments.next_if_eq(&"v3");
    let Some(root) = segments.next() else { return 0 };
    let names = match root {
        "repos" | "networks" => 2,
        "users" | "orgs" | "enterprises" | "app-manifests" | "gists" => 1,
        _ => 0,
    };
    parts[0] = root;
    let mut count = 1;
    for (place, part) in parts[1..].iter_mut().zip(segments.skip(names)) {
        *place = if is_identifier(part) { ":id" } else { part };
        count += 1;
    }
    count
}

/// What GitHub calls the resource, by its documentation.
fn resource(method: &str, parts: &[&str]) -> &'static str {
    match parts {
        ["search", "code", ..] => "code_search",
        ["search", ..] => "search",
        ["graphql", ..] => "graphql",
        ["scim", ..] => "scim",
        ["app-manifests", "conversions"] => "integration_manifest",
        ["enterprises" | "orgs", "audit-log", ..] => "audit_log",
        ["repos", "dependency-graph", "snapshots"] => "dependency_snapshots",
        ["repos", "dependency-graph", "sbom"] => "dependency_sbom",
        ["repos", "code-scanning", "sarifs"] if method == "POST" => "code_scanning_upload",
        ["repos", "code-scanning", "alerts", _, "autofix"] => "code_scanning_autofix",
        ["repos" | "orgs" | "enterprises", "actions", "runners", "registration-token"] => {
            "actions_runner_registration"
        }
        _ => "core",
    }
}
