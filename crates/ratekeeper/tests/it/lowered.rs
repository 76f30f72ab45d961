//! A limit that is lowered for a while forgives nothing, however often it changes.

#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Reader, Section, Writer};
use ratekeeper::store::{MEMORY_MIN, Secret};
use ratekeeper::{Decision, Limiter, Moment, Nanos, Request};
use ratekeeper_testkit::oracle::{Answer, Bucket};
use ratekeeper_testkit::random::Random;
use ratekeeper_testkit::terms::Terms;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
/// The id that has an override, and one that has the default.
const IDS: [&str; 2] = ["ada", "bob"];

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn per_minute(tokens: u64) -> Terms {
    Terms { burst: tokens, count: tokens, period_ns: 60 * SECOND }
}

/// The limits under which the ids have these terms.
fn limits([ada, bob]: [Terms; 2]) -> Limits {
    let body = |terms: Terms| {
        let Terms { burst, count, period_ns } = terms;
        format!("{{burst: {burst}, count: {count}, period: {period_ns}ns}}")
    };
    let (defaults, overrides) =
        (format!("A: {}", body(bob)), format!("A:{}: {}", IDS[0], body(ada)));
    let overrides = Source { name: "overrides.yaml", text: &overrides };
    let defaults = Source { name: "limits.yaml", text: &defaults };
    Limits::parse(&defaults, Some(&overrides)).unwrap()
}

fn limiter(terms: [Terms; 2]) -> Limiter {
    Limiter::with_secret(limits(terms), MEMORY_MIN, Secret::new(1, 2)).unwrap()
}

fn restarted(limiter: &Limiter, terms: [Terms; 2], now: Moment) -> Limiter {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    limiter.save(&mut writer, now).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Limits));
    Limiter::restore(limits(terms), MEMORY_MIN, &mut reader, now).unwrap()
}

fn answer(decision: Decision) -> Answer {
    let Decision { allowed, remaining, retry_in, reset_in, .. } = decision;
    Answer { allowed, remaining, retry_in: retry_in.get(), reset_in: reset_in.get() }
}

#[test]
fn a_limit_lowered_for_a_moment_leaves_nothing_of_what_was_spent() {
    let (wide, narrow) = (per_minute(1_000), Terms { burst: 1, ..per_minute(1_000) });
    let limiter = limiter([wide, wide]);
    for id in IDS {
        assert!(limiter.spend("A", id, 1_000, at(START)).unwrap().allowed);
    }
    let later = START + 2 * SECOND;
    limiter.reload(limits([narrow, narrow]), at(START)).unwrap();
    limiter.reload(limits([wide, wide]), at(later)).unwrap();
    for id in IDS {
        // What came back in two seconds.
        assert_eq!(limiter.check("A", id, 0, at(later)).unwrap().remaining, 33);
    }
}

#[test]
fn a_bucket_that_owes_more_than_it_shows_is_neither_full_nor_forgotten() {
    let (wide, narrow) = (per_minute(1_000), per_minute(10));
    let limiter = limiter([wide, wide]);
    assert!(limiter.spend("A", "bob", 1_000, at(START)).unwrap().allowed);
    limiter.reload(limits([narrow, narrow]), at(START)).unwrap();
    let later = START + 120 * SECOND;
    assert_eq!(limiter.check("A", "bob", 0, at(later)).unwrap().reset_in, Nanos::ZERO);
    let again = restarted(&limiter, [narrow, narrow], at(later));
    again.reload(limits([wide, wide]), at(later)).unwrap();
    assert_eq!(again.check("A", "bob", 0, at(later)).unwrap().remaining, 20);
    // And raised while it was stopped.
    let again = restarted(&limiter, [wide, wide], at(later));
    assert_eq!(again.check("A", "bob", 0, at(later)).unwrap().remaining, 20);
    let over = START + 6_000 * SECOND;
    let again = restarted(&limiter, [narrow, narrow], at(over));
    assert_eq!(again.held().keys, 0, "all has come back");
}

#[test]
fn a_reset_forgives_also_what_is_hidden() {
    let (wide, narrow) = (per_minute(1_000), per_minute(10));
    let limiter = limiter([wide, wide]);
    assert!(limiter.spend("A", "bob", 1_000, at(START)).unwrap().allowed);
    limiter.reload(limits([narrow, narrow]), at(START)).unwrap();
    assert!(limiter.reset("A", "bob", at(START)).unwrap().allowed);
    limiter.reload(limits([wide, wide]), at(START)).unwrap();
    assert_eq!(limiter.check("A", "bob", 0, at(START)).unwrap().remaining, 1_000);
}

