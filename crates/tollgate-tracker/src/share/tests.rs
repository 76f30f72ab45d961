//! In paused time, with a server that takes what it is sent and says nothing.

use std::net::UdpSocket;
use std::time::Duration;

use tollgate::Nanos;

use super::{Door, Share};
use crate::gate::{Gate, Strategy};
use crate::{Profile, Refused, Request};

/// No timer is finer.
const GRAIN: Nanos = Nanos::new(2_000_000);

/// A gate that has found out that the server is away and sends its own share, if it has any.
async fn alone(alone: u32) -> (Gate, UdpSocket) {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let door = Door::Udp { server: silent.local_addr().unwrap(), key: "all".to_owned() };
    let share = Share { door, window: Nanos::from_secs(1), alone };
    let gate = Gate::shared(Profile::discord(), &share).unwrap();
    let asked = request();
    let first = tokio::time::timeout(Duration::from_secs(3), gate.pass(&asked)).await;
    if let Ok(Ok(pass)) = first {
        crate::gate::tests::answer_nothing(pass);
    }
    (gate, silent)
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
        let pass = gate.pass(&request()).await.unwrap();
        assert!(pass.waited() <= GRAIN, "request {number} waited for {}", pass.waited());
        crate::gate::tests::answer_nothing(pass);
    }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_is_told_at_once_also_while_a_silent_server_is_tried() {
    let (gate, _silent) = alone(0).await;
    let strict = gate.with(Strategy::Error);
    for number in 0..30 {
        tokio::time::sleep(Duration::from_millis(70)).await;
        let asked_at = gate.now();
        let refused = strict.pass(&request()).await;
        assert!(matches!(refused, Err(Refused::Limited(_))), "request {number}: {refused:?}");
        let waited = gate.now().since(asked_at);
        assert!(waited <= GRAIN, "request {number} waited for {waited}");
    }
}
