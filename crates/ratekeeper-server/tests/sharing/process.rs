//! One of the processes: it sends as much as it may.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ratekeeper::Nanos;
use ratekeeper_tracker::profile::{Pace, Paces};
use ratekeeper_tracker::share::{IfAbsent, Share, ShareServer};
use ratekeeper_tracker::{Gate, Profile, TrackLayer};
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _};

/// The first argument of such a process.
pub(crate) const WORD: &str = "process";
/// How many requests it always has to send.
const TASKS: usize = 10;

/// Arguments: the server, the API, the own share, and for how many seconds.
pub(crate) fn run(arguments: &[String]) {
    let [server, api, alone, secs] = arguments else { panic!("{arguments:?}") };
    let profile = profile();
    let share = Share { alone: alone.parse().unwrap(), ..share(&profile, server) };
    let secs = std::time::Duration::from_secs(secs.parse().unwrap());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let url = format!("http://{api}/things");
    runtime.block_on(async {
        let gate = Gate::shared(profile, &share).await.unwrap();
        // The time is over when it is over, whoever still waits.
        let _ = tokio::time::timeout(secs, send(&gate, url)).await;
        gate.close().await;
    });
}

/// An API that allows fifty a second, and says nothing about it.
pub(crate) fn profile() -> Profile {
    const PACES: Paces = Paces::new(&[Pace::new(50, Nanos::from_secs(1))]);
    Profile { name: "the API", paces: PACES, ..Profile::generic() }
}

/// It is shared by four.
pub(crate) fn share(profile: &Profile, server: &str) -> Share {
    let [url, limit, id] = [&format!("http://{server}"), "HeldFifty", "bot"].map(str::to_owned);
    let server = ShareServer { url, limit, id, token: None };
    Share { if_absent: IfAbsent::Refuse, ..Share::of(profile, server, 4).unwrap() }
}

async fn send(gate: &Gate, url: String) {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let client = TrackLayer::new(gate).layer(client);
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
