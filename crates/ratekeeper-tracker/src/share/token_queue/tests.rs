//! The test is the server: it answers what is asked, when it likes.

mod warnings;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper_time::{Moment, Nanos};
use tokio::task::JoinSet;

use super::super::token_state::{Step, TokenAnswer, TokenAsk};
use super::super::{Share, ShareError, ShareServer};
use super::LINE_MAX;
use crate::gate::{Core, Gate, SendPermit, Strategy};
use crate::headers::Scope;
use crate::{IN_FLIGHT_MAX, Origin, Profile, Reason, Refused, Request, Response};

const SHORTLY: Duration = Duration::from_millis(20);

/// Who has passed, in order.
type Passed = Arc<Mutex<Vec<usize>>>;

fn shared() -> (Gate, Arc<Core>) {
    let [url, limit, id] = ["http://localhost", "all", "bot"].map(str::to_owned);
    let server = ShareServer { url, limit, id, token: None };
    let share = Share::of(&Profile::discord(), server, 5).unwrap();
    let (gate, core) = Gate::shared_by_hand(Profile::discord(), &share);
    let ask = serve(&core).unwrap();
    assert_eq!(ask, TokenAsk::Look, "first it asks what time it is");
    grant(&core, &ask, true);
    (gate, core)
}

fn request() -> Request<'static> {
    Request::new("GET", "/users/1")
}

/// One turn of the task that keeps the line moving; what it asks. Whenever a term begins, it has
/// what it had.
fn serve(core: &Arc<Core>) -> Option<TokenAsk> {
    let served = core.serve();
    for told in served.told {
        told.end.tell(told.answer);
    }
    match served.step {
        Step::Ask(ask @ TokenAsk::Renew { .. }) => {
            grant(core, &ask, true);
            serve(core)
        }
        Step::Ask(ask) => Some(ask),
        Step::Idle(_) => None,
    }
}

/// The server gives what was asked for, or nothing. It was started long ago.
fn grant(core: &Arc<Core>, ask: &TokenAsk, is_granted: bool) {
    let (there, started) = (core.now(), Moment::EPOCH);
    core.heard(ask, Ok(TokenAnswer { is_granted, left: 0, there, started }), core.now());
}

fn spends(ask: &TokenAsk) -> u32 {
    match ask {
        TokenAsk::Exchange { spend, .. } => *spend,
        _ => 0,
    }
}

fn refunds(ask: &TokenAsk) -> u32 {
    match ask {
        TokenAsk::Exchange { refund, .. } => *refund,
        _ => 0,
    }
}

fn late() -> ShareError {
    ShareError::Absent { server: "http://localhost".to_owned(), source: None }
}

/// One request finds out that the bucket has no limit of its own.
async fn learn(gate: &Gate, core: &Arc<Core>) {
    let asked = request();
    let (permit, ()) = tokio::join!(gate.acquire(&asked), async {
        settle().await;
        let ask = serve(core).unwrap();
        grant(core, &ask, true);
        serve(core);
    });
    crate::gate::tests::answer_nothing(permit.unwrap());
}

/// Lets all tasks go on until they wait.
async fn settle() {
    tokio::time::sleep(Duration::from_micros(1)).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_go_to_those_who_came_first_and_the_line_is_bounded() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let passed = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..3 * LINE_MAX {
        let (gate, passed) = (gate.clone(), Arc::clone(&passed));
        tasks.spawn(async move {
            let mut permit = gate.acquire(&request()).await.unwrap();
            permit.sent();
            passed.lock().unwrap().push(number);
        });
    }
    settle().await;
    let snapshot = gate.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 3 * LINE_MAX));
    let in_line = snapshot.states[0].waiting;
    assert_eq!(in_line, LINE_MAX as u64, "the others wait in the line of their bucket");
    while passed.lock().unwrap().len() < 3 * LINE_MAX {
        if let Some(ask) = serve(&core) {
            grant(&core, &ask, true);
        }
        settle().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*passed.lock().unwrap(), (0..3 * LINE_MAX).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_leaves_the_token_to_the_next() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let asked = request();
    let first = tokio::time::timeout(Duration::from_millis(5), gate.acquire(&asked));
    assert!(first.await.is_err(), "nobody has served it");
    let second = gate.acquire(&asked);
    let (second, ()) = tokio::join!(second, async {
        settle().await;
        let ask = serve(&core).unwrap();
        assert_eq!((spends(&ask), refunds(&ask)), (1, 0));
        grant(&core, &ask, true);
        assert_eq!(serve(&core), None);
    });
    drop(second.unwrap());
    let ask = serve(&core).unwrap();
    assert_eq!((spends(&ask), refunds(&ask)), (0, 1), "what was not sent goes back");
    assert_eq!(gate.snapshot().in_flight, 0);
}

