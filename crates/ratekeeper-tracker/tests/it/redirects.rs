//! Each request that a redirect leads to asks the gate.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../examples/local/mod.rs"]
mod local;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Empty, Full};
use hyper::{Request, Response};
use local::Local;
use parking_lot::Mutex;
use ratekeeper_tracker::{Gate, Profile, Reason, Refused, Strategy, TrackLayer, Waited};
use tower::{Layer as _, ServiceBuilder, ServiceExt as _};

/// A server that keeps what it received.
struct Server {
    local: Local,
    received: Arc<Mutex<Vec<Received>>>,
}

#[derive(Debug)]
struct Received {
    method: String,
    path: String,
    body: Bytes,
    authorization: Option<String>,
}

impl Server {
    async fn start<F>(answer: F) -> Self
    where
        F: Fn(&Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static,
    {
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let log = Arc::clone(&received);
        let local = Local::start(move |request| {
            let authorization = request.headers().get("authorization");
            log.lock().push(Received {
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
                body: request.body().clone(),
                authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
            });
            answer(request)
        });
        Self { local: local.await.unwrap(), received }
    }

    /// Sends on to somewhere else, with a status.
    async fn redirecting(to: String, status: u16) -> Self {
        Self::start(move |_| answer(status, &[("location", &to)])).await
    }

    /// Says with its first answer that nothing is left for a minute.
    async fn spent() -> Self {
        let fields = [
            ("x-ratelimit-limit", "5"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset-after", "60"),
        ];
        Self::start(move |_| answer(200, &fields)).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.local.address)
    }

    /// Method, path and body of each request.
    fn contents(&self) -> Vec<String> {
        let content = |Received { method, path, body, .. }: &Received| {
            format!("{method} {path} {}", str::from_utf8(body).unwrap())
        };
        self.received.lock().iter().map(content).collect()
    }

    fn count(&self) -> usize {
        self.received.lock().len()
    }
}

fn answer(status: u16, fields: &[(&str, &str)]) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(Full::from("{}")).unwrap()
}

fn gate() -> Gate {
    Gate::new(Profile::generic()).with(Strategy::Error)
}

#[tokio::test]
async fn a_hop_to_where_nothing_is_left_is_not_sent() {
    let storage = Server::spent().await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    let gate = gate();
    let client = gate.client(reqwest::Client::builder()).unwrap();

    let response = client.get(api.url("/download")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.url().path()), (200, "/file"));
    assert_eq!(response.extensions().get::<Waited>().unwrap().redirects, 1);

    let error = client.get(api.url("/download")).send().await.unwrap_err();
    let Some(Refused::Limited(limited)) = Refused::of(&error) else { panic!("{error}") };
    assert_eq!(limited.reason, Reason::Spent);
    assert_eq!(&*limited.origin, storage.url(""));
    assert_eq!((api.count(), storage.count()), (2, 1));
    assert_eq!(gate.snapshot().in_flight, 0);
}

