use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper_time::Nanos;

use super::{FIXED, answer, answer_nothing, paced, request, spent, wait};
use crate::gate::{Gate, Refused, Strategy};
use crate::{Limited, Reason};

fn limited(refused: Refused) -> Limited {
    match refused {
        Refused::Limited(limited) => limited,
        Refused::Closed => panic!("the gate is open"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_a_pass_exactly_when_the_budget_is_full_again() {
    let gate = spent("3.000").await;
    let began = gate.now();
    let permit = gate.with(wait(10, 60)).acquire(&request()).await.unwrap();
    let took = gate.now().since(began);
    // A millisecond is for the rounding of what the server said, one for that of timers.
    assert!(took >= Nanos::from_secs(3), "{took}");
    assert!(took <= Nanos::new(3_002_000_000), "{took}");
    assert_eq!(permit.waited(), took);
}

#[tokio::test(start_paused = true)]
async fn an_error_says_when_and_at_that_moment_it_passes() {
    let gate = spent("3.000").await;
    let strict = gate.with(Strategy::Error);
    let refused = limited(strict.acquire(&request()).await.unwrap_err());
    assert_eq!(refused.reason, Reason::Spent);
    assert_eq!((refused.limit, refused.remaining), (Some(5), Some(0)));
    let wait = Duration::from(refused.retry_at.since(gate.now()));
    tokio::time::sleep(wait.saturating_sub(Duration::from_millis(2))).await;
    assert!(strict.acquire(&request()).await.is_err(), "it is too early");
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(strict.acquire(&request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_refused_at_once_with_the_true_moment() {
    let gate = spent("30.000").await;
    let began = gate.now();
    let refused = limited(gate.with(wait(10, 29)).acquire(&request()).await.unwrap_err());
    assert_eq!(gate.now(), began, "nobody waited");
    assert_eq!(refused.reason, Reason::Deadline);
    assert_eq!(refused.retry_in, Nanos::new(30_001_000_000));
    tokio::time::sleep(refused.retry_in.into()).await;
    assert!(gate.with(Strategy::Error).acquire(&request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_says_when_it_would_be_the_turn() {
    let gate = spent("10.000").await.with(wait(3, 60));
    let asked = request();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(gate.acquire(&asked))).collect();
    for one in &mut waiting {
        assert!(futures_poll(one.as_mut()).is_none());
    }
    let began = gate.now();
    let refused = limited(gate.acquire(&asked).await.unwrap_err());
    assert_eq!(gate.now(), began, "nobody waited");
    assert_eq!(refused.reason, Reason::QueueFull);
    // The budget of five is enough for the three and for this one.
    assert_eq!(refused.retry_in, Nanos::new(10_001_000_000));
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_until_the_deadline_in_vain_is_told_so() {
    let gate = spent("2.000").await.with(wait(10, 5));
    let asked = request();
    let mut waiting = Box::pin(gate.acquire(&asked));
    assert!(futures_poll(waiting.as_mut()).is_none());
    // Meanwhile somebody else is refused for a minute.
    let other = gate.with(Strategy::SendAnyway).acquire(&asked).await.unwrap();
    answer(other, 429, 5, 0, "60.000");
    let began = gate.now();
    let refused = limited(waiting.await.unwrap_err());
    let took = gate.now().since(began);
    assert!(took >= Nanos::from_secs(5) && took <= Nanos::new(5_002_000_000), "{took}");
    assert_eq!(refused.reason, Reason::Deadline);
    assert!(refused.retry_in > Nanos::from_secs(54), "{refused:?}");
    assert_eq!(gate.snapshot().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn all_whose_deadline_is_over_are_told_so_however_many() {
    const MANY: usize = 1_000;
    let gate = spent("2.000").await.with(wait(MANY, 1_000));
    let asked = request();
    let mut waiting: Vec<_> = (0..MANY).map(|_| Box::pin(gate.acquire(&asked))).collect();
    for one in &mut waiting {
        assert!(futures_poll(one.as_mut()).is_none());
    }
    let other = gate.with(Strategy::SendAnyway).acquire(&asked).await.unwrap();
    answer(other, 429, 5, 0, "3000.000");
    let began = gate.now();
    for one in waiting {
        assert_eq!(limited(one.await.unwrap_err()).reason, Reason::Deadline);
    }
    let took = gate.now().since(began);
    assert!(took <= Nanos::new(1_000_002_000_000), "{took}");
    assert_eq!(gate.snapshot().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn who_sends_anyway_never_waits_and_is_tracked() {
    let gate = spent("10.000").await;
    let began = gate.now();
    let anyway = gate.with(Strategy::SendAnyway);
    for _ in 0..100 {
        let permit = anyway.acquire(&request()).await.unwrap();
        answer(permit, 200, 5, 0, "20.000");
    }
    assert_eq!(gate.now(), began);
    let refused = limited(gate.with(Strategy::Error).acquire(&request()).await.unwrap_err());
    assert_eq!(refused.retry_in, Nanos::new(20_001_000_000), "what they were answered counts");
    assert_eq!(gate.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn callbacks_are_called_in_order_and_block_nobody() {
    let gate = Gate::new(paced(10)).with(wait(1_000, 600));
    let called = Arc::new(Mutex::new(Vec::new()));
    let began = gate.now();
    for number in 0..95 {
        let (called, clock) = (Arc::clone(&called), gate.clone());
        let callback = move |permit: Result<_, Refused>| {
            called.lock().unwrap().push((number, clock.now().since(began)));
            answer_nothing(permit.unwrap());
        };
        gate.call(&request(), callback).unwrap();
    }
    assert!(called.lock().unwrap().is_empty(), "none is called before the caller waits");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let called = called.lock().unwrap();
    let order: Vec<usize> = called.iter().map(|&(number, _)| number).collect();
    assert_eq!(order, (0..95).collect::<Vec<_>>());
    for (place, (_, at)) in called.iter().enumerate() {
        assert!(at.get() / 1_000_000_000 >= (place / 10) as u128, "{place} at {at}");
    }
    assert!(called[94].1 < Nanos::new(9_100_000_000), "{}", called[94].1);
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_is_refused_may_hold_a_pass_of_the_same_gate() {
    let gate = Gate::new(FIXED).with(Strategy::Error);
    let permit = gate.acquire(&request()).await.unwrap();
    assert!(gate.call(&request(), move |_| drop(permit)).is_err(), "the first finds out alone");
    assert!(gate.acquire(&request()).await.is_ok(), "it was given back");
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_does_not_stop_the_others() {
    let gate = Gate::new(paced(10));
    let called = Arc::new(Mutex::new(0));
    for number in 0..3 {
        let called = Arc::clone(&called);
        let callback = move |_pass| {
            assert!(number != 1, "this one panics");
            *called.lock().unwrap() += 1;
        };
        gate.call(&request(), callback).unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*called.lock().unwrap(), 2);
}

#[test]
fn who_waits_when_the_runtime_ends_is_told_that_the_gate_is_closed() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let gate = first.block_on(spent("60.000")).with(wait(10, 600));
    let asked = request();
    let waiting = gate.acquire(&asked);
    let refused = second.block_on(async {
        let mut waiting = Box::pin(waiting);
        assert!(futures_poll(waiting.as_mut()).is_none());
        first.shutdown_background();
        waiting.await.unwrap_err()
    });
    assert_eq!(refused, Refused::Closed);
    assert_eq!(second.block_on(gate.acquire(&asked)).unwrap_err(), Refused::Closed);
}

/// Polls once.
fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
