use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper_testkit::random::Random;
use ratekeeper_time::Nanos;
use tokio::task::JoinSet;

use super::{answer_nothing, paced, request, wait};
use crate::gate::{Gate, Strategy};

/// Waiters give up at random moments, and permits are dropped before and after they were sent.
/// Then what was sent never exceeds the limit, nobody is stuck, and in the end everything is free.
#[tokio::test(start_paused = true)]
async fn nothing_is_leaked_minted_or_stuck_however_tasks_are_cancelled() {
    const PER_SECOND: u32 = 10;
    for seed in 0..20 {
        let gate = Gate::new(paced(PER_SECOND)).with(wait(10_000, 3_600));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let mut random = Random::new(seed);
        let mut tasks = JoinSet::new();
        for _ in 0..400 {
            let (gate, sent) = (gate.clone(), Arc::clone(&sent));
            let arrives = Duration::from_millis(random.below(20_000));
            let gives_up = Duration::from_millis(random.below(4_000));
            let answered = Duration::from_millis(random.below(300));
            let fate = random.below(4);
            tasks.spawn(async move {
                tokio::time::sleep(arrives).await;
                let asked = request();
                let waiting = gate.acquire(&asked);
                let Ok(permit) = tokio::time::timeout(gives_up, waiting).await else { return };
                let mut permit = permit.unwrap();
                // Not sent at all.
                if fate == 0 {
                    return;
                }
                permit.sent();
                sent.lock().unwrap().push(gate.now());
                tokio::time::sleep(answered).await;
                // One in three of the rest is lost on its way.
                if fate > 1 {
                    answer_nothing(permit);
                }
            });
        }
        tasks.join_all().await;

        let sent = sent.lock().unwrap().clone();
        assert!(sent.len() > 100, "{} were sent", sent.len());
        for (first, last) in sent.iter().zip(&sent[PER_SECOND as usize..]) {
            assert!(last.since(*first) >= Nanos::from_secs(1), "seed {seed}: minted");
        }
        let snapshot = gate.snapshot();
        assert_eq!((snapshot.waiting, snapshot.in_flight), (0, 0), "seed {seed}: leaked");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let strict = gate.with(Strategy::Error);
        let mut permits = Vec::new();
        for _ in 0..PER_SECOND {
            permits.push(strict.acquire(&request()).await.unwrap());
        }
        assert!(strict.acquire(&request()).await.is_err(), "seed {seed}: minted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_granted_to_a_task_that_just_went_away_goes_to_the_next() {
    let gate = Gate::new(paced(1)).with(wait(10, 600));
    let held = gate.acquire(&request()).await.unwrap();
    let mut tasks = JoinSet::new();
    let first = tasks.spawn({
        let gate = gate.clone();
        async move { drop(gate.acquire(&request()).await) }
    });
    tokio::task::yield_now().await;
    let asked = request();
    let second = tokio::time::timeout(Duration::from_secs(10), gate.acquire(&asked));
    let (second, ()) = tokio::join!(second, async {
        // The first is granted and ended in the same moment, whichever comes first.
        drop(held);
        first.abort();
    });
    assert!(second.unwrap().is_ok());
}

/// The same with threads that really run at the same time.
#[test]
fn tasks_on_many_threads_leave_nothing_behind() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let gate = Gate::new(paced(1_000_000)).with(wait(10_000, 60));
        let mut random = Random::new(7);
        let mut tasks = JoinSet::new();
        for _ in 0..5_000 {
            let gate = gate.clone();
            let (ends, is_sent) = (random.below(3), random.below(2) == 0);
            tasks.spawn(async move {
                let asked = request();
                let waiting = gate.acquire(&asked);
                let permit = if ends == 0 {
                    tokio::time::timeout(Duration::ZERO, waiting).await.ok()
                } else {
                    Some(waiting.await)
                };
                tokio::task::yield_now().await;
                if is_sent && let Some(Ok(permit)) = permit {
                    answer_nothing(permit);
                }
            });
        }
        tasks.join_all().await;
        let snapshot = gate.snapshot();
        assert_eq!((snapshot.waiting, snapshot.in_flight), (0, 0));
    });
}
