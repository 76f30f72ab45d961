//! A minute of real time, fifty tasks, two hundred routes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::Response;
use hyper::http::{HeaderName, HeaderValue};
use ratekeeper_testkit::discord::{Discord, Kind, Place, Reply};
use ratekeeper_testkit::random::Random;
use ratekeeper_tracker::Clock;
use ratekeeper_tracker::{Gate, Profile, Strategy};
use reqwest_middleware::ClientWithMiddleware;
use tokio::task::JoinSet;

use crate::local::Local;

const SECOND: u64 = 1_000_000_000;
const MINUTE: Duration = Duration::from_mins(1);
const TASKS: u64 = 50;
const ROUTES: usize = 200;
/// Routes with small budgets of their own, each used by two tasks.
const SLOW: usize = 10;
const GLOBAL_PER_SEC: u64 = 50;
/// The names of buckets change while it runs.
const RENAMED_EVERY: u64 = 20 * SECOND;

#[test]
fn a_minute_of_discord_over_loopback_without_a_refusal_and_hardly_a_pause() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(a_minute());
    let tally = server.lock().unwrap().tally();
    println!("{tally:?}");
    let refused = (tally.refused_globally, tally.refused_by_bucket, tally.refused_as_shared);
    assert_eq!(refused, (0, 0, 0));
    let permitted = GLOBAL_PER_SEC * MINUTE.as_secs();
    assert!(tally.served * 100 >= permitted * 95, "{} of {permitted}", tally.served);
}

async fn a_minute() -> Arc<Mutex<Discord>> {
    let server = Arc::new(Mutex::new(discord()));
    let api = serve(Arc::clone(&server)).await;
    let wait = Strategy::Wait { queue: 1_000, deadline: MINUTE };
    let gate = Gate::new(Profile::discord()).with(wait);
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(gate).build();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let base = format!("http://{}", api.address);
        tasks.spawn(work(task, base, client.clone()));
    }
    tokio::time::sleep(MINUTE).await;
    server
}

fn discord() -> Discord {
    let places = (0..ROUTES as u64).map(|n| match n {
        n if n < SLOW as u64 => Place::new(Kind::Messages, n, 5, 10 * SECOND),
        n if n % 3 == 0 => Place::new(Kind::Webhook, n, 50, 5 * SECOND),
        n if n % 3 == 1 => Place::new(Kind::Free, n, u64::MAX, SECOND),
        _ => Place::new(Kind::Members, n, 100, SECOND),
    });
    Discord::new(places.collect(), RENAMED_EVERY, 1)
}

/// Sends one request after the other, for as long as it is let.
async fn work(task: u64, base: String, client: ClientWithMiddleware) {
    // It has the same places, and makes up the paths.
    let mut places = discord();
    let mut random = Random::new(task);
    loop {
        let slow = usize::try_from(task / 2).ok().filter(|&place| place < SLOW);
        let place = slow.unwrap_or_else(|| SLOW + random.index(ROUTES - SLOW));
        let (method, path) = places.request(place);
        let request = client.request(method.parse().unwrap(), format!("{base}{path}"));
        let response = request.header("x-place", place.to_string()).send().await.unwrap();
        response.bytes().await.unwrap();
    }
}

async fn serve(server: Arc<Mutex<Discord>>) -> Local {
    let clock = Clock::start();
    let answer = move |request: &hyper::Request<_>| {
        let place = request.headers()["x-place"].to_str().unwrap().parse().unwrap();
        let mut server = server.lock().unwrap();
        // The time is read with the lock held, so that it never decreases.
        respond(server.receive(place, clock.now().as_nanos()))
    };
    Local::start(answer).await.unwrap()
}

fn respond(reply: Reply) -> Response<Full<hyper::body::Bytes>> {
    let mut response = Response::new(Full::from(reply.body));
    *response.status_mut() = reply.status.try_into().unwrap();
    let fields = reply.fields.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    });
    response.headers_mut().extend(fields);
    response
}
