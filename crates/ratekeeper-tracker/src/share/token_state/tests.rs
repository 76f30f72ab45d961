use ratekeeper_time::{Moment, Nanos};

use super::{SharedToken, Step, TokenAnswer, TokenAsk, TokenState};
use crate::pace::Pace;

const FIFTY: Pace = Pace::new(50, Nanos::from_secs(1));

/// So much after a term began.
fn at(ms: u64) -> Moment {
    Moment::from_nanos((600_000 + ms) * 1_000_000)
}

/// What a server that was started long ago answers at a moment.
fn answer(ms: u64, is_granted: bool, left: u32) -> TokenAnswer {
    TokenAnswer { is_granted, left, there: at(ms), started: Moment::from_nanos(7) }
}

/// One that has looked at the clock.
fn begun() -> TokenState {
    let mut state = TokenState::new(FIFTY, 12);
    assert_eq!(state.step(0, at(0)), Step::Ask(TokenAsk::Look));
    state.answered(&TokenAsk::Look, answer(0, true, 49), at(0), at(0));
    state
}

fn ask(step: Step) -> TokenAsk {
    match step {
        Step::Ask(ask) => ask,
        Step::Idle(until) => panic!("idle until {until:?}"),
    }
}

/// What is given back, and what is asked for.
fn exchanged(ask: &TokenAsk) -> (u32, u32) {
    match ask {
        TokenAsk::Exchange { refund, spend, .. } => (*refund, *spend),
        other => panic!("{other:?}"),
    }
}

/// Takes one token.
fn take(state: &mut TokenState, ms: u64) -> SharedToken {
    let asked = ask(state.step(1, at(ms)));
    state.answered(&asked, answer(ms, true, 40), at(ms), at(ms));
    state.take(at(ms)).unwrap()
}

#[test]
fn what_nobody_took_and_what_was_never_sent_goes_back_at_once() {
    let mut state = begun();
    let token = take(&mut state, 0);
    state.give_back(token);
    let asked = ask(state.step(8, at(0)));
    assert_eq!(exchanged(&asked), (1, 8), "as many as there are known to be");
    state.answered(&asked, answer(0, true, 30), at(0), at(0));
    assert!(state.take(at(0)).is_some());
    assert_eq!(exchanged(&ask(state.step(0, at(0)))), (7, 0));
}

#[test]
fn a_token_goes_back_a_window_after_the_answer() {
    let mut state = begun();
    let token = take(&mut state, 0);
    state.settle(token, Nanos::ZERO, at(100));
    assert_eq!(state.step(0, at(100)), Step::Idle(Some(at(1_100))));
    assert_eq!(exchanged(&ask(state.step(0, at(1_100)))), (1, 0));
}

#[test]
fn when_a_term_begins_what_is_held_is_taken_of_it_too() {
    let mut state = begun();
    let token = take(&mut state, 0);
    assert_eq!(state.step(0, at(10)), Step::Idle(Some(at(1_500))));
    let renewed = ask(state.step(5, at(1_501)));
    let TokenAsk::Renew { terms, tokens } = &renewed else { panic!("{renewed:?}") };
    assert_eq!((terms.iter().collect::<Vec<_>>(), *tokens), (vec![401], 1));
    state.answered(&renewed, answer(1_501, true, 49), at(1_501), at(1_501));
    state.give_back(token);
    let TokenAsk::Exchange { terms, .. } = ask(state.step(0, at(1_502))) else { panic!() };
    assert_eq!(terms.iter().collect::<Vec<_>>(), [399, 400, 401]);
}

/// It stood still, perhaps with the machine it is on, and others have its token.
#[test]
fn what_was_held_for_too_long_without_being_renewed_is_asked_for_once_more() {
    let mut state = begun();
    let _flying = take(&mut state, 0);
    let asked = ask(state.step(0, at(4_500)));
    assert_eq!(exchanged(&asked), (0, 1));
    state.answered(&asked, answer(4_500, true, 40), at(4_500), at(4_500));
    assert_eq!(state.take(at(4_500)), None, "it is for the request that is in flight");
}

#[test]
fn a_server_that_was_started_meanwhile_is_told_what_is_held_and_has_to_become_old() {
    let mut state = begun();
    let _flying = take(&mut state, 0);
    // Nobody has noticed that it was away.
    let asked = ask(state.step(1, at(200)));
    let young = |ms| TokenAnswer { started: at(150), ..answer(ms, true, 40) };
    state.answered(&asked, young(200), at(200), at(200));
    assert_eq!(state.take(at(200)), None);
    let asked = ask(state.step(5, at(201)));
    assert_eq!(exchanged(&asked), (0, 1), "only what is in flight");
    state.answered(&asked, young(201), at(201), at(201));
    assert_eq!(state.take(at(201)), None);
    assert_eq!(state.opens_at(at(201)), at(3_150));
    for (ms, is_open) in [(3_149, false), (3_150, true)] {
        // Terms begin meanwhile.
        while let Step::Ask(asked @ TokenAsk::Renew { .. }) = state.step(5, at(ms)) {
            state.answered(&asked, young(ms), at(ms), at(ms));
        }
        assert_eq!(matches!(state.step(5, at(ms)), Step::Ask(_)), is_open, "{ms}");
    }
}

#[test]
fn who_has_no_share_of_its_own_waits_for_the_server() {
    let mut state = TokenState::new(FIFTY, 0);
    state.failed(at(0));
    for ms in 0..5_000 {
        assert_eq!(state.take(at(ms)), None);
        if let Step::Ask(asked) = state.step(1, at(ms)) {
            assert_eq!(asked, TokenAsk::Look);
            state.failed(at(ms));
        }
    }
    assert!(state.opens_at(at(5_000)) >= at(5_000));
}

#[test]
fn who_closes_gives_back_what_it_holds_and_takes_nothing_more() {
    let mut state = begun();
    let token = take(&mut state, 0);
    state.close();
    assert!(!state.is_closed(), "a request is in flight");
    state.settle(token, Nanos::ZERO, at(100));
    assert_eq!(state.step(3, at(200)), Step::Idle(Some(at(1_100))));
    let asked = ask(state.step(3, at(1_100)));
    assert_eq!(exchanged(&asked), (1, 0));
    assert!(!state.is_closed());
    state.answered(&asked, answer(1_100, true, 50), at(1_100), at(1_100));
    assert!(state.is_closed());
}
