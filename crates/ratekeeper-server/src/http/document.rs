//! The document that describes the API, as `OpenAPI` 3.1 has it. It is made from the code, when the
//! server starts.

#[cfg(test)]
mod tests;

use axum::body::Bytes;
use serde_json::json;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, Header, InfoBuilder, OpenApi as Document, PathItem, Ref, RefOr, Response,
};
use utoipa::{OpenApi, PartialSchema as _};

use super::problem::{KINDS, Kind, Problem};
use crate::settings::HttpSettings;

/// Where it is served.
pub(super) const PATH: &str = "/openapi.json";

/// The name of the scheme that tokens are sent by.
const TOKEN: &str = "token";
/// The name of the scheme that certificates are shown by.
const CERTIFICATE: &str = "certificate";
/// The content type of problems.
const PROBLEM_TYPE: &str = "application/problem+json";

/// Statuses that any route answers, and those that only some do: which.
const EVERYBODY: &[u16] = &[400, 405, 413];
const WITH_BODY: &[u16] = &[408];
const WITH_ROLE: &[u16] = &[401, 403, 421, 503];

const ABOUT: &str = "\
Decides whether one more may pass, by named limits.

A denial is an answer with the status 200, or 429 from the gate. Whatever cannot be answered is a problem \
(RFC 9457), whose `type` is the address of its description on the page `/api`.

Lengths of time are seconds as exact decimals, and the same in nanoseconds under a name that ends in `_ns`.";

#[derive(OpenApi)]
#[openapi(
    components(schemas(Problem)),
    tags(
        (name = "decide", description = "Ask, spend and give back. Role `decide`."),
        (name = "look", description = "See what is limited, and how much is left. Role `read`."),
        (name = "overrides", description = "Allow some ids more, or less, while the server runs. To read them takes \
            the role `read`, to change them `admin`."),
        (name = "health", description = "Whether the server is well, and this document. Anybody may ask."),
    )
)]
struct Beginning;

/// The document before any route has told about itself.
pub(super) fn begin() -> Document {
    let mut document = Beginning::openapi();
    document.info = InfoBuilder::new()
        .title("Ratekeeper")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .build();
    document
}

/// The document, with what all routes have in common, as it is sent.
pub(super) fn write(document: Document, settings: &HttpSettings) -> Bytes {
    let document = finish(document, settings);
    match document.to_json() {
        // The registry of formats spells it without a hyphen.
        Ok(text) => text.replace("\"format\":\"u-int", "\"format\":\"uint").into(),
        Err(error) => {
            // Nothing in it can fail to be written; were it so, it would be a bug.
            tracing::error!(%error, "writing the document of the API");
            Bytes::from_static(b"{}")
        }
    }
}

fn finish(mut document: Document, settings: &HttpSettings) -> Document {
    add_own_path(&mut document);
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            describe(operation, settings);
        }
    }
    let components = document.components.get_or_insert_default();
    for status in [EVERYBODY, WITH_BODY, WITH_ROLE].into_iter().flatten() {
        let description = kinds_of(*status);
        components.responses.insert(shared_name(*status), problem(*status, &description).into());
    }
    let about = "A token of the server's tokens file. Without such a file none is needed.";
    let bearer = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(about)).build();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
    if settings.client_ca.is_some() {
        let description = Some("A certificate of the authority that the server trusts.".to_owned());
        let scheme = SecurityScheme::MutualTls { description, extensions: None };
        components.add_security_scheme(CERTIFICATE, scheme);
    }
    let problems: Vec<_> = KINDS.iter().map(|kind| told(kind)).collect();
    document.extensions = Some(ExtensionsBuilder::new().add("x-problems", problems).build());
    document
}

