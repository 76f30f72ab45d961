//! The gate, for reverse proxies that ask before they pass a request on.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse;
use ratekeeper::algorithm::gcra::BURST_MAX;
use ratekeeper::{Mistake, Request};

use super::address::{self, InPath};
use super::app::{App, Inside};
use super::connection::{Caller, Counted};
use super::decide::{Answer, COST_DEFAULT};
use super::fields::{self, Answered, Answers};
use super::forwarded;
use super::problem::{self, Problem};
use super::schema::DeniedStatus;
use crate::admin::ServerAdmin;

/// How long a header can be that is taken for an id.
const HEADER_ID_BYTES_MAX: usize = ratekeeper::limits::ID_BYTES_MAX;
/// Headers that are nobody's id: ids are shown to whoever may read.
const SECRET_HEADERS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
/// The header whose value is not an id itself but leads to one.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Pass the gate: 204, or 429 if it is too early
#[utoipa::path(get, path = "/v1/gate/{limit}/{id}", tag = "decide", security(("token" = ["decide"])),
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("id" = String, Path, description = "Whom it counts for, percent-encoded.", min_length = 1, example = "ada"),
        ("cost" = Option<u64>, Query, description = "How many tokens; 1 if nothing is said.",
            minimum = 0, maximum = 4_294_967_296_u64),
        ("denied" = inline(Option<DeniedStatus>), Query, description = "The status of a denial, 429 if nothing is said, for proxies that take \
            others for an accident: nginx wants 403.")),
    responses(super::schema::Passed))]
pub(super) async fn by_path(
    app: State<Arc<App>>,
    Inside(admin): Inside,
    InPath((limit, id)): InPath<(String, String)>,
    uri: Uri,
) -> Answer {
    let [cost, denied] = address::query(&uri, ["cost", "denied"])?;
    let denied = denied_status(denied.as_deref())?;
    let cost = address::number("cost", cost.as_deref(), BURST_MAX, COST_DEFAULT)?;
    pass(&app, &admin, Request::new(&limit, &id, cost), denied).await
}

/// Pass the gate with the id that a header has
#[utoipa::path(get, path = "/v1/gate/{limit}", tag = "decide", security(("token" = ["decide"])),
    params(
        ("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser"),
        ("header" = String, Query, description = "The header that has the id. `X-Forwarded-For` stands for the \
            address of the client: the last hop that is not a trusted proxy.",
            pattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", example = "X-Forwarded-For"),
        ("cost" = Option<u64>, Query, description = "How many tokens; 1 if nothing is said.",
            minimum = 0, maximum = 4_294_967_296_u64),
        ("denied" = inline(Option<DeniedStatus>), Query, description = "The status of a denial; 429 if nothing is said.")),
    responses(super::schema::Passed))]
pub(super) async fn by_header(
    app: State<Arc<App>>,
    Inside(admin): Inside,
    Extension(caller): Extension<Caller>,
    InPath(limit): InPath<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let [header, cost, denied] = address::query(&uri, ["header", "cost", "denied"])?;
    let denied = denied_status(denied.as_deref())?;
    let missing = || Problem::field(&problem::BAD_QUERY, "header", "say which header has the id");
    let id = id_in_header(&app, &caller, &header.ok_or_else(missing)?, &headers)?;
    let cost = address::number("cost", cost.as_deref(), BURST_MAX, COST_DEFAULT)?;
    pass(&app, &admin, Request::new(&limit, &id, cost), denied).await
}

fn denied_status(status: Option<&str>) -> Result<StatusCode, Problem> {
    match status {
        None | Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some("403") => Ok(StatusCode::FORBIDDEN),
        Some("401") => Ok(StatusCode::UNAUTHORIZED),
        Some(status) => {
            let detail = format!("a denial cannot have the status {status}: use 429, 403 or 401");
            Err(Problem::field(&problem::BAD_QUERY, "denied", detail))
        }
    }
}

async fn pass(app: &App, admin: &ServerAdmin, ask: Request<'_>, denied: StatusCode) -> Answer {
    let (limiter, now) = (&admin.engine.http, admin.time.now());
    let problem = |mistake: Mistake| Problem::in_path(&mistake);
    // First, so that a limit that a reload takes away meanwhile is a mistake before it is spent.
    let terms = limiter.terms(ask.limit, ask.id).map_err(problem)?;
    let decision = limiter.wherever().spend(ask.limit, ask.id, ask.cost, now).await;
    let decision = decision.map_err(problem)?;
    let mut response = if decision.allowed {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let detail = format!("`{}` allows this again in {}", ask.limit, decision.retry_in.brief());
        let denial = Problem::denial(detail, vec![ask.limit.to_owned()]).with_status(denied);
        denial.into_response()
    };
    let answered = Answered { name: ask.limit, limit: &terms, decision, has_say: true };
    let answers = Answers { asks: &[answered], decided_by: 0, denied: !decision.allowed };
    let wall = admin.time.wall();
    fields::write(response.headers_mut(), &answers, app.settings.x_ratelimit, wall);
    let mut counted = Counted::default();
    counted.decided(decision.allowed);
    Ok(counted.attach(response))
}

fn id_in_header(
    app: &App,
    caller: &Caller,
    name: &str,
    headers: &HeaderMap,
) -> Result<String, Problem> {
    let no_name = format!("`{name}` is no name of a header");
    let no_name = |_| Problem::field(&problem::BAD_QUERY, "header", no_name);
    let name: HeaderName = name.parse().map_err(no_name)?;
    if SECRET_HEADERS.contains(&name) {
        let detail = format!("`{name}` is secret, and ids are shown: take another header");
        return Err(Problem::field(&problem::BAD_QUERY, "header", detail));
    }
    if name == FORWARDED_FOR {
        return client_address(app, caller, headers).map(|it| it.to_string());
    }
    // The question is right, but this client has no id.
    let bad = |detail: String| Problem::field(&problem::BAD_ID, "header", detail);
    let mut values = headers.get_all(&name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(bad(format!("the request has no `{name}`, or several")));
    };
    match value.to_str() {
        Ok(id) if !id.is_empty() && id.len() <= HEADER_ID_BYTES_MAX => Ok(id.to_owned()),
        _ => Err(bad(format!(
            "the value of `{name}` is not 1 to {HEADER_ID_BYTES_MAX} ASCII characters"
        ))),
    }
}

fn client_address(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<IpAddr, Problem> {
    let fields = headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    // `get_all` has no way from the end, and there are seldom several.
    let fields: Vec<&[u8]> = fields.collect();
    forwarded::client(caller.source, fields.into_iter(), &app.settings.trusted_proxies)
        .map_err(|error| Problem::field(&problem::BAD_FORWARDED, "X-Forwarded-For", error))
}
