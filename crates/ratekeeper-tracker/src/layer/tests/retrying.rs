//! Refused requests are sent again, in virtual time.

use std::sync::atomic::{AtomicU32, Ordering};

use ratekeeper_time::Nanos;

use super::*;
use crate::{Refused, Retry, RetryMethods, Waited};

/// Refuses all but so many requests in each stretch of time, and says no more than how long to wait.
#[derive(Clone)]
struct Api {
    state: Arc<Mutex<(crate::Moment, u32)>>,
    limit: u32,
    every: Nanos,
    gate: Gate,
    received: Arc<AtomicU32>,
    refused: Arc<AtomicU32>,
}

impl Api {
    fn new(gate: &Gate, limit: u32, secs: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new((crate::Moment::EPOCH, 0))),
            limit,
            every: Nanos::from_secs(secs),
            gate: gate.clone(),
            received: Arc::default(),
            refused: Arc::default(),
        }
    }

    fn answer(&self) -> Response<Full<Bytes>> {
        self.received.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap();
        let now = self.gate.now();
        if now >= state.0 {
            *state = (now.after(self.every), 0);
        }
        state.1 += 1;
        if state.1 <= self.limit {
            return Response::default();
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let wait = Duration::from(state.0.since(now)).as_secs() + 1;
        Response::builder().status(429).header("retry-after", wait).body(Full::from("no")).unwrap()
    }

    fn count(&self) -> (u32, u32) {
        (self.received.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    async fn ask(&self, gate: &Gate, method: &str) -> Result<Response<()>, TrackError<Infallible>> {
        let request = Request::builder().method(method).uri("/things").body(Full::from("body"));
        let api = self.clone();
        let service = service_fn(move |request: Request<Full<Bytes>>| {
            let api = api.clone();
            async move {
                assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "body");
                tokio::time::sleep(Duration::from_millis(80)).await;
                Answer::Ok(api.answer())
            }
        });
        let client = TrackLayer::new(gate).retrying().layer(service);
        let response = client.oneshot(request.unwrap()).await?;
        Ok(response.map(drop))
    }
}

fn waited(response: &Response<()>) -> Waited {
    *response.extensions().get().expect("every response has it")
}

#[tokio::test(start_paused = true)]
async fn callers_of_an_api_that_says_nothing_before_it_refuses_see_no_refusal() {
    let gate = Gate::new(Profile::generic());
    let api = Api::new(&gate, 4, 5);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (api, gate) = (api.clone(), gate.with_retry(Retry { times: 5, ..Retry::default() }));
        tasks.spawn(async move { api.ask(&gate, "GET").await.unwrap() });
    }
    let responses = tasks.join_all().await;
    assert!(responses.iter().all(|response| response.status() == 200));
    let (received, refused) = api.count();
    println!("received {received}, refused {refused}");
    assert_eq!(received - refused, 12);
    let retries: u32 = responses.iter().map(|response| waited(response).retries).sum();
    assert_eq!(retries, refused, "each that was refused was sent again");
    assert!(responses.iter().any(|response| waited(response).time > Nanos::from_secs(4)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_handed_on_after_so_many_times() {
    for times in 0..4 {
        let gate = Gate::new(Profile::generic());
        let api = Api::new(&gate, 0, 3);
        let began = gate.now();
        let gate = gate.with_retry(Retry { times, ..Retry::default() });
        let response = api.ask(&gate, "GET").await.unwrap();
        assert_eq!(response.status(), 429);
        assert_eq!(api.count(), (times + 1, times + 1));
        assert_eq!(waited(&response).retries, times);
        assert!(gate.now().since(began) >= Nanos::from_secs(3 * u64::from(times)), "it waits");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_does_no_more_twice_than_once_is_sent_again() {
    for (method, methods, times) in [
        ("GET", RetryMethods::Idempotent, 3),
        ("DELETE", RetryMethods::Idempotent, 3),
        ("POST", RetryMethods::Idempotent, 1),
        ("PATCH", RetryMethods::Idempotent, 1),
        ("POST", RetryMethods::All, 3),
    ] {
        let gate = Gate::new(Profile::generic());
        let api = Api::new(&gate, 0, 1);
        let gate = gate.with_retry(Retry { methods, ..Retry::default() });
        assert_eq!(api.ask(&gate, method).await.unwrap().status(), 429);
        assert_eq!(api.count().0, times, "{method} {methods:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_waits_of_a_request_are_within_one_deadline() {
    let gate = Gate::new(Profile::generic());
    let api = Api::new(&gate, 0, 4);
    let strategy = Strategy::Wait { queue: 10, deadline: Duration::from_secs(12) };
    let gate = gate.with(strategy).with_retry(Retry { times: 100, ..Retry::default() });
    let began = gate.now();
    let response = api.ask(&gate, "GET").await.unwrap();
    assert_eq!(response.status(), 429, "the refusal is not lost");
    assert!(waited(&response).retries >= 1 && waited(&response).retries <= 3);
    assert!(waited(&response).time <= Nanos::from_secs(12));
    assert!(gate.now().since(began) <= Nanos::from_secs(13));
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_where_the_strategy_does_not() {
    for strategy in [Strategy::Error, Strategy::SendAnyway] {
        let gate = Gate::new(Profile::generic()).with(strategy);
        let api = Api::new(&gate, 0, 30);
        let began = gate.now();
        let response = api.ask(&gate, "GET").await.unwrap();
        assert_eq!((response.status().as_u16(), api.count().0), (429, 1), "{strategy:?}");
        assert!(gate.now().since(began) < Nanos::from_secs(1));
    }
    // The next is refused by the gate, and an error says so without being taken apart.
    let gate = Gate::new(Profile::generic()).with(Strategy::Error);
    let api = Api::new(&gate, 0, 30);
    api.ask(&gate, "GET").await.unwrap();
    let error = api.ask(&gate, "GET").await.unwrap_err();
    assert!(matches!(Refused::of(&error), Some(Refused::Limited(_))));
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
    assert!(Refused::of(&*boxed).is_some());
    assert!(Refused::of(&std::io::Error::other("something else")).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_api_that_says_to_come_straight_back_is_not_asked_for_ever() {
    let gate = Gate::new(Profile::generic()).with_retry(Retry { times: 4, ..Retry::default() });
    let received = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&received);
    let service = service_fn(move |_: Request<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        let response = Response::builder().status(429).header("retry-after", 0);
        async { Answer::Ok(response.body(Full::default()).unwrap()) }
    });
    let client = TrackLayer::new(&gate).retrying().layer(service);
    let response = client.oneshot(Request::get("/").body(()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(received.load(Ordering::Relaxed), 5);
}
