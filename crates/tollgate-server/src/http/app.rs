//! What every handler works with.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::watch;

use super::keys::Keys;
use super::live::Live;
use super::problem::{self, Problem};
use crate::office::Office;
use crate::settings::HttpSettings;

/// The door's own state.
pub(super) struct App {
    pub(super) settings: HttpSettings,
    pub(super) keys: Arc<Keys>,
    /// Not there while the server is starting.
    pub(super) office: OnceLock<Arc<Office>>,
    pub(super) live: Live,
    pub(super) drain: watch::Receiver<bool>,
}

impl App {
    pub(super) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }
}

/// The office, for handlers that need one: while the server is starting, they are not run.
pub(super) struct Inside(pub(super) Arc<Office>);

impl FromRequestParts<Arc<App>> for Inside {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let starting = || Problem::new(&problem::STARTING, "what was spent is being restored");
        app.office.get().map(|office| Self(Arc::clone(office))).ok_or_else(starting)
    }
}