#[tokio::test]
async fn a_chain_is_counted_hop_by_hop() {
    // Two of three are on the same host, which has five to give.
    let local: Arc<Mutex<Option<String>>> = Arc::default();
    let storage = Server::spent().await;
    let (to, last) = (Arc::clone(&local), storage.url("/file"));
    let left = Mutex::new(5);
    let api = Server::start(move |request| {
        *left.lock() -= 1;
        let left = left.lock().to_string();
        let to = match request.uri().path() {
            "/first" => to.lock().clone().unwrap(),
            _ => last.clone(),
        };
        let fields = [
            ("location", &*to),
            ("x-ratelimit-limit", "5"),
            ("x-ratelimit-remaining", &left),
            ("x-ratelimit-reset-after", "60"),
        ];
        answer(307, &fields)
    })
    .await;
    *local.lock() = Some(api.url("/second"));
    let gate = gate();
    let client = gate.client(reqwest::Client::builder()).unwrap();
    let response = client.post(api.url("/first")).body("content").send().await.unwrap();
    assert_eq!(response.extensions().get::<Waited>().unwrap().redirects, 2);
    let left = |server: &Server| {
        let states = gate.snapshot().states;
        let of = states.into_iter().find(|state| *state.origin == *server.url(""));
        of.and_then(|state| state.remaining)
    };
    assert_eq!((left(&api), left(&storage)), (Some(3), Some(0)));
    assert_eq!(api.contents(), ["POST /first content", "POST /second content"]);
    assert_eq!(storage.contents(), ["POST /file content"]);
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_origin() {
    let storage = Server::start(|_| answer(200, &[])).await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    let client = gate().client(reqwest::Client::builder()).unwrap();
    let request = client.get(api.url("/")).bearer_auth("secret");
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(api.received.lock()[0].authorization.as_deref(), Some("Bearer secret"));
    assert_eq!(storage.received.lock()[0].authorization, None);

    // What the client itself would add there makes it stay here.
    for (name, is_marked) in
        [("authorization", false), ("x-api-key", true), ("x-api-key", false), ("acme-token", true)]
    {
        let mut value: reqwest::header::HeaderValue = "secret".parse().unwrap();
        value.set_sensitive(is_marked);
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert(name, value);
        let builder = reqwest::Client::builder().default_headers(headers);
        let client = gate().client(builder).unwrap();
        let response = client.get(api.url("/")).send().await.unwrap();
        assert_eq!(response.status(), 302, "{name}");
        assert_eq!(response.headers()["location"], storage.url("/file"));
        assert_eq!(storage.count(), 1, "{name}");
    }

    // What says nothing of the caller does not.
    let builder = reqwest::Client::builder().user_agent("bot/1.0");
    let client = gate().client(builder).unwrap();
    assert_eq!(client.get(api.url("/")).send().await.unwrap().status(), 200);
    assert_eq!(storage.count(), 2);
}

#[tokio::test]
async fn a_circle_ends() {
    let to: Arc<Mutex<String>> = Arc::default();
    let location = Arc::clone(&to);
    let api = Server::start(move |_| answer(302, &[("location", &location.lock())])).await;
    *to.lock() = api.url("/again");
    let client = gate().client(reqwest::Client::builder()).unwrap();
    let error = client.get(api.url("/")).send().await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    assert_eq!(api.count(), 11);
}

#[tokio::test]
async fn a_client_that_follows_redirects_itself_is_found_out_and_counted() {
    let storage = Server::spent().await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    let gate = gate();
    let client = reqwest::Client::new();
    let client = reqwest_middleware::ClientBuilder::new(client).with(gate.clone()).build();
    client.get(api.url("/download")).send().await.unwrap();
    assert_eq!(gate.snapshot().in_flight, 0);
    // The answer is the storage's, and says nothing of the API.
    let error = client.get(storage.url("/file")).send().await.unwrap_err();
    let Some(Refused::Limited(limited)) = Refused::of(&error) else { panic!("{error}") };
    assert_eq!(&*limited.origin, storage.url(""));
    client.get(api.url("/download")).send().await.unwrap();
    assert_eq!(api.count(), 2);
}

/// An API of two requests in two seconds, without a network.
struct Simulated {
    gate: Gate,
    window: Mutex<(u64, u64)>,
}

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Simulated {
    async fn handle(
        &self,
        _: reqwest::Request,
        _: &mut http::Extensions,
        _: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = self.gate.now().as_nanos() / 1_000_000;
        let used = {
            let mut window = self.window.lock();
            if now / 2_000 != window.0 {
                *window = (now / 2_000, 0);
            }
            window.1 += 1;
            window.1
        };
        let reset = 2_000 - now % 2_000;
        let response = Response::builder()
            .status(if used > 2 { 429 } else { 200 })
            .header("x-ratelimit-limit", 2)
            .header("x-ratelimit-remaining", 2_u64.saturating_sub(used))
            .header("x-ratelimit-reset-after", format!("{}.{:03}", reset / 1_000, reset % 1_000));
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(response.body("").unwrap().into())
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_program_makes_up_is_that_of_what_was_asked() {
    let gate = Gate::new(Profile::generic());
    let simulated = Simulated { gate: gate.clone(), window: Mutex::default() };
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new());
    let client = client.with(gate.clone()).with(simulated).build();
    for _ in 0..20 {
        let response = client.get("https://api.example/things").send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.extensions().get::<Waited>().unwrap().retries, 0);
    }
    let states = gate.snapshot().states;
    assert!(states.iter().all(|state| &*state.origin == "https://api.example"), "{states:?}");
}

#[tokio::test]
async fn a_client_without_a_policy_leaves_redirects_to_the_caller() {
    let storage = Server::spent().await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = reqwest_middleware::ClientBuilder::new(client.build().unwrap()).with(gate());
    let response = client.build().get(api.url("/download")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), storage.count()), (302, 0));
}

