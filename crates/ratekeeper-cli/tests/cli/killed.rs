//! A server that is killed without a warning forgets at most the last second.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::program::file;
use crate::server::Server;

const BUDGET: usize = 10_000_000;
/// How long the server is asked before it is killed.
const ASKED_FOR: Duration = Duration::from_millis(2500);

#[test]
fn killed_under_load_it_admits_no_more_than_a_second_allows() {
    let limits = format!("Budget: {{burst: {BUDGET}, count: 1, period: 8760h}}\n");
    let limits = file("killed.yaml", &limits);
    let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("killed");
    let _ = fs::remove_dir_all(&state);
    let args = ["--limits", &limits, "--state", state.to_str().unwrap()];

    let server = Server::start(&args);
    let mut client = server.bucket();
    // The moments are told by whoever waits: a tick per tenth of a second.
    let (tick, ticks) = channel();
    let counting = std::thread::spawn(move || {
        let (mut admitted, mut at_tick) = (0_usize, Vec::new());
        while let Some(answer) = client.ask("get Budget") {
            admitted += usize::from(answer == "1");
            while ticks.try_recv().is_ok() {
                at_tick.push(admitted);
            }
        }
        (admitted, at_tick)
    });
    let (_never, silence) = channel::<()>();
    let tenth = Duration::from_millis(100);
    for _ in 0..ASKED_FOR.as_millis() / tenth.as_millis() {
        assert_eq!(silence.recv_timeout(tenth), Err(RecvTimeoutError::Timeout));
        tick.send(()).unwrap();
    }
    server.kill();
    let (admitted, at_tick) = counting.join().unwrap();
    assert!(at_tick.len() > 12, "{at_tick:?}");
    let in_last_second = admitted - at_tick[at_tick.len() - 10];

    let server = Server::start(&args);
    server.logged("what was spent is restored");
    let mut client = server.bucket();
    // Everything that is left is taken, in large parts first.
    let mut left = 0;
    for cost in (0..=BUDGET.ilog2()).rev().map(|power| 1_usize << power) {
        while client.ask(&format!("get Budget {cost}")).as_deref() == Some("1") {
            left += cost;
        }
    }
    let over = (admitted + left).saturating_sub(BUDGET);
    assert!(admitted + left >= BUDGET, "{admitted} and {left}: tokens were lost");
    assert!(over <= in_last_second, "{over} too many; {in_last_second} passed in the last second");
    assert!(server.stop().success());
}
