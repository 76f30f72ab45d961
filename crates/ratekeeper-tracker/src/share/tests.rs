//! In paused time, with a server that takes what it is sent and says nothing.

use std::net::TcpListener;
use std::time::Duration;

use ratekeeper_time::Nanos;

use super::{IfAbsent, Share, ShareError, ShareServer};
use crate::gate::{Gate, Strategy};
use crate::{Profile, Refused, Request};

/// No timer is finer.
const GRAIN: Nanos = Nanos::new(2_000_000);

/// A gate that has found out that the server is away and sends its own share, if it has any.
async fn alone(alone: u32) -> (Gate, TcpListener) {
    let (share, silent) = silent(IfAbsent::BeginAlone);
    let share = Share { alone, ..share };
    let gate = Gate::shared(Profile::discord(), &share).await.unwrap();
    let asked = request();
    let first = tokio::time::timeout(Duration::from_secs(3), gate.acquire(&asked)).await;
    if let Ok(Ok(permit)) = first {
        crate::gate::tests::answer_nothing(permit);
    }
    (gate, silent)
}

fn silent(if_absent: IfAbsent) -> (Share, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let [limit, id] = ["all", "bot"].map(str::to_owned);
    let server = ShareServer { url, limit, id, token: None };
    (Share { if_absent, ..Share::of(&Profile::discord(), server, 4).unwrap() }, silent)
}

fn request() -> Request<'static> {
    Request::new("GET", "/users/1")
}

#[tokio::test(start_paused = true)]
async fn the_own_share_is_sent_also_while_a_silent_server_is_tried() {
    let (gate, _silent) = alone(10).await;
    for number in 0..30 {
        // Less than ten a second.
        tokio::time::sleep(Duration::from_millis(130)).await;
        let permit = gate.acquire(&request()).await.unwrap();
        assert!(permit.waited() <= GRAIN, "request {number} waited for {}", permit.waited());
        crate::gate::tests::answer_nothing(permit);
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_is_told_at_once_also_while_a_silent_server_is_tried() {
    let (gate, _silent) = alone(0).await;
    let strict = gate.with(Strategy::Error);
    for number in 0..30 {
        tokio::time::sleep(Duration::from_millis(70)).await;
        let asked_at = gate.now();
        let refused = strict.acquire(&request()).await;
        assert!(matches!(refused, Err(Refused::Limited(_))), "request {number}: {refused:?}");
        let waited = gate.now().since(asked_at);
        assert!(waited <= GRAIN, "request {number} waited for {waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_server_there_is_a_gate_only_for_who_chose_it() {
    let (share, _silent) = silent(IfAbsent::Refuse);
    let refused = Gate::shared(Profile::discord(), &share).await.err();
    assert!(matches!(refused, Some(ShareError::Absent { .. })), "{refused:?}");
    let (share, _silent) = silent(IfAbsent::Wait);
    let waits = Gate::shared(Profile::discord(), &share);
    assert!(tokio::time::timeout(Duration::from_mins(1), waits).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_http_address_is_refused_whatever_was_chosen() {
    for if_absent in [IfAbsent::Refuse, IfAbsent::Wait, IfAbsent::BeginAlone] {
        let (mut share, _silent) = silent(if_absent);
        share.server.url = share.server.url.replace("http://", "https://");
        let refused = Gate::shared(Profile::discord(), &share).await.err();
        assert!(matches!(refused, Some(ShareError::Https(_))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_closed_while_the_server_is_away_waits_only_for_what_is_in_flight() {
    let (gate, _silent) = alone(10).await;
    let mut permit = gate.acquire(&request()).await.unwrap();
    permit.sent();
    assert!(tokio::time::timeout(Duration::from_secs(5), gate.close()).await.is_err());
    crate::gate::tests::answer_nothing(permit);
    gate.close().await;
    assert!(matches!(gate.acquire(&request()).await, Err(Refused::Closed)));
}
