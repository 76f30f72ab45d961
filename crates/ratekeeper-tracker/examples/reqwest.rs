//! A reqwest client with the tracker as a middleware: who is refused is told when to come back.
//!
//! `cargo run -p ratekeeper-tracker --example reqwest --features reqwest`

mod local;

use http_body_util::Full;
use hyper::Response;
use local::Local;
use ratekeeper_tracker::{Gate, Profile, Refused, Strategy};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // An API in the fashion of GitHub: 403, and a body that speaks of a limit.
    let api = Local::start(|_| {
        let body = "{\"message\": \"You have exceeded a secondary rate limit.\"}";
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = hyper::StatusCode::FORBIDDEN;
        response.headers_mut().insert("retry-after", 30.into());
        response
    })
    .await?;

    let gate = Gate::new(Profile::github()).with(Strategy::Error);
    let client = gate.client(reqwest::Client::builder())?;
    let url = format!("http://{}/repos/octocat/hello", api.address);

    let response = client.get(&url).send().await?;
    println!("the API answers {}", response.status());
    assert!(response.text().await?.contains("secondary"), "the body is still there to read");

    // The next request is not sent at all.
    let Err(error) = client.get(&url).send().await else { return Err("it was sent".into()) };
    let refused = Refused::of(&error).ok_or("it failed otherwise")?;
    println!("the gate says: {refused}");
    let retry_at = refused.retry_at().ok_or("it is closed")?;
    assert!(retry_at.since(gate.now()) > ratekeeper_tracker::Nanos::from_secs(29));
    Ok(())
}
