use super::super::keys::Keys;
use super::super::live::Live;
use std::sync::OnceLock;

use tokio::sync::{Semaphore, watch};

use super::*;
use crate::settings::HttpSettings;

#[test]
fn a_server_that_starts_or_stops_is_not_ready() {
    let (sender, drain) = watch::channel(false);
    let settings = HttpSettings::default();
    let keys = Arc::new(Keys::open(&settings).unwrap());
    let (admin, live) = (OnceLock::new(), Live::default());
    let underway = Semaphore::new(0);
    let app = App { settings, keys, admin, live, drain, underway };
    let slug = |app: &App| serde_json::to_value(readiness(app).unwrap_err()).unwrap();
    assert_eq!(slug(&app)["type"], "/api#starting");
    sender.send(true).unwrap();
    assert_eq!(slug(&app)["type"], "/api#draining");
    assert_eq!(slug(&app)["status"], 503);
}
