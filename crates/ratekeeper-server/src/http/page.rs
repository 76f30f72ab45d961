//! The live page and the page that shows the API: files that are built in.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use super::app::App;

/// Everything the page needs comes from the server itself, and nobody may put it into a frame.
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
/// How many bytes of its digest tell a file from its older versions.
const TAG_BYTES: usize = 16;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file, where it is served, and what it is.
struct Page {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

macro_rules! pages {
    ($($path:literal $file:literal $content_type:ident;)*) => {
        const PAGES: &[Page] = &[$(Page {
            path: $path,
            content_type: $content_type,
            text: include_str!(concat!("page/", $file)),
        }),*];
    };
}

pages! {
    "/" "index.html" HTML;
    "/api" "api.html" HTML;
    "/page.css" "page.css" CSS;
    "/icon.svg" "icon.svg" SVG;
    "/api.js" "api.js" JS;
    "/chart.js" "chart.js" JS;
    "/charts.js" "charts.js" JS;
    "/dom.js" "dom.js" JS;
    "/example.js" "example.js" JS;
    "/feed.js" "feed.js" JS;
    "/format.js" "format.js" JS;
    "/forms.js" "forms.js" JS;
    "/health.js" "health.js" JS;
    "/history.js" "history.js" JS;
    "/ids.js" "ids.js" JS;
    "/limits.js" "limits.js" JS;
    "/lookup.js" "lookup.js" JS;
    "/main.js" "main.js" JS;
    "/override.js" "override.js" JS;
    "/overrides.js" "overrides.js" JS;
    "/schema.js" "schema.js" JS;
    "/session.js" "session.js" JS;
    "/theme.js" "theme.js" JS;
}

/// The same router, which also serves the files.
pub(super) fn serve(router: Router<Arc<App>>) -> Router<Arc<App>> {
    PAGES.iter().fold(router, |router, page| {
        let text = Bytes::from_static(page.text.as_bytes());
        router.route(page.path, get(Fixed::new(page.content_type, text).handler()))
    })
}

/// The paths of the files, which anybody may read.
#[cfg(test)]
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|page| page.path)
}

/// Something that stays as it is as long as the server runs.
#[derive(Clone)]
pub(super) struct Fixed {
    content_type: &'static str,
    bytes: Bytes,
    tag: HeaderValue,
}

impl Fixed {
    pub(super) fn new(content_type: &'static str, bytes: Bytes) -> Self {
        let mut tag = String::from("\"");
        for byte in Sha256::digest(&bytes).iter().take(TAG_BYTES) {
            // Writing to a string cannot fail.
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        // Digits and quotes, which a header can always hold.
        let tag = HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""));
        Self { content_type, bytes, tag }
    }

    /// What answers a request for it.
    pub(super) fn handler(
        self,
    ) -> impl Fn(HeaderMap) -> std::future::Ready<Response<Body>> + Clone + Send + Sync + 'static
    {
        move |headers| std::future::ready(self.answer(&headers))
    }

    fn answer(&self, asked: &HeaderMap) -> Response<Body> {
        let is_known = self.is_known(asked);
        let body = if is_known { Body::empty() } else { Body::from(self.bytes.clone()) };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            let content_type = HeaderValue::from_static(self.content_type);
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        response
    }

    /// Whether whoever asks has it already.
    fn is_known(&self, asked: &HeaderMap) -> bool {
        let mut tags = asked
            .get_all(IF_NONE_MATCH)
            .iter()
            .flat_map(|field| field.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        tags.any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == self.tag.as_bytes())
    }
}

#[cfg(test)]
mod tests;
