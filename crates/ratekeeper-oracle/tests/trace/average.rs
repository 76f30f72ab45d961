use ratekeeper_oracle::trace::{Rule, Said, Seen, Why};
use ratekeeper_testkit::random::Random;

use super::{exactly, seen, shuffle};

const START: u64 = 1_000_000_000_000;
const TOLD: usize = 3;

/// The formula of the document, to the letter.
struct Model {
    limit: f64,
    period: f64,
    strict: bool,
    state: Option<(f64, f64)>,
}

impl Model {
    fn allows(&mut self, at: u64) -> bool {
        let now = as_f64(at) / 1e9;
        let rate = self.state.map_or(0.0, |(time, old)| {
            let x = (now - time).max(1e-9) / self.period;
            let a = (-x).exp();
            (1.0 - a) / x + a * old
        });
        let over = rate >= self.limit;
        if !over || self.strict {
            self.state = Some((now, rate));
        }
        !over
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of these tests are below 2^53")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn rule(limit: f64, strict: bool) -> Rule {
    Rule::Average { limit, period_secs: 2.0, strict }
}

#[test]
fn what_the_formula_answered_is_never_held_against_it() {
    let mut random = Random::new(6);
    let (mut denials, mut all) = (0, 0);
    for round in 0..2_000 {
        let (strict, limit) = (round % 2 == 0, as_f64(random.between(1, 30)));
        let mut model = Model { limit, period: 2.0, strict, state: None };
        for use_before in 0..random.below(60) {
            model.allows(START - 10_000_000_000 + use_before * 100_000_000);
        }
        let (mut now, mut asks) = (START, Vec::new());
        let (gap, late) =
            (random.log_between(1, 1_000_000_000), random.log_between(1, 200_000_000));
        now += late;
        for _ in 0..random.between(1, 120) {
            now += random.below(gap);
            let allowed = model.allows(now);
            denials += u64::from(!allowed);
            all += 1;
            asks.push(seen(now, allowed, &mut random, late - 1));
        }
        shuffle(&mut asks, &mut random);
        let findings = rule(limit, strict).judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 0), "{limit} {strict}");
    }
    assert!(denials > all / 10 && denials < all * 9 / 10, "{denials} of {all}");
}

#[test]
fn a_server_may_look_at_its_clock_before_it_comes_to_the_average() {
    let mut random = Random::new(7);
    let mut denials = 0;
    for round in 0..2_000 {
        let (strict, limit) = (round % 2 == 0, as_f64(random.between(1, 30)));
        let mut model = Model { limit, period: 2.0, strict, state: None };
        let (gap, skew) =
            (random.log_between(1, 300_000_000), random.log_between(1, 2_000_000_000));
        let (mut now, mut asks) = (START + skew, Vec::new());
        for _ in 0..random.between(1, 120) {
            now += random.below(gap);
            // Two workers: one is late, the other is not.
            let stamp = if random.chance(1, 2) { now } else { now - random.below(skew) };
            let allowed = model.allows(stamp);
            denials += u64::from(!allowed);
            let said = if allowed { Said::Allowed } else { Said::Denied };
            asks.push(Seen { sent: stamp, received: now, said });
        }
        let findings = rule(limit, strict).judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (0, 0), "{limit} {strict}");
    }
    assert!(denials > 10_000, "both kinds of answers were judged: {denials}");
}

#[test]
fn a_limit_of_nothing_allows_nothing() {
    for limit in [0.0, -1.0] {
        let asks = [exactly(START, Said::Denied), exactly(START + 1, Said::Allowed)];
        let findings = rule(limit, false).judge(START, &asks, TOLD);
        assert_eq!((findings.over_admissions, findings.wrong_denials), (1, 0));
        assert_eq!(findings.over[0].why, Why::Never);
    }
}

#[test]
fn more_at_once_than_the_limit_are_found() {
    for strict in [false, true] {
        let ask = Seen { sent: START, received: START + 1_000_000, said: Said::Allowed };
        let findings = rule(22.0, strict).judge(START, &[ask; 30], TOLD);
        // Twenty-two pass, and then one finds a rate a little below the limit.
        assert_eq!(findings.over_admissions, 7, "{strict}");
        assert!(findings.over[0].why.to_string().starts_with("the rate was at least 22."));
    }
}

#[test]
fn refused_uses_count_where_the_rule_is_strict() {
    let mut asks: Vec<Seen> = (0..40).map(|at| exactly(START + at, Said::Denied)).collect();
    asks.push(exactly(START + 100, Said::Allowed));
    assert_eq!(rule(22.0, true).judge(START, &asks, TOLD).over_admissions, 1);
    assert_eq!(rule(22.0, false).judge(START, &asks, TOLD).over_admissions, 0);
}

#[test]
fn a_denial_far_below_the_limit_is_found_once_the_past_has_decayed() {
    let later = START + 20_000_000_000;
    let denied = exactly(later, Said::Denied);
    let first = exactly(START, Said::Allowed);
    assert_eq!(rule(22.0, false).judge(START, &[denied], TOLD).wrong_denials, 1);
    assert_eq!(rule(22.0, true).judge(START, &[denied], TOLD).wrong_denials, 0, "who knows");
    assert_eq!(rule(22.0, true).judge(START, &[first, denied], TOLD).wrong_denials, 1);
    let soon = exactly(START + 1_000, Said::Denied);
    assert_eq!(rule(22.0, false).judge(START, &[soon], TOLD).wrong_denials, 0);
    // The limit is a rate of 1 or less at once: one more use may have reached it.
    assert_eq!(rule(1.0, false).judge(START, &[denied], TOLD).wrong_denials, 0);
}
