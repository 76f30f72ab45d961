//! Following redirects, so that each of the requests passes through the gate.
//!
//! A reqwest client that follows them does so behind its middleware, which then sees the last answer
//! only. The rules here are those that reqwest has itself.

use reqwest::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL,
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, DNT, HOST, HeaderMap, HeaderName,
    LOCATION, PRAGMA, PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE_INSECURE_REQUESTS,
    USER_AGENT, WWW_AUTHENTICATE,
};
use reqwest::{ClientBuilder, Method, Request, StatusCode, Url};

/// How many redirects are followed for a request; one more is an error.
pub const REDIRECTS_MAX: u32 = 10;

/// What is for one origin only.
const CREDENTIALS: [HeaderName; 4] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE];
/// What any origin may read. Every other header may be a key to the API, under whatever name.
const HARMLESS: [HeaderName; 10] = [
    ACCEPT,
    ACCEPT_CHARSET,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    CONTENT_TYPE,
    DNT,
    PRAGMA,
    UPGRADE_INSECURE_REQUESTS,
    USER_AGENT,
];
/// What describes a body.
const OF_A_BODY: [HeaderName; 4] =
    [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING];

/// What becomes of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// It is the caller's to follow.
    Leave,
    /// It is followed.
    Follow {
        /// Also to other origins. Not so if the client may add credentials to whatever it sends: it
        /// would add them there, too.
        to_others: bool,
    },
}

/// A request was redirected too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {REDIRECTS_MAX} redirects")]
pub struct TooManyRedirects;

/// A request that is sent, as far as it can be sent again.
pub(crate) struct Copied {
    request: Request,
    is_whole: bool,
}

impl Copied {
    pub(crate) fn of(request: &Request) -> Self {
        if let Some(request) = request.try_clone() {
            return Self { request, is_whole: true };
        }
        // Its body is a stream.
        let mut copy = Request::new(request.method().clone(), request.url().clone());
        *copy.headers_mut() = request.headers().clone();
        *copy.version_mut() = request.version();
        *copy.timeout_mut() = request.timeout().copied();
        Self { request: copy, is_whole: false }
    }

    /// Only its method and where it goes, for one that is not sent again.
    pub(crate) fn address_of(request: &Request) -> Self {
        let request = Request::new(request.method().clone(), request.url().clone());
        Self { request, is_whole: false }
    }

    pub(crate) fn url(&self) -> &Url {
        self.request.url()
    }

    pub(crate) fn method(&self) -> &Method {
        self.request.method()
    }

    /// The same request, if its body could be kept.
    pub(crate) fn again(self) -> Option<Request> {
        self.is_whole.then_some(self.request)
    }

    /// What is to be sent where a response redirects it. Nothing if it does not, or if the body that
    /// belongs there is gone.
    pub(crate) fn redirected(self, status: StatusCode, fields: &HeaderMap) -> Option<Request> {
        let Self { mut request, is_whole } = self;
        let is_post = *request.method() == Method::POST;
        let is_same = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            // As browsers have always done.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => !is_post,
            StatusCode::SEE_OTHER => false,
            _ => return None,
        };
        if is_same && !is_whole {
            return None;
        }
        let location = std::str::from_utf8(fields.get(LOCATION)?.as_bytes()).ok()?;
        let mut url = request.url().join(location).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        if url.fragment().is_none() {
            url.set_fragment(request.url().fragment());
        }
        if !is_same {
            become_bodiless(&mut request);
        }
        if url.origin() != request.url().origin() {
            remove_private(request.headers_mut());
        }
        *request.url_mut() = url;
        Some(request)
    }
}

fn become_bodiless(request: &mut Request) {
    if *request.method() != Method::HEAD {
        *request.method_mut() = Method::GET;
    }
    *request.body_mut() = None;
    for name in OF_A_BODY {
        request.headers_mut().remove(name);
    }
}

/// Removes what another origin is not to read, and the name of the host that was asked.
fn remove_private(headers: &mut HeaderMap) {
    let marked = headers.iter().filter(|(_, value)| value.is_sensitive());
    let marked: Vec<_> = marked.map(|(name, _)| name.clone()).collect();
    for name in marked.into_iter().chain(CREDENTIALS).chain([HOST]) {
        headers.remove(name);
    }
    headers.remove("cookie2");
}

/// Whether a client may add credentials to whatever it sends. Only what it prints of itself tells;
/// where that is not understood, the answer is yes.
pub(crate) fn adds_credentials(builder: &ClientBuilder) -> bool {
    let printed = format!("{builder:?}");
    let headers = printed.split_once("default_headers: {");
    headers.and_then(|(_, headers)| check_harmless(headers)).is_none()
}

/// Reads `"name": "value", .. }`. None if a name is not known to be harmless, a value is marked as
/// sensitive (then it is printed without quotes), or a backslash leaves open where a value ends.
fn check_harmless(mut headers: &str) -> Option<()> {
    while !headers.starts_with('}') {
        let (name, rest) = headers.strip_prefix('"')?.split_once("\": \"")?;
        let (value, rest) = rest.split_once('"')?;
        if !HARMLESS.iter().any(|harmless| harmless == name) || value.contains('\\') {
            return None;
        }
        headers = rest.strip_prefix(", ").unwrap_or(rest);
    }
    Some(())
}

/// What reqwest takes for the host of a response that a program made itself, as a cache does.
const NO_HOST: &str = "no.url.provided.local";

/// Whether an answer is another address's than that which was asked.
pub(crate) fn is_elsewhere(asked: &Url, answered: &Url) -> bool {
    if answered.host_str() == Some(NO_HOST) {
        return false;
    }
    let parts =
        |url: &Url| (url.origin(), url.path() == asked.path(), url.query() == asked.query());
    parts(asked) != parts(answered)
}

#[cfg(test)]
mod tests;
