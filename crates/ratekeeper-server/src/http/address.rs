//! What the address of a request says: the parts of its path, and its query.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::app::App;
use super::problem::{self, Problem};

/// The parts of a path that are not fixed, percent-decoded.
pub(super) struct InPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, app).await;
        let Path(inside) = path.map_err(|error| Problem::new(&problem::BAD_PATH, error))?;
        Ok(Self(inside))
    }
}

/// The parameters of a query, in the order of `names`. Refuses others, and one that is there twice.
pub(super) fn query<const N: usize>(
    uri: &Uri,
    names: [&str; N],
) -> Result<[Option<String>; N], Problem> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|error| Problem::new(&problem::BAD_QUERY, error))?;
    let mut found = [const { None }; N];
    for (name, value) in pairs {
        let place = names.iter().position(|known| *known == name);
        let Some(slot) = place.and_then(|place| found.get_mut(place)) else {
            let detail = match names.join("`, `") {
                known if known.is_empty() => "this route has no parameters".to_owned(),
                known => format!("the parameters of this route are `{known}`"),
            };
            return Err(bad(&name, detail));
        };
        if slot.replace(value).is_some() {
            return Err(bad(&name, "it is there twice: which of the two is meant?"));
        }
    }
    Ok(found)
}

/// A parameter that is a whole number, from 0 to `max`; `default` if it is not there.
pub(super) fn number(
    name: &str,
    text: Option<&str>,
    max: u64,
    default: u64,
) -> Result<u64, Problem> {
    let Some(text) = text else { return Ok(default) };
    // `parse` alone would also take a sign.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number
        .filter(|number| *number <= max)
        .ok_or_else(|| bad(name, format_args!("expected a whole number from 0 to {max}")))
}

/// A parameter that is a yes or a no; no if it is not there.
pub(super) fn flag(name: &str, text: Option<&str>) -> Result<bool, Problem> {
    match text {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(_) => Err(bad(name, "expected 1 or true, 0 or false")),
    }
}

/// A problem with a parameter.
pub(super) fn bad(name: &str, detail: impl std::fmt::Display) -> Problem {
    Problem::field(&problem::BAD_QUERY, name, detail)
}
