//! What is counted, once or as it goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, Response, Uri};
use hyper::body::Frame;
use parking_lot::Mutex;
use ratekeeper::Moment;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::activity::Busy;
use super::address::{self, InPath};
use super::app::{App, Inside};
use super::body;
use super::connection::Caller;
use super::decide::Answer;
use super::problem::{self, Problem};
use super::tokens::Tokens;
use crate::admin::ServerAdmin;
use crate::metrics;
use crate::stats::{Busiest, Stats};
use crate::transport::{Admission, Admitted};

/// How many may watch at once.
pub(super) const WATCHERS_MAX: usize = 256;
/// How many of them from one address: one that watches over and over leaves room for others.
pub(super) const WATCHERS_PER_SOURCE_MAX: usize = 64;
/// How often they are told.
const PERIOD: Duration = Duration::from_secs(1);
/// How long ago what they are told may have been counted, so that many watchers count once.
const FRESH: Duration = Duration::from_millis(500);

/// What watchers were told last, and who they are.
pub(super) struct Live {
    latest: Mutex<Option<(Moment, Bytes)>>,
    is_counting: AtomicBool,
    places: Arc<Admission>,
}

impl Default for Live {
    fn default() -> Self {
        let places = Admission::new(&[], WATCHERS_MAX, WATCHERS_PER_SOURCE_MAX);
        Self {
            latest: Mutex::default(),
            is_counting: AtomicBool::default(),
            places: Arc::new(places),
        }
    }
}

impl Live {
    /// What is counted, as an event. The first is counted here; from then on the one before is told
    /// while the next is being counted, on a thread of its own, for all watchers.
    fn event(app: &Arc<App>, admin: &Arc<ServerAdmin>) -> Bytes {
        let live = &app.live;
        let latest = live.latest.lock().clone();
        let Some((at, event)) = latest else { return live.count(admin) };
        let is_old = admin.time.now().since(at) >= FRESH.into();
        if is_old && !live.is_counting.swap(true, Ordering::Relaxed) {
            let (app, admin) = (Arc::clone(app), Arc::clone(admin));
            tokio::task::spawn_blocking(move || {
                app.live.count(&admin);
                app.live.is_counting.store(false, Ordering::Relaxed);
            });
        }
        event
    }

    fn count(&self, admin: &ServerAdmin) -> Bytes {
        let stats = serde_json::to_string(&admin.stats()).unwrap_or_default();
        let event = Bytes::from(format!("event: stats\ndata: {stats}\n\n"));
        *self.latest.lock() = Some((admin.time.now(), event.clone()));
        event
    }
}

/// What is counted, once
#[utoipa::path(get, path = "/v1/stats", tag = "look", security(("token" = ["read"])),
    responses((status = 200, description = "As it is now", body = Stats)))]
pub(super) async fn stats(Inside(admin): Inside, uri: Uri) -> Answer {
    let [] = address::query(&uri, [])?;
    aside(admin, |admin| body::json(&admin.stats())).await
}

/// What is counted, every second, as server-sent events called `stats`
#[utoipa::path(get, path = "/v1/live", tag = "look", security(("token" = ["read"])),
    responses(
        (status = 200, description = "Events without an end", body = String, content_type = "text/event-stream")))]
pub(super) async fn live(
    State(app): State<Arc<App>>,
    Inside(admin): Inside,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Answer {
    let [] = address::query(&uri, [])?;
    let place = app.live.places.admit(caller.source).ok_or_else(|| {
        let detail =
            format!("{WATCHERS_MAX} watch already, or {WATCHERS_PER_SOURCE_MAX} from here");
        Problem::new(&problem::TOO_MANY_WATCHERS, detail)
    })?;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let tokens = Option::clone(&app.keys.tokens());
    let busy = caller.activity.busy();
    let events = Events { ticks, app, admin, tokens, _place: place, _busy: busy };
    let mut response = Response::new(Body::new(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy that collects answers would show nothing for a long time.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// The busiest and the most denied ids of a limit
#[utoipa::path(get, path = "/v1/busiest/{limit}", tag = "look", security(("token" = ["read"])),
    params(("limit" = String, Path, description = "The name of the limit.", min_length = 1, example = "LoginsPerUser")),
    responses(
        (status = 200, description = "At most 50 of each", body = Busiest),
        (status = 404, description = "There is no such limit: `no-such-limit`")))]
pub(super) async fn busiest(
    Inside(admin): Inside,
    InPath(limit): InPath<String>,
    uri: Uri,
) -> Answer {
    let [] = address::query(&uri, [])?;
    let answer = move |admin: &ServerAdmin| {
        let no_such = || {
            let detail = format!("no limit is called `{limit}`: see /v1/limits");
            Problem::field(&problem::NO_SUCH_LIMIT, "limit", detail)
        };
        admin.busiest(&limit).map(|busiest| body::json(&busiest)).ok_or_else(no_such)
    };
    aside(admin, answer).await?
}

/// What is counted, for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "look", security(("token" = ["read"])),
    responses((status = 200, description = "As OpenMetrics", body = String,
        content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(Inside(admin): Inside, uri: Uri) -> Answer {
    let [] = address::query(&uri, [])?;
    let text = aside(admin, ServerAdmin::metrics).await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    Ok(response)
}

/// Reads counters on a thread of its own: with many limits it takes longer than other clients of the
/// worker should wait.
async fn aside<T: Send + 'static>(
    admin: Arc<ServerAdmin>,
    read: impl FnOnce(&ServerAdmin) -> T + Send + 'static,
) -> Result<T, Problem> {
    let read = tokio::task::spawn_blocking(move || read(&admin)).await;
    read.map_err(|_| Problem::new(&problem::STARTING, "the counters could not be read"))
}

/// Events without an end, until the server is to stop.
struct Events {
    ticks: Interval,
    app: Arc<App>,
    admin: Arc<ServerAdmin>,
    /// The tokens that let the watcher in.
    tokens: Option<Arc<Tokens>>,
    _place: Admitted,
    /// The connection is in use as long as somebody watches.
    _busy: Busy,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        ready!(self.ticks.poll_tick(context));
        // Who may watch is asked again when the tokens have changed: it comes again by itself.
        let tokens = self.app.keys.tokens();
        let is_same = tokens.as_ref().map(Arc::as_ptr) == self.tokens.as_ref().map(Arc::as_ptr);
        if self.app.is_draining() || !is_same {
            return Poll::Ready(None);
        }
        let event = Live::event(&self.app, &self.admin);
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}
