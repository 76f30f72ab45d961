//! What every handler works with.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use super::decide::BATCH_ASKS_MAX;
use super::keys::Keys;
use super::live::Live;
use super::problem::{self, Problem};
use crate::admin::ServerAdmin;
use crate::settings::HttpSettings;

/// The door's own state.
pub(super) struct App {
    pub(super) settings: HttpSettings,
    pub(super) keys: Arc<Keys>,
    /// Not there while the server is starting.
    pub(super) admin: OnceLock<Arc<ServerAdmin>>,
    pub(super) live: Live,
    pub(super) drain: watch::Receiver<bool>,
    /// For those whose buckets are elsewhere: how many asks may be under way.
    pub(super) underway: Semaphore,
}

/// How many asks are under way at a time, where buckets are elsewhere. One takes up to eight
/// kilobytes until it is answered; and four of the largest batches fit, so that one of them does
/// not keep everybody else waiting.
pub(super) const UNDERWAY_ASKS_MAX: usize = 4 * BATCH_ASKS_MAX;
/// No ask is shorter.
const ASK_BYTES_MIN: usize = 16;

/// Room for the asks of a request, until it is dropped.
pub(super) struct Room<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    /// How long their answers may be waited for.
    pub(super) left: Duration,
}

impl App {
    /// Waits until there is room for as many asks as a body can have, but at most `asks_max`, where
    /// answers have to be waited for. Who finds none in time has no time left to wait for them.
    pub(super) async fn room(&self, admin: &ServerAdmin, body: &[u8], asks_max: usize) -> Room<'_> {
        if !admin.engine.http.wherever().waits() {
            return Room { _permit: None, left: admin.patience };
        }
        let began = admin.time.now();
        let asks = body.len().div_ceil(ASK_BYTES_MIN).min(asks_max);
        let permits = self.underway.acquire_many(u32::try_from(asks).unwrap_or(u32::MAX));
        let permit = timeout(admin.patience, permits).await.ok().and_then(Result::ok);
        let waited = Duration::from(admin.time.now().since(began));
        let left = admin.patience.saturating_sub(waited);
        Room { left: if permit.is_some() { left } else { Duration::ZERO }, _permit: permit }
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }
}

/// What administers the server, for handlers that need it: while the server is starting, they are not run.
pub(super) struct Inside(pub(super) Arc<ServerAdmin>);

impl FromRequestParts<Arc<App>> for Inside {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let starting = || Problem::new(&problem::STARTING, "what was spent is being restored");
        app.admin.get().map(|admin| Self(Arc::clone(admin))).ok_or_else(starting)
    }
}
