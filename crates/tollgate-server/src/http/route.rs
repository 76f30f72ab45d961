//! Which path leads where, and who may go there.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::connection::Caller;
use super::decide;
use super::problem::{self, Problem};

/// All routes, and the document that describes them.
pub(super) fn router(app: &Arc<App>) -> Router {
    let (router, _document) = api().split_for_parts();
    router
        .fallback(|| async { Problem::new(&problem::NOT_FOUND, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(&problem::WRONG_METHOD, "this path is not for this method")
        })
        .with_state(Arc::clone(app))
}

fn api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(decide::spend))
        .routes(routes!(decide::check))
        .routes(routes!(decide::refund))
        .routes(routes!(decide::reset))
        .routes(routes!(decide::batch))
}

/// Refuses who may not ask for this.
pub(super) fn refuse(
    _app: &App,
    _request: &Request<Incoming>,
    _caller: &Caller,
) -> Result<(), Response<Body>> {
    Ok(())
}
