//! What can be known to be wrong when a gate is made, and what is said of it.

use std::net::TcpListener;

use ratekeeper_server::settings::SecretText;
use ratekeeper_tracker::Gate;
use ratekeeper_tracker::share::{Share, ShareError};

use crate::process;
use crate::scene::{Scene, Way};

const TOKEN: &str = "decide-token-0123456789";
const READS: &str = "read-token-0123456789";

pub(crate) fn all() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        at_a_server_for_everybody().await;
        at_a_server_with_tokens().await;
        without_a_server().await;
    });
}

async fn at_a_server_for_everybody() {
    let scene = Scene::start(Way::Direct);
    let share = process::share(&process::profile(), &scene.server_address.to_string());
    assert!(begin(&share).await.is_ok());
    let wanted = "{ burst: 50, count: 1, period: 1m }";
    for (limit, expected) in [
        ("HeldFitfy", "no limit is called `HeldFitfy`: did you mean `HeldFifty`?"),
        ("SpentFifty", "is { burst: 2, count: 48, period: 1s }"),
        ("HeldForty", "is { burst: 40, count: 1, period: 1m }"),
        ("OnlyLooked", "is { burst: 50, count: 1, period: 1m, shadow: true }"),
    ] {
        let mut share = share.clone();
        share.server.limit = limit.to_owned();
        let error = begin(&share).await.unwrap_err().to_string();
        println!("{error}");
        for part in [expected, wanted, limit, &share.server.url] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let mut share = share;
    share.server.url = share.server.url.replace("http:", "https:");
    let error = begin(&share).await.unwrap_err();
    assert!(matches!(error, ShareError::Https(_)), "{error}");
}

async fn at_a_server_with_tokens() {
    let scene = Scene::start_with(Way::Direct, |settings| {
        let tokens = format!("app decide {TOKEN};grafana read {READS}");
        settings.http.tokens_text = Some(SecretText(tokens));
    });
    let mut share = process::share(&process::profile(), &scene.server_address.to_string());
    for (token, expected) in
        [(None, "401"), (Some("wrong-token-0123456789"), "401"), (Some(READS), "403")]
    {
        share.server.token = token.map(str::to_owned);
        let error = begin(&share).await.unwrap_err().to_string();
        println!("{error}");
        assert!(error.contains(expected) && error.contains("tokens file"), "{error}");
        assert!(!error.contains(token.unwrap_or("nothing")), "{error}");
    }
    share.server.token = Some(TOKEN.to_owned());
    assert!(begin(&share).await.is_ok());
}

async fn without_a_server() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let share = process::share(&process::profile(), &address.to_string());
    let error = begin(&share).await.unwrap_err();
    println!("{error}");
    assert!(matches!(error, ShareError::Absent { source: Some(_), .. }), "{error}");
}

async fn begin(share: &Share) -> Result<(), ShareError> {
    let gate = Gate::shared(process::profile(), share).await?;
    gate.close().await;
    Ok(())
}
