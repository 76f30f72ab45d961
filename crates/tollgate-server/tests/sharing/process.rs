//! One of the processes: it sends as much as it may.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tollgate::Nanos;
use tollgate_tracker::profile::Pace;
use tollgate_tracker::share::{Door, Share};
use tollgate_tracker::{Gate, Profile, TrackLayer};
use tower::{Layer as _, ServiceExt as _};

/// The first argument of such a process.
pub(crate) const WORD: &str = "process";
/// How many requests it always has to send.
const TASKS: usize = 10;

/// Arguments: the door, the server, the API, the own share, and for how many seconds.
pub(crate) fn run(arguments: &[String]) {
    let [door, server, api, alone, secs] = arguments else { panic!("{arguments:?}") };
    let door = match door.as_str() {
        "http" => Door::Http {
            url: format!("http://{server}"),
            limit: "HeldFifty".to_owned(),
            id: "bot".to_owned(),
            token: None,
        },
        _ => Door::Udp { server: server.parse().unwrap(), key: "fifty".to_owned() },
    };
    let pace = Pace { count: 50, window: Nanos::from_secs(1) };
    let profile = Profile { name: "the API", pace: Some(pace), ..Profile::generic() };
    let share = Share { door, window: pace.window, alone: alone.parse().unwrap() };
    let secs = std::time::Duration::from_secs(secs.parse().unwrap());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let all = send(profile, share, format!("http://{api}/things"));
    // The time is over when it is over, whoever still waits.
    let _ = runtime.block_on(async { tokio::time::timeout(secs, all).await });
}

async fn send(profile: Profile, share: Share, url: String) {
    let gate = Gate::shared(profile, &share).unwrap();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let client = TrackLayer::new(&gate).layer(client);
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (client, url) = (client.clone(), url.clone());
        tasks.spawn(async move {
            loop {
                let request = axum::http::Request::get(&url).body(Empty::new()).unwrap();
                let response = client.clone().oneshot(request).await.unwrap();
                response.into_body().collect().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}
