//! The gate, for reverse proxies that ask before they pass a request on.
#![expect(unused_qualifications, reason = "the macro that describes parameters writes them")]

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use tollgate::{Mistake, Request};
use utoipa::IntoParams;

use super::app::{App, Inside};
use super::body::Query;
use super::connection::{Caller, Counted};
use super::decide::Answer;
use super::fields::{self, Answered, Answers};
use super::forwarded;
use super::problem::{self, Problem};
use crate::office::Office;

/// How long a header can be that is taken for an id.
const HEADER_ID_BYTES_MAX: usize = tollgate::limits::ID_BYTES_MAX;
/// The header whose value is not an id itself but leads to one.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How to pass the gate.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GateQuery {
    /// How many tokens; 1 if nothing is said.
    #[param(minimum = 0, default = 1, required = false)]
    cost: Option<u64>,
    /// The status of a denial, for proxies that take others for an accident: nginx wants 403.
    #[param(default = 429, required = false, value_type = Option<u16>)]
    denied: Option<u16>,
}

/// How to pass the gate with an id that a header has.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HeaderGateQuery {
    /// The header that has the id. `X-Forwarded-For` stands for the address of the client: the last
    /// hop that is not a trusted proxy.
    #[param(example = "X-Forwarded-For")]
    header: String,
    /// How many tokens; 1 if nothing is said.
    #[param(minimum = 0, default = 1, required = false)]
    cost: Option<u64>,
    /// The status of a denial, for proxies that take others for an accident: nginx wants 403.
    #[param(default = 429, required = false, value_type = Option<u16>)]
    denied: Option<u16>,
}

/// Pass the gate: 204, or 429 if it is too early
#[utoipa::path(get, path = "/v1/gate/{limit}/{id}", tag = "decide",
    params(("limit" = String, Path), ("id" = String, Path), GateQuery),
    responses((status = 204, description = "It may pass"), super::schema::GateMistakes))]
pub(super) async fn by_path(
    app: State<Arc<App>>,
    Inside(office): Inside,
    Path((limit, id)): Path<(String, String)>,
    Query(query): Query<GateQuery>,
) -> Answer {
    let denied = denied_status(query.denied)?;
    pass(&app, &office, Request::new(&limit, &id, query.cost.unwrap_or(1)), denied)
}

/// Pass the gate with the id that a header has
#[utoipa::path(get, path = "/v1/gate/{limit}", tag = "decide",
    params(("limit" = String, Path), HeaderGateQuery),
    responses((status = 204, description = "It may pass"), super::schema::GateMistakes))]
pub(super) async fn by_header(
    app: State<Arc<App>>,
    Inside(office): Inside,
    Extension(caller): Extension<Caller>,
    Path(limit): Path<String>,
    Query(query): Query<HeaderGateQuery>,
    headers: HeaderMap,
) -> Answer {
    let denied = denied_status(query.denied)?;
    let id = id_in_header(&app, &caller, &query.header, &headers)?;
    pass(&app, &office, Request::new(&limit, &id, query.cost.unwrap_or(1)), denied)
}

fn denied_status(status: Option<u16>) -> Result<StatusCode, Problem> {
    match status {
        None | Some(429) => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(403) => Ok(StatusCode::FORBIDDEN),
        Some(401) => Ok(StatusCode::UNAUTHORIZED),
        Some(status) => {
            let detail = format!("a denial cannot have the status {status}: use 429, 403 or 401");
            Err(Problem::field(&problem::BAD_QUERY, "denied", detail))
        }
    }
}

fn pass(app: &App, office: &Office, ask: Request<'_>, denied: StatusCode) -> Answer {
    let (limiter, now) = (&office.house.http, office.time.now());
    let problem = |mistake: Mistake| Problem::in_path(&mistake);
    let decision = limiter.spend(ask.limit, ask.id, ask.cost, now).map_err(problem)?;
    let terms = limiter.terms(ask.limit, ask.id).map_err(problem)?;
    let mut response = if decision.allowed {
        StatusCode::NO_CONTENT.into_response()
    } else {
        let detail = format!("`{}` allows this again in {}", ask.limit, decision.retry_in);
        let denial = Problem::denial(detail, vec![ask.limit.to_owned()]).with_status(denied);
        denial.into_response()
    };
    let answered = Answered { name: ask.limit, limit: &terms, decision, has_say: true };
    let answers = Answers { asks: &[answered], decided_by: 0, denied: !decision.allowed };
    fields::write(response.headers_mut(), &answers, app.settings.x_ratelimit, now);
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
    let bad = |detail: String| Problem::field(&problem::BAD_QUERY, "header", detail);
    let name: HeaderName =
        name.parse().map_err(|_| bad(format!("`{name}` is no name of a header")))?;
    if name == FORWARDED_FOR {
        return client_address(app, caller, headers).map(|it| it.to_string());
    }
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
    let fields = headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes());
    // `get_all` has no way from the end, and there are seldom several.
    let fields: Vec<&[u8]> = fields.collect();
    forwarded::client(caller.source, fields.into_iter(), &app.settings.trusted_proxies)
        .map_err(|error| Problem::field(&problem::BAD_FORWARDED, "X-Forwarded-For", error))
}