/// Five stand in line for tokens, and one more has a permit.
async fn five_in_line(gate: &Gate, core: &Arc<Core>) -> (SendPermit, JoinSet<()>, Passed) {
    learn(gate, core).await;
    let asked = request();
    let (permit, ()) = tokio::join!(gate.acquire(&asked), async {
        settle().await;
        let ask = serve(core).unwrap();
        grant(core, &ask, true);
        serve(core);
    });
    let passed = Passed::default();
    let mut tasks = JoinSet::new();
    for number in 0..5 {
        let (gate, passed) = (gate.clone(), Arc::clone(&passed));
        tasks.spawn(async move {
            let mut permit = gate.acquire(&request()).await.unwrap();
            permit.sent();
            passed.lock().unwrap().push(number);
            std::future::pending::<()>().await;
        });
    }
    settle().await;
    let snapshot = gate.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (1, 5));
    (permit.unwrap(), tasks, passed)
}

/// The server has as many tokens as anybody wants.
async fn serve_for(core: &Arc<Core>, ms: u64) {
    for _ in 0..ms {
        if let Some(ask) = serve(core) {
            grant(core, &ask, true);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_token_is_not_sent_into_a_block_that_was_heard_of_meanwhile() {
    for global in [false, true] {
        let (gate, core) = shared();
        let (mut permit, _tasks, passed) = five_in_line(&gate, &core).await;
        permit.sent();
        let scope: &[u8] = if global { b"true" } else { b"false" };
        let fields: [(&str, &[u8]); 2] = [("retry-after", b"2"), ("x-ratelimit-global", scope)];
        let body = format!("{{\"retry_after\": 2.0, \"global\": {global}}}");
        permit.track(Response { status: 429, fields, body: Some(body.as_bytes()) });
        serve_for(&core, 1_900).await;
        assert!(passed.lock().unwrap().is_empty(), "global {global}");
        assert_eq!(gate.snapshot().in_flight, 0, "they hold nothing while they wait");
        serve_for(&core, 200).await;
        assert_eq!(*passed.lock().unwrap(), [0], "one goes first: global {global}");
        // It is not answered, and neither are the others.
        serve_for(&core, 2_000).await;
        assert_eq!(*passed.lock().unwrap(), [0, 1, 2, 3, 4], "in order: global {global}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_those_who_wait_for_a_token_no_more_go_than_a_budget_that_shrank_has_left() {
    let (gate, core) = shared();
    let (permit, _tasks, passed) = five_in_line(&gate, &core).await;
    crate::gate::tests::answer(permit, 200, 5, 3, "2");
    serve_for(&core, 1_900).await;
    assert_eq!(*passed.lock().unwrap(), [0, 1, 2]);
    assert_eq!(gate.snapshot().in_flight, 3);
}

#[tokio::test(start_paused = true)]
async fn who_stands_back_and_goes_away_leaves_the_line() {
    let (gate, core) = shared();
    let (mut permit, mut tasks, _) = five_in_line(&gate, &core).await;
    let mut late = JoinSet::new();
    for _ in 0..LINE_MAX {
        let gate = gate.clone();
        late.spawn(async move { drop(gate.acquire(&request()).await) });
    }
    settle().await;
    // So that some of these were in line before they came to the line for tokens.
    tasks.shutdown().await;
    serve(&core);
    settle().await;
    permit.sent();
    let fields: [(&str, &[u8]); 1] = [("retry-after", b"2")];
    permit.track(Response { status: 429, fields, body: Some(b"{\"retry_after\": 2.0}") });
    serve(&core);
    assert_eq!(gate.snapshot().waiting, LINE_MAX);
    late.shutdown().await;
    assert_eq!(gate.snapshot().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn who_stands_back_keeps_its_deadline() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let asked = request();
    let hasty = gate.with(Strategy::Wait { queue: 9, deadline: Duration::from_millis(500) });
    let (refused, ()) = tokio::join!(hasty.acquire(&asked), async {
        settle().await;
        let mut other = gate.with(Strategy::SendAnyway).acquire(&asked).await.unwrap();
        other.sent();
        let fields: [(&str, &[u8]); 1] = [("retry-after", b"2")];
        other.track(Response { status: 429, fields, body: Some(b"{\"retry_after\": 2.0}") });
        serve_for(&core, 600).await;
    });
    let Err(Refused::Limited(limited)) = refused else { panic!("it was sent into a block") };
    assert_eq!(limited.reason, Reason::Deadline);
    assert!(limited.retry_in > Nanos::from_secs(1), "{}", limited.retry_in);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_is_told_when_there_is_more() {
    let (gate, core) = shared();
    let strict = gate.with(Strategy::Error);
    let asked = request();
    let (refused, ()) = tokio::join!(strict.acquire(&asked), async {
        settle().await;
        let ask = serve(&core).unwrap();
        grant(&core, &ask, false);
        assert_eq!(serve(&core), None);
    });
    let Err(Refused::Limited(limited)) = refused else { panic!("there was no token") };
    assert_eq!((limited.reason, &*limited.bucket), (Reason::Deadline, "all"));
    assert_eq!(limited.retry_in, Nanos::new(8_000_000), "it is asked again then");
    assert_eq!(gate.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_limit_does_not_count_needs_no_token() {
    let (gate, _) = shared();
    let path = "/interactions/1/aW50ZXJhY3Rpb246x/callback";
    let permit = gate.with(Strategy::Error).acquire(&Request::new("POST", path)).await;
    assert!(permit.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_token_goes_when_its_bucket_opens_though_the_line_for_tokens_is_full() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let path = "/interactions/1/aW50ZXJhY3Rpb246x/callback";
    let first = gate.acquire(&Request::new("POST", path)).await.unwrap();
    crate::gate::tests::answer(first, 200, 1, 0, "1");
    let mut tasks = JoinSet::new();
    for _ in 0..2 * LINE_MAX {
        let gate = gate.clone();
        tasks.spawn(async move { drop(gate.acquire(&request()).await) });
    }
    settle().await;
    let exempt = Request::new("POST", path);
    let second = tokio::time::timeout(Duration::from_secs(2), gate.acquire(&exempt)).await;
    assert!(second.is_ok_and(|permit| permit.is_ok()), "nobody has to serve it");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_anyway_is_paid_for_with_the_next_tokens() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let asked = request();
    let anyway = gate.with(Strategy::SendAnyway);
    for _ in 0..2 {
        crate::gate::tests::answer_nothing(anyway.acquire(&asked).await.unwrap());
    }
    let (waited, ()) = tokio::join!(tokio::time::timeout(SHORTLY, gate.acquire(&asked)), async {
        settle().await;
        for _ in 0..2 {
            let ask = serve(&core).unwrap();
            grant(&core, &ask, true);
            // Tokens come one at a time here.
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
        assert_eq!(serve(&core).map(|ask| spends(&ask)), Some(1), "only now one is for who waits");
    });
    assert!(waited.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refunded = refunds(&serve(&core).unwrap());
    assert_eq!(refunded, 3, "what was learnt with, and what was sent anyway");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_anyway_and_not_counted_is_not_paid_for() {
    let (gate, core) = shared();
    let path = "/interactions/1/aW50ZXJhY3Rpb246x/callback";
    let exempt = Request::new("POST", path);
    let permit = gate.with(Strategy::SendAnyway).acquire(&exempt).await.unwrap();
    assert_eq!(serve(&core), None);
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_anyway_and_not_tracked_is_paid_for_only_if_it_is_counted() {
    let (gate, core) = shared();
    let path = "/interactions/1/aW50ZXJhY3Rpb246x/callback";
    let exempt = Request::new("POST", path);
    let now = core.now();
    for _ in 0..IN_FLIGHT_MAX {
        let reservation = core.state.lock().tracker.send_anyway(&exempt, now);
        assert!(reservation.is_some());
    }
    let anyway = gate.with(Strategy::SendAnyway);
    drop(anyway.acquire(&exempt).await.unwrap());
    assert_eq!(serve(&core), None);
    let _flying = anyway.acquire(&request()).await.unwrap();
    assert_eq!(serve(&core).map(|ask| spends(&ask)), Some(1));
}

fn elsewhere(path: &str) -> Request<'_> {
    Request::new("GET", path).to(Origin::of("https://cdn.example/"))
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_host_that_the_profile_does_not_name_takes_no_token() {
    let (gate, core) = shared();
    let asked = elsewhere("/file");
    let permit = tokio::time::timeout(SHORTLY, gate.acquire(&asked)).await.unwrap().unwrap();
    assert_eq!(serve(&core), None, "nothing is spent");
    drop(permit);
    drop(gate.with(Strategy::SendAnyway).acquire(&elsewhere("/file")).await.unwrap());
    assert_eq!(serve(&core), None);
    // The pace of the profile holds there for this process alone, as without a server.
    let states = gate.snapshot().states;
    let limits = states.iter().filter(|state| &*state.origin == "https://cdn.example");
    assert_eq!(limits.filter_map(|state| state.limit).collect::<Vec<_>>(), [50]);

    // And the profile's own hosts are as before.
    let ours = Request::new("GET", "/users/1").to(Origin::of("https://discord.com/"));
    assert!(tokio::time::timeout(SHORTLY, gate.acquire(&ours)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_host_goes_while_all_tokens_are_waited_for() {
    let (gate, core) = shared();
    learn(&gate, &core).await;
    let mut tasks = JoinSet::new();
    for _ in 0..3 * LINE_MAX {
        let gate = gate.clone();
        tasks.spawn(async move { gate.acquire(&request()).await });
    }
    settle().await;
    let asked = elsewhere("/file");
    let first = tokio::time::timeout(SHORTLY, gate.acquire(&asked)).await.unwrap().unwrap();
    let (second, ()) = tokio::join!(tokio::time::timeout(SHORTLY, gate.acquire(&asked)), async {
        settle().await;
        crate::gate::tests::answer_nothing(first);
    });
    assert!(second.is_ok_and(|permit| permit.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_what_is_shared_and_whether_the_server_is_away() {
    let (gate, core) = shared();
    let (permit, _tasks, _) = five_in_line(&gate, &core).await;
    let shown = || gate.snapshot().states.swap_remove(0);
    let state = shown();
    assert_eq!((&*state.bucket, &*state.policy, state.scope), ("all", "", Scope::Global));
    assert_eq!((state.limit, state.remaining), (Some(50), Some(0)), "as the server said");
    assert_eq!((state.in_flight, state.waiting), (1, 5));
    drop(permit);
    assert_eq!(shown().in_flight, 0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown().remaining, None, "others may have taken or given back any number");

    let ask = serve(&core).unwrap();
    core.heard(&ask, Err(late()), core.now());
    let state = shown();
    assert_eq!((&*state.policy, state.limit, state.remaining), ("alone", Some(10), Some(0)));
    assert_eq!(state.reset_in, Some(Nanos::new(1_250_000_000)), "the quiet time");
    tokio::time::sleep(Duration::from_millis(1_250)).await;
    assert_eq!((shown().remaining, shown().reset_in), (Some(10), None));
}

#[tokio::test(start_paused = true)]
async fn while_the_server_is_away_the_own_share_is_sent_after_a_quiet_time() {
    let (gate, core) = shared();
    let asked = request();
    let began = gate.now();
    let mut sent: Vec<Moment> = Vec::new();
    let sending = async {
        for _ in 0..30 {
            let mut permit = gate.acquire(&asked).await.unwrap();
            permit.sent();
            sent.push(gate.now());
            crate::gate::tests::answer_nothing(permit);
        }
    };
    let keeping = async {
        loop {
            if let Some(ask) = serve(&core) {
                let asked = core.now();
                core.heard(&ask, Err(late()), asked);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! { () = sending => {}, () = keeping => {} }
    let first = sent[0].since(began);
    assert!(first >= Nanos::new(1_250_000_000) && first < Nanos::new(1_300_000_000), "{first}");
    // A fifth of fifty.
    for (first, last) in sent.iter().zip(&sent[10..]) {
        assert!(last.since(*first) >= Nanos::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_closes_refuses_who_waits_and_gives_back_what_it_holds() {
    let (gate, core) = shared();
    let (permit, mut tasks, _) = five_in_line(&gate, &core).await;
    tasks.abort_all();
    let (waits, waiting) = (gate.clone(), request());
    let waiting = waits.acquire(&waiting);
    let began = gate.now();
    let keeping = async {
        settle().await;
        crate::gate::tests::answer_nothing(permit);
        let mut refunded = 0;
        while !core.is_share_closed() {
            if let Some(ask) = serve(&core) {
                assert_eq!(spends(&ask), 0, "nobody goes any more");
                refunded += refunds(&ask);
                grant(&core, &ask, true);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        core.share_kept.close();
        refunded
    };
    let (waited, (), refunded) = tokio::join!(waiting, gate.close(), keeping);
    assert!(matches!(waited, Err(Refused::Closed)), "{waited:?}");
    assert_eq!(refunded, 2, "of the permit, and of the request before it");
    let took = gate.now().since(began);
    assert!(took <= Nanos::new(1_010_000_000), "{took}");
    assert!(matches!(gate.acquire(&request()).await, Err(Refused::Closed)));
}
