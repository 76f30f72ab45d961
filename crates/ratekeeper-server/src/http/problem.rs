//! What a caller did wrong, as `application/problem+json` (RFC 9457).

use std::fmt::Display;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use ratekeeper::Mistake;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Refusal;

/// A kind of problem: its address is `/api#SLUG`.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) slug: &'static str,
    pub(super) title: &'static str,
    pub(super) status: u16,
    /// What would be right.
    pub(super) rule: &'static str,
}

macro_rules! kinds {
    ($($name:ident $status:literal $slug:literal $title:literal $rule:literal;)*) => {
        $(pub(super) const $name: Kind =
            Kind { slug: $slug, title: $title, status: $status, rule: $rule };)*
        /// Every kind there is.
        pub(super) const KINDS: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    BAD_JSON 400 "bad-json" "The body is not what this route reads"
        "JSON as /openapi.json describes it";
    BAD_PATH 400 "bad-path" "The path cannot be read" "UTF-8, percent-encoded";
    BAD_QUERY 400 "bad-query" "The query is not what this route reads"
        "the parameters that /openapi.json describes";
    BAD_FORWARDED 400 "bad-forwarded" "The client's address is not known"
        "X-Forwarded-For as proxies write it, and http.trusted_proxies as they are";
    TWO_HOSTS 400 "two-hosts" "The request is for two hosts" "one field Host";
    UNKNOWN_CODING 400 "unknown-coding" "The coding of the body is not known"
        "`Transfer-Encoding: chunked` and nothing else, or none";
    NEEDS_TOKEN 401 "needs-token" "A token is needed"
        "a header `Authorization: Bearer TOKEN` with a token of the server's tokens file";
    NOT_ALLOWED 403 "not-allowed" "Not allowed"
        "a token whose role suffices, from the server's own page if it is from a browser";
    NOT_FOUND 404 "not-found" "There is nothing here" "a path that /openapi.json describes";
    NO_SUCH_LIMIT 404 "no-such-limit" "No such limit" "the name of a limit: see /v1/limits";
    NO_SUCH_OVERRIDE 404 "no-such-override" "No such override"
        "an id with an override that was made at run time: see /v1/overrides";
    WRONG_METHOD 405 "wrong-method" "Not with this method" "a method that the header Allow names";
    TOO_SLOW 408 "too-slow" "The body did not arrive in time"
        "a body that is sent within http.body_time";
    WOULD_LOWER 409 "would-lower" "It would allow less than now"
        "`lower`: true, if the id is to be allowed less than now";
    ONLY_IN_FILE 409 "only-in-file" "The override is written in a file"
        "an override that was made at run time: the others are removed from their file";
    TOO_MANY 409 "too-many" "There are too many already" "fewer overrides at run time, and more in the file";
    TOO_LARGE 413 "too-large" "The body is too large" "a body of at most http.body_bytes";
    WRONG_HOST 421 "wrong-host" "Not this server"
        "localhost or an IP address as the host, or a tokens file";
    UNKNOWN_LIMIT 422 "unknown-limit" "No such limit" "the name of a limit: see /v1/limits";
    BAD_ID 422 "bad-id" "The id is not one of this limit" "an id of the limit's format: see /v1/limits";
    NO_DEFAULT 422 "no-default" "Nothing applies to this id" "an id with an override, or a limit with a default";
    COST_ABOVE_BURST 422 "cost-above-burst" "The cost can never be paid"
        "a cost of at most the burst of the limit";
    SAME_BUCKET_TWICE 422 "same-bucket-twice" "A bucket occurs twice"
        "one ask per bucket, with the costs added up";
    BAD_ASKS 422 "bad-asks" "The asks are not what this route decides"
        "`limit` and `id`, or `asks` with 1 to 256 of them";
    BAD_OVERRIDE 422 "bad-override" "The override cannot be"
        "terms within the bounds of limits, a reason, and an end to come if any";
    NOT_OVERRIDABLE 422 "not-overridable" "The limit cannot have this override"
        "the name of a limit that can have overrides";
    QUOTA_EXCEEDED 429 "quota-exceeded" "Denied" "waiting as long as Retry-After says";
    TOO_MANY_WATCHERS 503 "too-many-watchers" "Too many watch"
        "watching when others have ended, or asking /v1/stats";
    STARTING 503 "starting" "Not ready" "asking again when /readyz says so";
    DRAINING 503 "draining" "Stopping" "asking another server";
    STORAGE 507 "storage" "It could not be kept" "room and rights in the state directory";
}

/// One problem, to be answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Which kind: an address within this server's documentation.
    #[serde(rename = "type")]
    #[schema(value_type = String, format = "uri-reference", examples("/api#unknown-limit"))]
    kind: Box<str>,
    /// The kind in words.
    title: &'static str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong here.
    #[schema(value_type = String)]
    detail: Box<str>,
    /// The field of the body, or the parameter, that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    field: Option<Box<str>>,
    /// What would be right.
    rule: &'static str,
    /// The limits that denied, for `quota-exceeded`.
    #[serde(rename = "violated-policies", skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    violated_policies: Box<[String]>,
    /// Which proof is wanted.
    #[serde(skip)]
    challenge: Option<&'static str>,
}

