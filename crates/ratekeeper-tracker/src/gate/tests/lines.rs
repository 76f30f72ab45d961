use std::sync::{Arc, Mutex};

use ratekeeper_time::Nanos;
use tokio::task::JoinSet;

use super::{FIXED, answer_nothing, paced, request, wait};
use crate::gate::Gate;
use crate::{Profile, Request, Response};

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_pass_in_the_order_in_which_they_came() {
    const WAITERS: usize = 10_000;
    const PER_SECOND: u32 = 50;
    let gate = Gate::new(paced(PER_SECOND)).with(wait(WAITERS, 3_600));
    let passed = Arc::new(Mutex::new(Vec::new()));
    let began = gate.now();
    let mut tasks = JoinSet::new();
    for number in 0..WAITERS {
        let (gate, passed) = (gate.clone(), Arc::clone(&passed));
        tasks.spawn(async move {
            let permit = gate.acquire(&request()).await.unwrap();
            passed.lock().unwrap().push((number, gate.now().since(began)));
            answer_nothing(permit);
        });
    }
    tasks.join_all().await;
    let passed = passed.lock().unwrap();
    let inversions = passed.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
    assert_eq!((passed.len(), inversions), (WAITERS, 0));
    // Never more than the limit in any window, and never less for long.
    for (first, last) in passed.iter().zip(&passed[PER_SECOND as usize..]) {
        assert!(last.1.get() - first.1.get() >= 1_000_000_000, "{first:?} {last:?}");
    }
    let took = passed[WAITERS - 1].1;
    assert!(took < Nanos::from_secs(202), "200 windows took {took}");
}

#[tokio::test(start_paused = true)]
async fn at_a_reset_no_more_are_released_than_remain() {
    const LIMIT: u64 = 5;
    let gate = Gate::new(FIXED).with(wait(1_000, 3_600));
    // A server of this budget, which counts for itself.
    let server = Arc::new(Mutex::new((gate.now(), 0_u64, 0_u64)));
    let mut tasks = JoinSet::new();
    for _ in 0..500 {
        let (gate, server) = (gate.clone(), Arc::clone(&server));
        tasks.spawn(async move {
            let mut permit = gate.acquire(&request()).await.unwrap();
            permit.sent();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let (left, reset) = {
                let mut server = server.lock().unwrap();
                let now = gate.now();
                if now >= server.0 {
                    *server = (now.after(Nanos::from_secs(2)), LIMIT, server.2);
                }
                match server.1.checked_sub(1) {
                    Some(left) => server.1 = left,
                    None => server.2 += 1,
                }
                (server.1.to_string(), server.0.since(now))
            };
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let reset = reset.get().div_ceil(1_000_000);
            let reset = format!("{}.{:03}", reset / 1_000, reset % 1_000);
            let fields: [(&str, &[u8]); 3] = [
                ("x-ratelimit-limit", b"5"),
                ("x-ratelimit-remaining", left.as_bytes()),
                ("x-ratelimit-reset-after", reset.as_bytes()),
            ];
            permit.track(Response { status: 200, fields, body: None });
        });
    }
    let began = gate.now();
    tasks.join_all().await;
    assert_eq!(server.lock().unwrap().2, 0, "the server had to refuse some");
    let took = gate.now().since(began);
    // A hundred windows of two seconds, and one round trip in each to find out.
    assert!(took < Nanos::from_secs(212), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_line_of_one_bucket_holds_up_no_other() {
    let profile = Profile { route: |request, route| route.piece(request.path), ..FIXED };
    let gate = Gate::new(profile).with(wait(1_000, 3_600));
    let busy = Request::new("GET", "/busy");
    super::answer(gate.acquire(&busy).await.unwrap(), 200, 5, 0, "100.000");
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let gate = gate.clone();
        tasks.spawn(async move { drop(gate.acquire(&Request::new("GET", "/busy")).await) });
    }
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert_eq!(gate.snapshot().waiting, 100);
    let began = gate.now();
    for _ in 0..100 {
        answer_nothing(gate.acquire(&Request::new("GET", "/idle")).await.unwrap());
    }
    assert_eq!(gate.now(), began);
}
