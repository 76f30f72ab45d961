//! Which path leads where, and who may go there.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::get;
use ipnet::IpNet;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{self, Guards};
use super::app::App;
use super::page::Fixed;
use super::problem::{self, Problem};
use super::{decide, document, gate, health, limits, live, overrides, page};
use crate::settings::Role;

/// All routes, among them the document that describes them.
pub(super) fn router(app: &Arc<App>) -> Router {
    let (router, document) = api().split_for_parts();
    let document = document::write(document, &app.settings);
    let document = Fixed::new("application/json", document);
    page::serve(router)
        .route(document::PATH, get(document.handler()))
        .fallback(|| async { Problem::new(&problem::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(&problem::WRONG_METHOD, "this path is not for this method")
        })
        .with_state(Arc::clone(app))
}

pub(super) fn api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(document::begin())
        .routes(routes!(decide::spend))
        .routes(routes!(decide::check))
        .routes(routes!(decide::refund))
        .routes(routes!(decide::reset))
        .routes(routes!(decide::batch))
        .routes(routes!(gate::by_path))
        .routes(routes!(gate::by_header))
        .routes(routes!(live::stats))
        .routes(routes!(live::live))
        .routes(routes!(live::busiest))
        .routes(routes!(live::metrics))
        .routes(routes!(limits::limits))
        .routes(routes!(limits::limit))
        .routes(routes!(limits::bucket))
        .routes(routes!(limits::explain))
        .routes(routes!(overrides::overrides, overrides::put_overrides))
        .routes(routes!(overrides::put_override, overrides::remove_override))
        .routes(routes!(overrides::audit))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// What a path needs; nothing, if anybody may have it. What is not listed is for the operator.
pub(super) fn needed(method: &Method, path: &str) -> Option<Role> {
    let Some(rest) = path.strip_prefix("/v1/") else {
        return (path == "/metrics").then_some(Role::Read);
    };
    let first = rest.split('/').next().unwrap_or_default();
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    Some(match first {
        "spend" | "check" | "refund" | "reset" | "batch" | "gate" => Role::Decide,
        "limits" | "buckets" | "explain" | "busiest" | "stats" | "live" => Role::Read,
        "overrides" if is_reading => Role::Read,
        _ => Role::Admin,
    })
}

/// What proxies send along. A page can send it too, to a name of its own that leads to this address.
const PROXIES_SEND: [&str; 3] = ["x-forwarded-for", "x-forwarded-method", "x-forwarded-uri"];
/// What browsers send along. A page can change some of it, but it cannot have all of it left out:
/// every browser says at least what it is and which languages its user reads.
const BROWSERS_SEND: [&str; 9] = [
    "origin",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-dest",
    "sec-fetch-user",
    "sec-ch-ua",
    "accept-language",
    "referer",
    "cookie",
];
/// What the names of all browsers begin with, in `User-Agent`.
const BROWSERS_ARE: &[u8] = b"Mozilla/";

/// What of a request matters for who may ask.
pub(super) struct Asked<'a, F> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    /// The host that the target names, if it does.
    pub(super) authority: Option<&'a str>,
    /// The first header field of a name, which is lower case.
    pub(super) field: F,
    /// The name in the client's certificate.
    pub(super) certificate: Option<&'a str>,
    pub(super) is_tls: bool,
    /// The address that the connection comes from.
    pub(super) source: IpAddr,
}

impl<'a, F: Fn(&str) -> Option<&'a [u8]>> Asked<'a, F> {
    /// Whether a proxy asks at the gate in the name of others: one that is `trusted`, or at least
    /// nothing that a browser sends. The host and the origin in such a request are those of others.
    fn is_of_proxy(&self, trusted: &[IpNet]) -> bool {
        let has = |name: &str| (self.field)(name).is_some();
        let source = self.source.to_canonical();
        let is_trusted = || trusted.iter().any(|network| network.contains(&source));
        self.path.starts_with("/v1/gate/")
            && PROXIES_SEND.into_iter().any(has)
            && (is_trusted() || !self.is_of_browser())
    }

    fn is_of_browser(&self) -> bool {
        let has = |name: &str| (self.field)(name).is_some();
        BROWSERS_SEND.into_iter().any(has)
            || (self.field)("user-agent").is_some_and(|agent| agent.starts_with(BROWSERS_ARE))
    }
}

/// What `named` makes of the name of who asks, or the refusal of who may not.
pub(super) fn admit<'a, T>(
    app: &App,
    asked: &Asked<'a, impl Fn(&str) -> Option<&'a [u8]>>,
    named: impl FnOnce(&str) -> T,
) -> Result<T, Problem> {
    let Asked { method, path, authority, ref field, certificate, is_tls, .. } = *asked;
    let Some(needed) = needed(method, path) else { return Ok(named(access::ANYBODY)) };
    let tokens = app.keys.tokens();
    let guards = Guards {
        tokens: tokens.as_ref().map(|it| &**it),
        client_certificates: app.keys.has_client_ca,
    };
    // A proxy at the gate passes on what others sent, so there their pages and names do not count.
    let is_of_proxy = asked.is_of_proxy(&app.settings.trusted_proxies);
    let ours = |value| if is_of_proxy { None } else { value };
    // Where the target names a host, `Host` does not count: RFC 9112, section 3.2.2.
    let host = authority.map(str::as_bytes).or_else(|| field("host"));
    let caller = access::Caller {
        needed,
        certificate: certificate.map(|name| (name, app.settings.client_role)),
        authorization: field("authorization"),
        origin: ours(field("origin")),
        fetch_site: ours(field("sec-fetch-site")),
        host: if is_of_proxy { Some(b"localhost") } else { host },
        is_tls,
    };
    match access::admit(guards, &caller) {
        Ok(who) => Ok(named(who.name)),
        Err(refusal) => Err(Problem::refusal(refusal)),
    }
}