/// The type of a denial, which is not ours alone.
const QUOTA_TYPE: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

impl Problem {
    pub(super) fn new(kind: &'static Kind, detail: impl Display) -> Self {
        Self {
            kind: format!("/api#{}", kind.slug).into(),
            title: kind.title,
            status: kind.status,
            detail: detail.to_string().into(),
            field: None,
            rule: kind.rule,
            violated_policies: Box::default(),
            challenge: None,
        }
    }

    /// A problem with a field of the body or a parameter.
    pub(super) fn field(kind: &'static Kind, field: impl Display, detail: impl Display) -> Self {
        Self { field: Some(field.to_string().into()), ..Self::new(kind, detail) }
    }

    /// What an ask got wrong; `at` is where the ask is in the body, such as `asks[2].`.
    pub(super) fn mistake(mistake: &Mistake, at: &str) -> Self {
        let (kind, field) = match mistake {
            Mistake::UnknownLimit { .. } => (&UNKNOWN_LIMIT, "limit"),
            Mistake::NoDefault { .. } => (&NO_DEFAULT, "id"),
            Mistake::Id { .. } => (&BAD_ID, "id"),
            Mistake::CostAboveBurst { .. } => (&COST_ABOVE_BURST, "cost"),
            Mistake::SameBucketTwice { .. } => (&SAME_BUCKET_TWICE, "asks"),
            _ => (&BAD_ASKS, "asks"),
        };
        Self::field(kind, format_args!("{at}{field}"), mistake)
    }

    /// The same as an answer to a path: a limit that is not there is nothing found.
    pub(super) fn in_path(mistake: &Mistake) -> Self {
        match mistake {
            Mistake::UnknownLimit { .. } => Self::field(&NO_SUCH_LIMIT, "limit", mistake),
            _ => Self::mistake(mistake, ""),
        }
    }

    /// Why somebody may not ask.
    pub(super) fn refusal(refusal: Refusal) -> Self {
        let kind = match refusal.status() {
            401 => &NEEDS_TOKEN,
            421 => &WRONG_HOST,
            _ => &NOT_ALLOWED,
        };
        Self { challenge: refusal.challenge(), ..Self::new(kind, refusal) }
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The same with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status: status.as_u16(), ..self }
    }

    /// The same, with more to say about what would be right.
    pub(super) fn with_rule(self, rule: Option<&'static str>) -> Self {
        Self { rule: rule.unwrap_or(self.rule), ..self }
    }

    /// A denial, for clients that look at the status only.
    pub(super) fn denial(detail: impl Display, violated_policies: Vec<String>) -> Self {
        let (kind, violated_policies) = (QUOTA_TYPE.into(), violated_policies.into());
        Self { kind, violated_policies, ..Self::new(&QUOTA_EXCEEDED, detail) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert("www-authenticate", HeaderValue::from_static(challenge));
        }
        if self.status == STARTING.status {
            response.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
        }
        response
    }
}