#[tokio::test]
async fn a_client_of_the_gate_may_leave_redirects_to_the_caller_too() {
    let storage = Server::spent().await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    // The gate's own rule counts, whatever the builder has.
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::limited(3));
    let client = gate().client_without_redirects(builder).unwrap();
    let response = client.get(api.url("/download")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), storage.count()), (302, 0));
    assert_eq!(response.headers()["location"], storage.url("/file"));
    assert_eq!(response.extensions().get::<Waited>().unwrap().redirects, 0);
}

#[tokio::test]
async fn a_refused_request_is_sent_again_with_its_body() {
    let refusals = Mutex::new(2);
    let api = Server::start(move |_| {
        let mut refusals = refusals.lock();
        if *refusals == 0 {
            return answer(200, &[]);
        }
        *refusals -= 1;
        answer(429, &[("x-ratelimit-reset-after", "0.05"), ("x-ratelimit-remaining", "0")])
    })
    .await;
    let wait = Strategy::Wait { queue: 10, deadline: Duration::from_secs(30) };
    let gate = Gate::new(Profile::generic()).with(wait);
    let client = gate.client(reqwest::Client::builder()).unwrap();
    let response = client.put(api.url("/thing")).body("content").send().await.unwrap();
    let waited = response.extensions().get::<Waited>().unwrap();
    assert_eq!((response.status().as_u16(), waited.retries), (200, 2));
    assert!(waited.time >= ratekeeper_tracker::Nanos::new(50_000_000));
    assert_eq!(api.contents(), ["PUT /thing content"; 3]);
}

#[tokio::test]
async fn a_see_other_is_followed_without_the_body() {
    let storage = Server::start(|_| answer(200, &[])).await;
    let api = Server::redirecting(storage.url("/done"), 303).await;
    let client = gate().client(reqwest::Client::builder()).unwrap();
    client.post(api.url("/thing")).body("content").send().await.unwrap();
    assert_eq!(api.contents(), ["POST /thing content"]);
    assert_eq!(storage.contents(), ["GET /done "]);
}

#[tokio::test]
async fn hops_of_a_tower_client_ask_below_a_layer_that_follows_redirects() {
    let storage = Server::spent().await;
    let api = Server::redirecting(storage.url("/file"), 302).await;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    let client = TrackLayer::new(&gate()).layer(client.build_http::<Empty<Bytes>>());
    let follow = tower_http::follow_redirect::FollowRedirectLayer::new();
    let client = ServiceBuilder::new().layer(follow).service(client);
    let ask = || {
        let request = Request::get(api.url("/download")).body(Empty::new()).unwrap();
        client.clone().oneshot(request)
    };
    assert_eq!(ask().await.unwrap().status(), 200);
    let error = ask().await.unwrap_err();
    let Some(Refused::Limited(limited)) = Refused::of(&error) else { panic!("{error}") };
    assert_eq!(&*limited.origin, storage.url(""));
    assert_eq!((api.count(), storage.count()), (2, 1));
}
