//! A hyper client with the tracker as a tower layer: twelve requests to an API that allows five
//! a second, and none is refused.
//!
//! `cargo run -p ratekeeper-tracker --example tower --features tower`

mod local;

use std::sync::Mutex;

use http_body_util::{Empty, Full};
use hyper::body::Bytes;
use hyper::http::HeaderValue;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use local::Local;
use ratekeeper_tracker::{Clock, Moment, Nanos};
use ratekeeper_tracker::{Gate, Profile, TrackLayer};
use tower::{Layer as _, ServiceExt as _};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = Local::start(five_a_second()).await?;

    let gate = Gate::new(Profile::generic());
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let client = TrackLayer::new(&gate).layer(client);

    for number in 1..=12 {
        let request = Request::get(format!("http://{}/things", api.address)).body(Empty::new())?;
        let response = client.clone().oneshot(request).await?;
        println!("request {number}: {}", response.status());
        assert!(response.status().is_success());
    }
    Ok(())
}

/// What the API answers: how much is left, and for how long.
fn five_a_second() -> impl Fn(&Request<Bytes>) -> Response<Full<Bytes>> {
    let clock = Clock::start();
    let window = Mutex::new((Moment::EPOCH, 0_u32));
    move |_| {
        let mut window = window.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = clock.now();
        if now >= window.0 {
            *window = (now.after(Nanos::from_secs(1)), 5);
        }
        let status = if window.1 == 0 { 429 } else { 200 };
        window.1 = window.1.saturating_sub(1);
        let reset = window.0.since(now).get().div_ceil(1_000_000);
        let mut response = Response::new(Full::default());
        *response.status_mut() = status.try_into().unwrap_or_default();
        let fields = response.headers_mut();
        fields.insert("x-ratelimit-limit", 5.into());
        fields.insert("x-ratelimit-remaining", window.1.into());
        let reset = format!("{}.{:03}", reset / 1_000, reset % 1_000);
        if let Ok(reset) = HeaderValue::try_from(reset) {
            fields.insert("x-ratelimit-reset-after", reset);
        }
        response
    }
}
