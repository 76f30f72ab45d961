mod retrying;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_layer::Layer as _;
use tower_service::Service;

use super::{Track, TrackError, TrackLayer};
use crate::gate::{Gate, Strategy};
use crate::{Costs, Group, Profile, Reason};

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn discord_429() -> Response<Full<Bytes>> {
    let body = r#"{"message":"slow down","retry_after":2.5,"global":true}"#;
    Response::builder().status(429).body(Full::from(body)).unwrap()
}

fn post(path: &str) -> Request<()> {
    Request::post(path).body(()).unwrap()
}

fn limited(error: TrackError<Infallible>) -> crate::Limited {
    match error {
        TrackError::Refused(crate::Refused::Limited(limited)) => limited,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_refusal_is_read_and_still_there_for_the_caller() {
    let gate = Gate::new(Profile::discord());
    let layer = TrackLayer::new(&gate.with(Strategy::Error));
    let client = layer.layer(service_fn(|_: Request<()>| async { Answer::Ok(discord_429()) }));
    let response = client.clone().oneshot(post("/channels/1/messages")).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"message\":\"slow down\""));
    // It was global, so another route has to wait too, for as long as the body says.
    let error = client.oneshot(post("/guilds/2/members")).await.unwrap_err();
    let limited = limited(error);
    assert_eq!(limited.reason, Reason::Refused);
    assert_eq!(Duration::from(limited.retry_in), Duration::from_millis(2_500));
}

#[tokio::test(start_paused = true)]
async fn clones_share_what_they_know() {
    let gate = Gate::new(Profile::generic());
    let client = TrackLayer::new(&gate).layer(service_fn(|_: Request<()>| async {
        let response = Response::builder().header("x-ratelimit-limit", 1);
        let response = response.header("x-ratelimit-remaining", 0);
        let response = response.header("x-ratelimit-reset-after", 4);
        Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
    }));
    let began = gate.now();
    client.clone().oneshot(post("/a")).await.unwrap();
    client.clone().oneshot(post("/b")).await.unwrap();
    let waited = Duration::from(gate.now().since(began));
    assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(6), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn costs_and_groups_travel_in_extensions() {
    let gate = Gate::new(Profile::openai());
    let layer = TrackLayer::new(&gate.with(Strategy::Error));
    let client = layer.layer(service_fn(|_: Request<()>| async {
        let response = Response::builder().header("x-ratelimit-limit-tokens", 1_000);
        let response = response.header("x-ratelimit-remaining-tokens", 500);
        let response = response.header("x-ratelimit-reset-tokens", "30s");
        Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
    }));
    let ask = |group: &str, tokens: u64| {
        let mut request = post("/v1/chat/completions");
        request.extensions_mut().insert(Group::new(group));
        request.extensions_mut().insert(Costs { tokens, ..Costs::default() });
        client.clone().oneshot(request)
    };
    ask("large", 100).await.unwrap();
    ask("large", 500).await.unwrap();
    let refused = limited(ask("large", 600).await.unwrap_err());
    assert_eq!(refused.unit, crate::headers::Unit::Tokens);
    assert_eq!(refused.limit, Some(1_000));
    ask("small", 600).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_when_the_service_behind_it_is() {
    /// Ready once, for one call.
    #[derive(Clone)]
    struct Once(Arc<Mutex<bool>>);

    impl Service<Request<()>> for Once {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Ready<Answer>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            if *self.0.lock().unwrap() { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::ready(Ok(Response::default()))
        }
    }

    let is_ready = Arc::new(Mutex::new(false));
    let gate = Gate::new(Profile::generic());
    let mut client: Track<Once> = TrackLayer::new(&gate).layer(Once(Arc::clone(&is_ready)));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(Service::<Request<()>>::poll_ready(&mut client, &mut context).is_pending());
    *is_ready.lock().unwrap() = true;
    assert!(Service::<Request<()>>::poll_ready(&mut client, &mut context).is_ready());
    client.call(post("/")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_counts_as_sent_and_one_that_is_dropped_in_line_does_not() {
    let gate = Gate::new(crate::gate::tests::paced(2));
    let service = service_fn(|_: Request<()>| async {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("no connection"))
    });
    let client = ServiceBuilder::new().layer(TrackLayer::new(&gate)).service(service);
    for _ in 0..2 {
        let error = client.clone().oneshot(post("/")).await.unwrap_err();
        assert!(matches!(error, TrackError::Failed(_)), "{error}");
    }
    let waits = client.clone().oneshot(post("/"));
    assert!(tokio::time::timeout(Duration::from_millis(500), waits).await.is_err());
    let snapshot = gate.snapshot();
    assert_eq!((snapshot.waiting, snapshot.in_flight), (0, 0));
    tokio::time::sleep(Duration::from_millis(502)).await;
    assert_eq!(gate.snapshot().states[0].remaining, Some(2));
}
