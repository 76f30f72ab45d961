//! Reading a body, within its bounds.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::app::App;
use super::problem::{self, Problem};

/// A whole body, not yet looked at.
pub(super) struct Whole(pub(super) Bytes);

impl FromRequest<Arc<App>> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes_max = app.settings.body_bytes;
        let too_large = || {
            Problem::new(
                &problem::TOO_LARGE,
                format_args!("the body has more than {bytes_max} bytes"),
            )
        };
        let body = Limited::new(request.into_body(), bytes_max);
        let read = tokio::time::timeout(app.settings.body_time, body.collect()).await;
        match read {
            Ok(Ok(whole)) => Ok(Self(whole.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => {
                Err(Problem::new(&problem::BAD_JSON, format_args!("reading the body: {error}")))
            }
            Err(_) => Err(Problem::new(
                &problem::TOO_SLOW,
                format_args!("the body took more than {:?}", app.settings.body_time),
            )),
        }
    }
}

/// What the body says. Refuses what it is not, and names the field.
pub(super) fn parse<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(parsed) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let detail = error.into_inner();
        match path.as_str() {
            "." | "" => Problem::new(&problem::BAD_JSON, detail),
            path => Problem::field(&problem::BAD_JSON, path, detail),
        }
    })?;
    json.end().map_err(|error| Problem::new(&problem::BAD_JSON, error))?;
    Ok(parsed)
}

/// A JSON object. What is derived alone would also take an array of its fields.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'b, T: Deserialize<'b>> Deserialize<'b> for Object<T> {
    fn deserialize<D: Deserializer<'b>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'b, T: Deserialize<'b>> Visitor<'b> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// For a field that can be left out, but is something if it is there: `null` is refused.
pub(super) fn present<'b, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'b>,
    D: Deserializer<'b>,
{
    T::deserialize(deserializer).map(Some)
}

/// An answer as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> axum::http::Response<Body> {
    let mut response = match serde_json::to_vec(value) {
        Ok(text) => axum::http::Response::new(Body::from(text)),
        Err(error) => {
            // Nothing that is answered can fail to be written; were it so, it would be a bug.
            tracing::error!(%error, "writing an answer");
            let mut response = axum::http::Response::new(Body::empty());
            *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            return response;
        }
    };
    let content_type = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, content_type);
    response
}
