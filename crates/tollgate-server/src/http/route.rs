//! Which path leads where, and who may go there.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::routing::get;
use hyper::body::Incoming;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::connection::Caller;
use super::page::Fixed;
use super::problem::{self, Problem};
use super::{decide, document, health, limits, overrides, page};

/// All routes, among them the document that describes them.
pub(super) fn router(app: &Arc<App>) -> Router {
    let (router, document) = api().split_for_parts();
    let document = document::write(document, &app.settings);
    let document = Fixed::new("application/json", document);
    page::serve(router)
        .route(document::PATH, get(document.handler()))
        .fallback(|| async { Problem::new(&problem::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(&problem::WRONG_METHOD, "this path is not for this method")
        })
        .with_state(Arc::clone(app))
}

pub(super) fn api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(document::begin())
        .routes(routes!(decide::spend))
        .routes(routes!(decide::check))
        .routes(routes!(decide::refund))
        .routes(routes!(decide::reset))
        .routes(routes!(decide::batch))
        .routes(routes!(limits::limits))
        .routes(routes!(limits::limit))
        .routes(routes!(limits::bucket))
        .routes(routes!(limits::explain))
        .routes(routes!(overrides::overrides, overrides::put_overrides))
        .routes(routes!(overrides::put_override, overrides::remove_override))
        .routes(routes!(overrides::audit))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// Refuses who may not ask for this.
pub(super) fn refuse(
    _app: &App,
    _request: &Request<Incoming>,
    _caller: &Caller,
) -> Result<(), Response<Body>> {
    Ok(())
}
