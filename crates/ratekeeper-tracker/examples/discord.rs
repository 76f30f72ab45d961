//! Sending messages to Discord, each from a task of its own, in the order in which they were
//! meant to be sent.
//!
//! `cargo run -p ratekeeper-tracker --example discord --features reqwest`

mod local;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::Response;
use hyper::http::HeaderValue;
use local::Local;
use ratekeeper_tracker::{Gate, Profile, Strategy};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stands for https://discord.com: five messages a second in each channel.
    let received = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&received);
    let discord = Local::start(move |_| {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(Full::from("{}"));
        let fields = response.headers_mut();
        fields.insert("x-ratelimit-limit", 5.into());
        fields.insert("x-ratelimit-remaining", (4 - number % 5).into());
        fields.insert("x-ratelimit-reset-after", HeaderValue::from_static("0.300"));
        fields.insert("x-ratelimit-bucket", HeaderValue::from_static("80c17d2f203122d9"));
        response
    })
    .await?;

    let wait = Strategy::Wait { queue: 100, deadline: Duration::from_secs(30) };
    let gate = Gate::new(Profile::discord()).with(wait);
    let client = gate.client(reqwest::Client::builder())?;
    let mut tasks = JoinSet::new();
    for number in 1..=12 {
        let url = format!("http://{}/api/v10/channels/42/messages", discord.address);
        let request = client.post(url).body(format!("{{\"content\": \"message {number}\"}}"));
        tasks.spawn(async move { request.send().await.map(|response| response.status()) });
    }
    for status in tasks.join_all().await {
        assert!(status?.is_success());
    }
    println!("{} messages were received", received.load(Ordering::Relaxed));
    for state in gate.snapshot().states {
        println!("{}: {:?} of {:?} are left", state.bucket, state.remaining, state.limit);
    }
    Ok(())
}
