//! The simulated Discord behind real sockets, and the examples.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::duplicate_mod, reason = "each example is a program of its own")]

mod minute;

#[path = "../../examples/discord.rs"]
mod discord_example;
#[path = "../../examples/llm.rs"]
mod llm_example;
#[path = "../../examples/local/mod.rs"]
mod local;
#[path = "../../examples/reqwest.rs"]
mod reqwest_example;
#[path = "../../examples/tower.rs"]
mod tower_example;

#[test]
fn the_examples_run() {
    discord_example::main().unwrap();
    llm_example::main().unwrap();
    reqwest_example::main().unwrap();
    tower_example::main().unwrap();
}

#[tokio::test]
async fn a_refusal_read_by_the_middleware_is_the_same_for_the_caller() {
    use http_body_util::Full;
    use ratekeeper_tracker::{Gate, Profile, Retry};

    let body = r#"{"message": "You are being rate limited.", "retry_after": 0.5, "global": false}"#;
    let api = local::Local::start(move |_| {
        let mut response = hyper::Response::new(Full::from(body));
        *response.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert("x-ratelimit-limit", 5.into());
        response
    });
    let api = api.await.unwrap();
    // Of several refusals in a row a wait as short as this is not believed.
    let gate = Gate::new(Profile::discord()).with_retry(Retry::NEVER);
    let client = reqwest::Client::new();
    let client = reqwest_middleware::ClientBuilder::new(client).with(gate.clone()).build();
    let url = format!("http://{}/channels/1/messages?after=2", api.address);
    let response = client.get(&url).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.url().as_str(), url);
    assert_eq!(response.headers()["x-ratelimit-limit"], "5");
    assert_eq!(response.content_length(), Some(body.len() as u64));
    assert_eq!(response.text().await.unwrap(), body);
    // What the body said is known.
    let refused_for = gate.snapshot().states.iter().filter_map(|state| state.refused_for).max();
    let refused_for = std::time::Duration::from(refused_for.unwrap());
    assert!(refused_for <= std::time::Duration::from_millis(500), "{refused_for:?}");
}