/// The document describes itself too.
fn add_own_path(document: &mut Document) {
    let schema = ObjectBuilder::new().schema_type(Type::Object).build();
    let content = Content::new(Some(schema));
    let answer =
        ResponseBuilder::new().description("OpenAPI 3.1").content("application/json", content);
    let operation = utoipa::openapi::path::OperationBuilder::new()
        .tag("health")
        .operation_id(Some("document"))
        .summary(Some("This document"))
        .response("200", answer.build())
        .build();
    let item = PathItem::new(utoipa::openapi::HttpMethod::Get, operation);
    document.paths.paths.insert(PATH.to_owned(), item);
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, .. } = item;
    [get, put, post, delete].into_iter().flatten()
}

/// Adds what follows from what a route has told: who may ask, and what everybody can get wrong.
fn describe(operation: &mut Operation, settings: &HttpSettings) {
    let role = role_of(operation);
    let shared = [
        (true, EVERYBODY),
        (operation.request_body.is_some(), WITH_BODY),
        (role.is_some(), WITH_ROLE),
    ];
    let responses = &mut operation.responses.responses;
    for status in shared.iter().filter(|(applies, _)| *applies).flat_map(|(_, them)| *them) {
        let shared = || Ref::from_response_name(shared_name(*status)).into();
        responses.entry(status.to_string()).or_insert_with(shared);
    }
    for (status, response) in responses {
        let RefOr::T(own) = response else { continue };
        let status = status.parse().unwrap_or_default();
        if status >= 400 && own.content.is_empty() {
            let headers = std::mem::take(&mut own.headers);
            *own = problem(status, &own.description);
            own.headers.extend(headers);
        }
    }
    if let Some(role) = role {
        operation.security = Some(securities(&role, settings));
        operation.extensions = Some(ExtensionsBuilder::new().add("x-role", role).build());
    }
}

/// The role that a route has told.
fn role_of(operation: &Operation) -> Option<String> {
    let security = serde_json::to_value(operation.security.as_ref()?.first()?).ok()?;
    security.get(TOKEN)?.get(0)?.as_str().map(str::to_owned)
}

/// What somebody has to bring, one of these.
fn securities(role: &str, settings: &HttpSettings) -> Vec<SecurityRequirement> {
    let has_tokens = settings.tokens.is_some() || settings.tokens_text.is_some();
    let has_certificates = settings.client_ca.is_some();
    let mut securities = vec![SecurityRequirement::new(TOKEN, [role])];
    if has_certificates {
        securities.push(SecurityRequirement::new(CERTIFICATE, [] as [&str; 0]));
    } else if !has_tokens {
        // Nothing at all.
        securities.push(SecurityRequirement::default());
    }
    securities
}

fn problem(status: u16, description: &str) -> Response {
    let schema = RefOr::Ref(Ref::from_schema_name("Problem"));
    let mut response = ResponseBuilder::new()
        .description(description)
        .content(PROBLEM_TYPE, Content::new(Some(schema)));
    if let Some((name, header)) = header_of(status) {
        response = response.header(name, header);
    }
    response.build()
}

/// The header that comes with a status.
fn header_of(status: u16) -> Option<(&'static str, Header)> {
    let (name, about) = match status {
        401 => ("WWW-Authenticate", "How to send a token."),
        405 => ("Allow", "The methods of this path."),
        503 => ("Retry-After", "After how many seconds to ask again."),
        _ => return None,
    };
    Some((name, HeaderBuilder::new().schema(String::schema()).description(Some(about)).build()))
}

fn shared_name(status: u16) -> String {
    format!("Problem{status}")
}

/// The kinds with a status, in words.
fn kinds_of(status: u16) -> String {
    let kinds = KINDS.iter().filter(|kind| kind.status == status);
    let words: Vec<_> = kinds.map(|kind| format!("{} (`{}`)", kind.title, kind.slug)).collect();
    words.join("; ")
}

fn told(kind: &Kind) -> serde_json::Value {
    let Kind { slug, title, status, rule } = kind;
    json!({ "slug": slug, "title": title, "status": status, "detail": format!("What is right: {rule}.") })
}
