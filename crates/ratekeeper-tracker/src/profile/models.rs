//! Language models: budgets of requests and of tokens, for each model, that fill up all the time.

use ratekeeper_time::Nanos;

use super::{Body, Paces, Profile, Refill, RouteWriter};
use crate::request::Request;

pub(super) const OPENAI: Profile = Profile { name: "openai", ..MODELS };
pub(super) const ANTHROPIC: Profile = Profile { name: "anthropic", ..MODELS };

const MODELS: Profile = Profile {
    name: "models",
    hosts: &[],
    route,
    // Both limit requests and tokens by the minute or day, which their answers tell, and publish no limit
    // on how many may be in flight.
    paces: Paces::NONE,
    at_once: None,
    refill: Refill::Continuously,
    body: Body::Any,
    forbidden_is_limited: false,
    unsaid: Nanos::from_secs(1),
    longest_wait: super::LONGEST_WAIT_DEFAULT,
    invalid: None,
};

/// The group, which is the model, is a piece already; then the kind of work, as "chat" or
/// "embeddings", which is what follows the version.
fn route(request: &Request<'_>, route: &mut RouteWriter<'_>) {
    let mut segments = super::segments(request.path);
    let first = segments.next().unwrap_or_default();
    let kind = if first == "v1" { segments.next() } else { Some(first) };
    route.piece(kind.unwrap_or_default());
}
