//! What is counted, once or as it goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, Response};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tollgate::Moment;

use super::address::InPath;
use super::app::{App, Inside};
use super::body;
use super::connection::{Busy, Caller};
use super::decide::Answer;
use super::problem::{self, Problem};
use crate::metrics;
use crate::office::Office;
use crate::stats::{Busiest, Stats};

/// How many may watch at once.
pub(super) const WATCHERS_MAX: usize = 256;
/// How often they are told.
const PERIOD: Duration = Duration::from_secs(1);
/// How long ago what they are told may have been counted, so that many watchers count once.
const FRESH: Duration = Duration::from_millis(500);

/// What watchers were told last, and how many there are.
#[derive(Default)]
pub(super) struct Live {
    latest: Mutex<Option<(Moment, Bytes)>>,
    watchers: AtomicUsize,
}

impl Live {
    /// What is counted, as an event; no older than [`FRESH`].
    fn event(&self, office: &Office) -> Bytes {
        let now = office.time.now();
        let mut latest = self.latest.lock();
        if let Some((at, event)) = &*latest
            && now.since(*at) < FRESH.into()
            && now >= *at
        {
            return event.clone();
        }
        let stats = serde_json::to_string(&office.stats()).unwrap_or_default();
        let event = Bytes::from(format!("event: stats\ndata: {stats}\n\n"));
        *latest = Some((now, event.clone()));
        event
    }
}

/// What is counted, once
#[utoipa::path(get, path = "/v1/stats", tag = "look", security(("token" = ["read"])),
    responses((status = 200, description = "As it is now", body = Stats)))]
pub(super) async fn stats(Inside(office): Inside) -> Answer {
    Ok(body::json(&office.stats()))
}

/// What is counted, every second, as server-sent events called `stats`
#[utoipa::path(get, path = "/v1/live", tag = "look", security(("token" = ["read"])),
    responses(
        (status = 200, description = "Events without an end", body = String, content_type = "text/event-stream")))]
pub(super) async fn live(
    State(app): State<Arc<App>>,
    Inside(office): Inside,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let watching = Watching::begin(&app).ok_or_else(|| {
        Problem::new(&problem::TOO_MANY_WATCHERS, format_args!("{WATCHERS_MAX} watch already"))
    })?;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = Events { ticks, office, watching, _busy: caller.activity.busy() };
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
pub(super) async fn busiest(Inside(office): Inside, InPath(limit): InPath<String>) -> Answer {
    let mistake = || office.house.http.terms(&limit, "").err();
    match office.busiest(&limit) {
        Some(busiest) => Ok(body::json(&busiest)),
        None => Err(mistake().map_or_else(
            || Problem::field(&problem::NO_SUCH_LIMIT, "limit", "nothing was counted for it"),
            |mistake| Problem::in_path(&mistake),
        )),
    }
}

/// What is counted, for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "look", security(("token" = ["read"])),
    responses((status = 200, description = "As OpenMetrics", body = String,
        content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(Inside(office): Inside) -> Answer {
    let mut response = Response::new(Body::from(office.metrics()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    Ok(response)
}

/// A place among the watchers. Giving it back is dropping it.
struct Watching(Arc<App>);

impl Watching {
    fn begin(app: &Arc<App>) -> Option<Self> {
        let before = app.live.watchers.fetch_add(1, Ordering::Relaxed);
        let watching = Self(Arc::clone(app));
        (before < WATCHERS_MAX).then_some(watching)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.live.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Events without an end, until the server is to stop.
struct Events {
    ticks: Interval,
    office: Arc<Office>,
    watching: Watching,
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
        if self.watching.0.is_draining() {
            return Poll::Ready(None);
        }
        let event = self.watching.0.live.event(&self.office);
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}
