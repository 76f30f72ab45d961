//! Reading a body, within its bounds.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use http_body_util::BodyExt as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::app::App;
use super::connection::Caller;
use super::overrides;
use super::problem::{self, Problem};
use crate::settings::HttpSettings;

/// A whole body, not yet looked at.
pub(super) struct Whole(pub(super) Bytes);

impl FromRequest<Arc<App>> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let body_time = app.settings.body_time;
        let bytes_max = bytes_max(request.uri().path(), &app.settings);
        let caller = request.extensions().get::<Caller>().cloned();
        let body = request.into_body();
        let listening = caller.as_ref().map(|it| it.hearing.listen());
        let read = tokio::time::timeout(body_time, read(body, bytes_max)).await;
        drop(listening);
        read.unwrap_or_else(|_| {
            let detail = format!("the body took more than {body_time:?}");
            Err(Problem::new(&problem::TOO_SLOW, detail))
        })
        .map(Self)
    }
}

/// How many bytes the body of a request for a path may have.
pub(super) fn bytes_max(path: &str, settings: &HttpSettings) -> usize {
    if path == overrides::MANY_PATH {
        settings.body_bytes.max(overrides::IMPORT_BYTES_MAX)
    } else {
        settings.body_bytes
    }
}

/// Reads a body. Its pieces are put together as they come: a client can make them so small that
/// keeping them would take many times as much.
async fn read(mut body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("reading the body: {}", crate::with_causes(&error));
            Problem::new(&problem::BAD_JSON, detail)
        })?;
        // Trailers say nothing here.
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + whole.len() + piece.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&piece);
        }
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}

pub(super) fn too_large(bytes_max: usize) -> Problem {
    Problem::new(&problem::TOO_LARGE, format_args!("the body has more than {bytes_max} bytes"))
}

/// What the body says. Refuses what it is not, and names the field.
pub(super) fn parse<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, Problem> {
    if let Ok(Object(parsed)) = serde_json::from_slice(bytes) {
        return Ok(parsed);
    }
    // Once more, to tell where it is wrong: keeping that in mind allocates for every field.
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

/// The same for a text, which is borrowed from the body if nothing in it is escaped.
pub(super) fn present_text<'b, D: Deserializer<'b>>(
    deserializer: D,
) -> Result<Option<Cow<'b, str>>, D::Error> {
    deserializer.deserialize_str(Text).map(Some)
}

/// `Cow` alone would copy every text.
struct Text;

impl<'b> Visitor<'b> for Text {
    type Value = Cow<'b, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A whole number, as JSON Schema has it: `5.0` is one too.
pub(super) fn whole<'b, D: Deserializer<'b>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(WholeNumber)
}

/// The same for a field that can be left out.
pub(super) fn present_whole<'b, D: Deserializer<'b>>(from: D) -> Result<Option<u64>, D::Error> {
    whole(from).map(Some)
}

struct WholeNumber;

/// Up to here, two whole numbers are never read as the same.
const FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number that is not negative")
    }

    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        let wrong = || E::invalid_value(Unexpected::Float(number), &self);
        if number.fract() != 0.0 || !(0.0..=FLOAT_MAX).contains(&number) {
            return Err(wrong());
        }
        number.abs().to_string().parse().map_err(|_| wrong())
    }
}

/// Reads a length of time as text, such as `90s`; a number is one of seconds, as answers have it.
pub(super) fn length<'b, D: Deserializer<'b>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_any(Length)
}

struct Length;

impl Visitor<'_> for Length {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"90s\", or a number of seconds")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, seconds: u64) -> Result<String, E> {
        Ok(format!("{seconds}s"))
    }

    fn visit_i64<E>(self, seconds: i64) -> Result<String, E> {
        Ok(format!("{seconds}s"))
    }

    fn visit_f64<E>(self, seconds: f64) -> Result<String, E> {
        // With as few digits as tell it from every other number, and without an exponent.
        Ok(format!("{seconds}s"))
    }
}

/// An answer as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> axum::http::Response<Body> {
    match serde_json::to_vec(value) {
        Ok(json) => text(json),
        Err(error) => {
            // Nothing that is answered can fail to be written; were it so, it would be a bug.
            tracing::error!(%error, "writing an answer");
            let mut response = axum::http::Response::new(Body::empty());
            *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// An answer that is JSON already.
pub(super) fn text(json: Vec<u8>) -> axum::http::Response<Body> {
    let mut response = axum::http::Response::new(Body::from(json));
    let content_type = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, content_type);
    response
}
