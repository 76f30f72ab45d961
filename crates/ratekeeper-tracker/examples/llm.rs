//! Calling a language model that limits requests and tokens: what a request will cost is said
//! before it is sent.
//!
//! `cargo run -p ratekeeper-tracker --example llm --features reqwest`

mod local;

use http_body_util::Full;
use hyper::Response;
use hyper::http::HeaderValue;
use local::Local;
use ratekeeper_tracker::headers::Unit;
use ratekeeper_tracker::{Costs, Gate, Group, Profile, Refused, Strategy};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stands for the model: many requests are left, but few tokens.
    let model = Local::start(|_| {
        let mut response = Response::new(Full::from("{}"));
        let fields = response.headers_mut();
        fields.insert("x-ratelimit-limit-requests", 500.into());
        fields.insert("x-ratelimit-remaining-requests", 499.into());
        fields.insert("x-ratelimit-reset-requests", HeaderValue::from_static("120ms"));
        fields.insert("x-ratelimit-limit-tokens", 10_000.into());
        fields.insert("x-ratelimit-remaining-tokens", 1_000.into());
        fields.insert("x-ratelimit-reset-tokens", HeaderValue::from_static("54s"));
        response
    })
    .await?;

    let gate = Gate::new(Profile::openai()).with(Strategy::Error);
    let client = gate.client(reqwest::Client::builder())?;
    let ask = |tokens: u64| {
        let url = format!("http://{}/v1/chat/completions", model.address);
        let costs = Costs { tokens, ..Costs::default() };
        client.post(url).with_extension(Group::new("gpt-large")).with_extension(costs).send()
    };

    println!("a short question: {}", ask(800).await?.status());
    println!("another: {}", ask(900).await?.status());
    // This one is more than there is now, and the gate knows.
    let Err(error) = ask(6_000).await else { return Err("it was sent".into()) };
    let Some(Refused::Limited(limited)) = Refused::of(&error) else { return Err(error.into()) };
    println!("a long text: in {}, because of {:?}", limited.retry_in, limited.unit);
    assert_eq!(limited.unit, Unit::Tokens);
    Ok(())
}
