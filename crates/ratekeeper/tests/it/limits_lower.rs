//! Which of two limits is the lower one.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::algorithm::gcra::{Tat, Verdict, spend};
use ratekeeper::limits::Limit;
use ratekeeper::{Moment, Nanos};
use ratekeeper_testkit::random::Random;

/// So few numbers that equal bursts and rates come often.
fn some_limit(random: &mut Random) -> Limit {
    let period = Nanos::new(u128::from(random.between(1, 6)) * 1_000_000_007);
    Limit::new(random.between(1, 5), random.between(1, 6), period).unwrap()
}

/// A client of a limit.
struct Client<'a> {
    limit: &'a Limit,
    tat: Tat,
}

impl<'a> Client<'a> {
    fn of(limit: &'a Limit) -> Self {
        Self { limit, tat: Tat::FULL }
    }

    fn passes(&mut self, cost: u64, now: Moment) -> bool {
        let (after, outcome) = spend(self.limit.rule(), self.tat, cost, now);
        self.tat = after;
        outcome.verdict == Verdict::Allow
    }
}

/// Whether random traffic that `higher` allows is allowed by `limit` too.
fn allows_all_of(limit: &Limit, higher: &Limit, random: &mut Random) -> bool {
    let (mut one, mut other) = (Client::of(limit), Client::of(higher));
    let mut now = Moment::from_nanos(1_000_000_000);
    (0..200).all(|_| {
        now = now.after(Nanos::new(random.below(1_500_000_000).into()));
        let cost = random.between(1, higher.burst());
        !other.passes(cost, now) || one.passes(cost, now)
    })
}

/// Whether somebody is denied who takes all that `higher` ever gives.
fn denies_who_takes_all_of(limit: &Limit, higher: &Limit) -> bool {
    let (mut one, mut other) = (Client::of(limit), Client::of(higher));
    let (step, rate) = higher.rule().emission_interval();
    let refill = u128::from(step) * u128::from(higher.burst());
    let refill = Nanos::new(refill.div_ceil(rate.into()));
    let mut now = Moment::from_nanos(1_000_000_000);
    (0..1_000).any(|_| {
        assert!(other.passes(higher.burst(), now), "it is full");
        let is_denied = !one.passes(higher.burst(), now);
        now = now.after(refill);
        is_denied
    })
}

#[test]
fn under_a_lower_limit_somebody_is_denied_and_under_any_other_nobody() {
    let mut random = Random::new(11);
    let mut lower = 0;
    for _ in 0..5_000 {
        let (a, b) = (some_limit(&mut random), some_limit(&mut random));
        if a.is_lower_than(&b) {
            assert!(denies_who_takes_all_of(&a, &b), "{a} against {b}");
            lower += 1;
        } else {
            assert!(allows_all_of(&a, &b, &mut random), "{a} against {b}");
        }
        let is_same = !a.is_lower_than(&b) && !b.is_lower_than(&a);
        assert_eq!(is_same, a.has_effect_of(&b), "{a} and {b}");
    }
    assert!((1_000..4_500).contains(&lower), "both come up: {lower}");
}

#[test]
fn rates_are_compared_exactly() {
    let limit = |count, nanos| Limit::new(9, count, Nanos::new(nanos)).unwrap();
    let (fast, slow) = (limit((1 << 32) - 1, 1 << 62), limit((1 << 32) - 3, (1 << 62) - 1));
    assert!(slow.is_lower_than(&fast) && !fast.is_lower_than(&slow));
    // They differ by less than a double can tell.
    let (fast, slow) = (limit(1, (1 << 62) - 1), limit(1, 1 << 62));
    assert!(slow.is_lower_than(&fast) && !fast.is_lower_than(&slow));
}
