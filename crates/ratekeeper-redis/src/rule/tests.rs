use ratekeeper_testkit::random::Random;

use super::*;

fn engine(burst: u64, count: u64, period: Nanos) -> gcra::Rule {
    gcra::Rule::new(burst, count, period).unwrap()
}

#[test]
fn an_ordinary_rule_is_kept_exactly() {
    let rule = Rule::new(&engine(20, 3, Nanos::from_secs(1))).unwrap();
    assert_eq!(rule.emission_interval(), (1_000_000, 3));
    assert_eq!(rule.to_string(), "1000000/3 20");
    assert!(rule.is_exact());
}

#[test]
fn nanoseconds_become_fractions_of_a_microsecond() {
    let rule = Rule::new(&engine(5, 1, Nanos::new(1_500))).unwrap();
    assert_eq!(rule.emission_interval(), (3, 2));
}

#[test]
fn a_burst_that_takes_longer_than_doubles_count_is_refused_in_words() {
    let error = Rule::new(&engine(1 << 32, 1, Nanos::from_secs(86_400))).unwrap_err();
    assert!(error.to_string().contains("285 years"), "{error}");
}

#[test]
fn a_rule_that_is_rounded_gives_every_token_back_late_but_less_than_a_tick_late() {
    let mut random = Random::new(7);
    let mut rounded = 0;
    for _ in 0..20_000 {
        let burst = random.log_between(1, 1 << 32);
        let count = random.log_between(1, 1 << 32);
        let period = random.log_between(1, 1 << 62);
        let rule = engine(burst, count, Nanos::new(period.into()));
        let (nanos, per_nanos) = rule.emission_interval();
        let Ok(kept) = Rule::new(&rule) else {
            let micros = u128::from(nanos) * u128::from(burst) / u128::from(per_nanos) / 1_000;
            assert!(micros + u128::from(burst) >= TICKS_MAX.into(), "{rule:?}");
            continue;
        };
        let (step, rate) = kept.emission_interval();
        assert!(u128::from(burst) * u128::from(step) <= TICKS_MAX.into(), "{rule:?}");
        // step / rate - nanos / (1000 * per_nanos), over the common denominator.
        let ours = u128::from(step) * 1_000 * u128::from(per_nanos);
        let exact = u128::from(nanos) * u128::from(rate);
        let late = ours.checked_sub(exact).unwrap_or_else(|| panic!("{rule:?} gives early"));
        assert!(late < 1_000 * u128::from(per_nanos), "{rule:?} is late by a tick or more");
        assert!(late == 0 || !kept.is_exact());
        rounded += u32::from(!kept.is_exact());
    }
    assert!(rounded > 1_000, "only {rounded} were rounded");
}
