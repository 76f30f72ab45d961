//! What is seen of what requests take.

use ratekeeper_time::Moment;

use super::{CostEstimate, Payer, Standing};
use crate::budget::Heard;
use crate::length::Length;

const ROUTE: u64 = 1;
const LIMIT: u64 = 10_000;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn heard(sent: u64, now: u64) -> Heard {
    let none = Length::ZERO;
    Heard {
        sent: at(sent),
        now: at(now),
        credit: none,
        unsaid: none,
        longest: none,
        date_secs: None,
    }
}

/// An answer to a request beside so many others that says what is left of [`LIMIT`].
fn hear(estimate: &mut CostEstimate, left: u64, in_flight: u64, (sent, now): (u64, u64)) {
    estimate.land(at(sent));
    let payer =
        Payer { route: ROUTE, is_stated: false, is_refused: false, may_lack: false, in_flight };
    let began = Moment::EPOCH;
    let standing = Standing { left, limit: Some(LIMIT), refill: None, began };
    estimate.learn(payer, &standing, &heard(sent, now));
}

/// The mean, without the doubt that few requests leave.
fn mean(estimate: &CostEstimate) -> u64 {
    super::whole(estimate.all.fine)
}

#[test]
fn answers_in_any_order_tell_what_each_request_took() {
    let mut estimate = CostEstimate::default();
    hear(&mut estimate, 990, 0, (0, 10));
    // Four are sent together, and counted as 980, 970, 960, 950.
    hear(&mut estimate, 960, 3, (20, 30));
    hear(&mut estimate, 980, 2, (20, 31));
    assert_eq!(estimate.all.of, 0, "another may have been counted before them");
    hear(&mut estimate, 950, 1, (20, 32));
    hear(&mut estimate, 970, 0, (20, 33));
    assert_eq!((estimate.all.of, mean(&estimate)), (4, 10));
    assert_eq!(estimate.margin(1), 0, "all took the same");
}

#[test]
fn what_took_more_lately_is_kept_back() {
    let mut estimate = CostEstimate::default();
    let mut left = LIMIT;
    for n in 0..100 {
        left -= if n % 10 == 9 { 19 } else { 9 };
        hear(&mut estimate, left, 0, (n * 10, n * 10 + 5));
    }
    assert!((9..14).contains(&mean(&estimate)), "{}", mean(&estimate));
    assert!((9..14).contains(&estimate.margin(1)), "{}", estimate.margin(1));
    assert!(estimate.margin(9) > estimate.margin(1));
}

#[test]
fn nothing_said_is_no_reason_to_send_all_at_once() {
    let mut estimate = CostEstimate::default();
    hear(&mut estimate, LIMIT - 100, 0, (0, 10));
    assert_eq!(estimate.of(ROUTE), 1_200);
    hear(&mut estimate, LIMIT - 110, 0, (20, 30));
    assert_eq!((estimate.of(ROUTE), estimate.margin(1), estimate.margin(2)), (40, 0, 120));
}

/// An answer that was refused while so much was left.
fn refuse(estimate: &mut CostEstimate, left: u64, may_lack: bool) {
    estimate.land(at(5_000));
    let payer = Payer { route: ROUTE, is_stated: false, is_refused: true, may_lack, in_flight: 0 };
    let standing = Standing { left, limit: Some(LIMIT), refill: None, began: Moment::EPOCH };
    estimate.learn(payer, &standing, &heard(5_000, 5_010));
}

#[test]
fn what_another_limit_refused_is_no_cost() {
    let seen = || {
        let mut estimate = CostEstimate::default();
        for n in 0..100 {
            hear(&mut estimate, LIMIT - 50 * (n + 1), 0, (n * 10, n * 10 + 5));
        }
        estimate
    };
    for (may_lack, margin) in [(true, 56..=57), (false, 0..=0)] {
        let mut estimate = seen();
        refuse(&mut estimate, 50, may_lack);
        assert!(margin.contains(&estimate.margin(1)), "{}", estimate.margin(1));
    }
}

#[test]
fn however_much_one_request_took_most_of_the_budget_can_be_used() {
    let mut estimate = CostEstimate::default();
    for n in 0..50 {
        hear(&mut estimate, LIMIT - 50 * (n + 1), 0, (n * 10, n * 10 + 5));
    }
    hear(&mut estimate, 0, 0, (1_000, 1_005));
    assert_eq!(estimate.margin(1), LIMIT / 8);
}

#[test]
fn of_more_routes_than_have_a_mean_of_their_own_that_of_all_is_reserved() {
    let mut estimate = CostEstimate::default();
    let mut left = LIMIT;
    for n in 0..600 {
        left = left.checked_sub(10).unwrap_or(LIMIT);
        estimate.land(at(n * 10));
        let payer = Payer {
            route: n % 40,
            is_stated: false,
            is_refused: false,
            may_lack: false,
            in_flight: 0,
        };
        let began = if left == LIMIT { at(n * 10) } else { estimate.began };
        let standing = Standing { left, limit: Some(LIMIT), refill: None, began };
        estimate.learn(payer, &standing, &heard(n * 10, n * 10 + 5));
    }
    // Of those that have one it is in doubt, for each was sent only a few times.
    assert_eq!([30, 39, 1_000].map(|route| estimate.of(route)), [10; 3]);
}
