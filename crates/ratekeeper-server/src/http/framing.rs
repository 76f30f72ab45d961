//! What the head of a request must be clear about: whom it is for, and where its body ends.
//!
//! Others may read the same bytes before us, such as a proxy or a filter. Where a head can be read
//! in two ways they may have read it in the other, so it is refused rather than guessed at.

use axum::http::header::{HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Request};
use hyper::body::Body;

use super::body;
use super::problem::{self, Problem};
use crate::settings::HttpSettings;

/// Refuses a head with two hosts, or with a coding of the body that is not `chunked` alone; `has_two_ends`
/// says that it has a length besides a coding, which hyper does not show.
pub(super) fn check_head(headers: &HeaderMap, has_two_ends: bool) -> Result<(), Problem> {
    if headers.get_all(HOST).iter().count() > 1 {
        let detail = "the request has more than one Host, and each may mean somebody else";
        return Err(Problem::new(&problem::TWO_HOSTS, detail));
    }
    if has_two_ends {
        let detail = "the body has both a length and a coding, and each may end it somewhere else";
        return Err(Problem::new(&problem::UNKNOWN_CODING, detail));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => {
            let detail = "the body is coded in a way that is not decoded here";
            Err(Problem::new(&problem::UNKNOWN_CODING, detail))
        }
    }
}

/// Refuses a body that says how long it will be, if that is too much, whether or not the route
/// reads one.
pub(super) fn check_announced<B: Body>(
    request: &Request<B>,
    settings: &HttpSettings,
) -> Result<(), Problem> {
    let bytes_max = body::bytes_max(request.uri().path(), settings);
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max { Err(body::too_large(bytes_max)) } else { Ok(()) }
}
