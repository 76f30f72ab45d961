//! Whether the server lives, and whether it wants requests: for supervisors and load balancers.

use std::sync::Arc;

use axum::extract::State;

use super::app::App;
use super::problem::{self, Problem};

/// Whether the process lives
///
/// Says `ok` as long as anything is answered at all.
#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "It lives", body = String, content_type = "text/plain; charset=utf-8",
        example = "ok")))]
pub(super) async fn healthz() -> &'static str {
    "ok"
}

/// Whether requests should be sent here
///
/// Not while the server restores what was spent, and not while it stops.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses(
        (status = 200, description = "It answers; if a store that it shares is away, or memory is short for a limit, \
            it says so",
            body = String, content_type = "text/plain; charset=utf-8", example = "ready"),
        (status = 503, description = "Not yet (`starting`), or not any more (`draining`)")))]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<String, Problem> {
    readiness(&app)?;
    // It goes on to decide, as its limits say; a balancer that took every server out would help nobody.
    let mut words = "ready".to_owned();
    let Some(admin) = app.admin.get() else { return Ok(words) };
    if let Some(why) = admin.shared().and_then(|shared| shared.why) {
        words = format!("{words}, without the store: {why}");
    }
    if let Some(sentence) = admin.pressure.sentence() {
        // Anybody may ask, also a page of a browser. Names of limits are at `/v1/stats`.
        words = format!("{words}, but {}", sentence.unnamed);
    }
    Ok(words)
}

fn readiness(app: &App) -> Result<(), Problem> {
    if app.is_draining() {
        return Err(Problem::new(&problem::DRAINING, "what was received is still answered"));
    }
    match app.admin.get() {
        Some(_) => Ok(()),
        None => Err(Problem::new(&problem::STARTING, "what was spent is being restored")),
    }
}

#[cfg(test)]
mod tests;
