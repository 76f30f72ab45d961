//! The door as the server sees it.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::app::{App, UNDERWAY_ASKS_MAX};
use super::connection::Connections;
use super::keys::Keys;
use super::live::Live;
use super::route;
use crate::admin::ServerAdmin;
use crate::listeners::DoorListeners;
use crate::settings::HttpSettings;
use crate::transport::{Admission, Entrance, ServerContext};

/// The HTTP door, to be served by every worker.
#[derive(Clone)]
pub(crate) struct Http {
    app: Arc<App>,
    router: Router,
    entrance: Entrance,
}

impl Http {
    /// A door that says that the server is starting, until it is opened.
    pub(crate) fn new(
        settings: &HttpSettings,
        keys: &Arc<Keys>,
        listeners: &DoorListeners,
        server_context: &ServerContext,
    ) -> Self {
        let HttpSettings { allow, connections, connections_per_source, .. } = settings;
        let admission = Arc::new(Admission::new(allow, *connections, *connections_per_source));
        let entrance = Entrance { name: "http", admission, counters: listeners.counters("http") };
        let app = Arc::new(App {
            settings: settings.clone(),
            keys: Arc::clone(keys),
            admin: OnceLock::new(),
            live: Live::default(),
            drain: server_context.drain.clone(),
            underway: Semaphore::new(UNDERWAY_ASKS_MAX),
        });
        let router = route::router(&app);
        Self { app, router, entrance }
    }

    /// From now on asks are answered.
    pub(crate) fn open(&self, admin: &Arc<ServerAdmin>) {
        // It is opened once.
        let _ = self.app.admin.set(Arc::clone(admin));
    }

    /// Accepts and serves connections until the server is to stop, and then until all that was
    /// received is answered. To be run in a `LocalSet`.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        server_context: ServerContext,
        index: usize,
    ) {
        let Self { app, router, entrance } = self;
        let connections = Rc::new(Connections::new(app, router, server_context.clone()));
        let converse = |stream, guest| Rc::clone(&connections).converse(stream, guest);
        entrance.serve(listener, &server_context, index, converse).await;
    }
}