#[test]
fn an_explanation_tells_what_is_owed_besides() {
    let (wide, narrow) = (per_minute(1_000), per_minute(10));
    let limiter = limiter([wide, wide]);
    assert!(limiter.spend("A", "bob", 1_000, at(START)).unwrap().allowed);
    limiter.reload(limits([narrow, narrow]), at(START)).unwrap();
    let told = limiter.explain("A", "bob", 1, at(START)).unwrap();
    assert_eq!(told.hidden, 990);
    assert!(told.to_string().contains("990 more tokens are owed"), "{told}");
    let told = limiter.explain("A", "ada", 1, at(START)).unwrap();
    assert!(told.hidden == 0 && !told.to_string().contains("besides"), "{told}");
}

/// What no history may break: whoever was admitted so many tokens had at most the largest burst that
/// was in force so far, and what came back.
struct Purse {
    /// Tokens times the period; all rates have the same.
    most: u128,
    had: u128,
    burst: u64,
    last: u64,
}

impl Purse {
    fn pass(&mut self, count: u64, now: u64) {
        self.most += u128::from(count) * u128::from(now - self.last);
        self.last = now;
    }

    fn admit(&mut self, cost: u64, period: u64) {
        self.had += u128::from(cost) * u128::from(period);
        let allowed = self.most + u128::from(self.burst) * u128::from(period);
        assert!(self.had <= allowed, "{} of {allowed}", self.had);
    }
}

/// Few enough that histories meet again, of which some leave a part of a token, and one is so uneven
/// that a cell has little room to hide anything.
fn some_terms(random: &mut Random) -> Terms {
    // Some never come again, so that the rules of old leave.
    let burst = random.log_between(1, 100_000);
    let burst = random.pick(&[1, 2, 10, 11, 300, 1_000, 70_000, burst, burst, burst]);
    let count = random.pick(&[1, 3, 10, 17, 1_000, 999_999_937]);
    Terms { burst, count, period_ns: 60 * SECOND }
}

#[test]
fn whatever_limits_are_changed_to_and_fro_the_oracle_agrees_and_nobody_gains() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut terms = [some_terms(&mut random), some_terms(&mut random)];
        let mut before = terms;
        let mut limiter = limiter(terms);
        let mut buckets = terms.map(Bucket::new);
        let mut purses = terms.map(|of| Purse { most: 0, had: 0, burst: of.burst, last: START });
        let mut now = START;
        for step in 0..1_500 {
            let who = random.index(2);
            let story = || format!("seed {seed}, step {step}, {} by {}", IDS[who], terms[who]);
            let pause = random.log_between(1, 300 * SECOND);
            let pause = random.pick(&[0, 0, 0, 1, SECOND, pause]);
            for (purse, of) in purses.iter_mut().zip(terms) {
                purse.pass(of.count, now + pause);
            }
            now += pause;
            let cost = random.between(1, terms[who].burst);
            let decision = match random.below(20) {
                0..2 => {
                    // Back to what was before, as often as to something else.
                    let next =
                        if random.chance(1, 2) { before[who] } else { some_terms(&mut random) };
                    (before[who], terms[who]) = (terms[who], next);
                    buckets[who].change(next, now);
                    purses[who].burst = purses[who].burst.max(next.burst);
                    if random.chance(1, 4) {
                        limiter = restarted(&limiter, terms, at(now));
                    } else {
                        limiter.reload(limits(terms), at(now)).unwrap();
                    }
                    continue;
                }
                2 => limiter.refund("A", IDS[who], cost, at(now)).inspect(|&it| {
                    // Nobody refunds what was not spent, or the purse would not hold.
                    let expected = buckets[who].refund(cost, now).unwrap();
                    purses[who].most += u128::from(cost) * u128::from(60 * SECOND);
                    assert_eq!(answer(it), expected, "{}", story());
                }),
                3 => {
                    let asks = [Request::new("A", IDS[0], 1), Request::new("A", IDS[1], 1)];
                    let merged = limiter.transaction(&asks, at(now)).unwrap();
                    let own = [0, 1].map(|who: usize| buckets[who].check(1, now).unwrap());
                    assert_eq!(merged.decision.allowed, own.iter().all(|it| it.allowed));
                    if merged.decision.allowed {
                        for who in [0, 1] {
                            buckets[who].spend(1, now).unwrap();
                            purses[who].admit(1, 60 * SECOND);
                        }
                    }
                    continue;
                }
                _ => limiter.spend("A", IDS[who], cost, at(now)).inspect(|&it| {
                    assert_eq!(answer(it), buckets[who].spend(cost, now).unwrap(), "{}", story());
                    if it.allowed {
                        purses[who].admit(cost, 60 * SECOND);
                    }
                }),
            };
            let _ = decision.unwrap();
        }
    }
}
