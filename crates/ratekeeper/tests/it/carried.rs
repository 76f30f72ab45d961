//! Asks that bring their rule along are answered as those of a limit that has just got it.

#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod forgetting;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use ratekeeper::algorithm::gcra::Rule;
use ratekeeper::limiter::{
    CARRIED, CARRIED_RULES_MAX, Decided, Ruling, TRANSACTION_ASKS_MAX, TooManyRules, Witness,
};
use ratekeeper::limits::{ID_BYTES_MAX, Limits, Source};
use ratekeeper::store::MEMORY_MIN;
use ratekeeper::store::saved::{Reader, Section, Writer};
use ratekeeper::{Batch, Carried, Decision, Limiter, Mistake, Mode, Moment, Nanos, Request};
use ratekeeper_testkit::random::Random;

const START: Moment = Moment::from_nanos(1_700_000_000_000_000_000);
const SECOND: u64 = 1_000_000_000;
const KEYS: [&str; 4] = ["K0", "K1", "K2", "K3"];
const MODES: [Mode; 3] = [Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly];

/// How much is allowed, as a limits file and as a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    burst: u64,
    count: u64,
    nanos: u64,
}

impl Terms {
    /// Often one of a few, so that they return.
    fn sample(random: &mut Random) -> Self {
        let (any, length) = (1 + random.below(100), 1 + random.below(1 << 40));
        let burst = random.pick(&[1, 3, 10, 1_000, 1 << 32]);
        let count = random.pick(&[1, 3, 7, any]);
        let nanos = random.pick(&[11, SECOND / 1_000, SECOND, 60 * SECOND, length]);
        Self { burst, count, nanos }
    }

    fn rule(self) -> Rule {
        Rule::new(self.burst, self.count, Nanos::new(self.nanos.into())).unwrap()
    }
}

/// Nothing is limited by name.
fn nothing() -> Limiter {
    Limiter::with_memory(Limits::new(), MEMORY_MIN).unwrap()
}

fn limits(terms: &[Terms; KEYS.len()]) -> Limits {
    let mut text = String::new();
    for (name, Terms { burst, count, nanos }) in KEYS.iter().zip(terms) {
        writeln!(text, "{name}: {{burst: {burst}, count: {count}, period: {nanos}ns}}").unwrap();
    }
    Limits::parse(&Source { name: "limits.yaml", text: &text }, None).unwrap()
}

fn later(now: Moment, random: &mut Random) -> Moment {
    let pause = random.pick(&[0, 0, 1, 5, SECOND / 1_000, SECOND, 10 * SECOND]);
    now.after(Nanos::new(pause.into()))
}

/// What was answered; of a mistake what does not name the limit.
type Answer = Result<Vec<Decision>, String>;

fn ask(limiter: &Limiter, kind: u64, asks: &[Request<'_>], now: Moment) -> Answer {
    let merged = match kind {
        0 => limiter.refund_all(asks, now),
        1 => limiter.reset_all(asks, now),
        2..5 => limiter.transaction(asks, now),
        _ => {
            let mut batch = Batch::default();
            let answers = limiter.batch(&mut batch, asks, now);
            return Ok(answers.decisions().map(Option::unwrap).collect());
        }
    };
    merged.map(|merged| merged.each.to_vec()).map_err(|mistake| match mistake {
        Mistake::CostAboveBurst { cost, burst, .. } => format!("{cost} of {burst}"),
        mistake => panic!("{mistake}"),
    })
}

/// A limiter that is asked by keys and rules, and one with a limit for each key.
struct Pair {
    carrying: Limiter,
    named: Limiter,
    terms: [Terms; KEYS.len()],
}

impl Pair {
    fn new(random: &mut Random) -> Self {
        let terms = KEYS.map(|_| Terms::sample(random));
        let named = Limiter::with_memory(limits(&terms), MEMORY_MIN).unwrap();
        Self { carrying: nothing(), named, terms }
    }

    /// Asks for one key or two, now and then by new rules, and compares.
    fn step(&mut self, random: &mut Random, now: Moment) {
        let first = random.index(KEYS.len());
        let keys = [first, (first + 1) % KEYS.len()];
        let keys = &keys[..random.pick(&[1, 2])];
        if random.chance(1, 4) {
            for key in keys {
                self.terms[*key] = Terms::sample(random);
            }
            self.named.reload(limits(&self.terms), now).unwrap();
        }
        let of = |_| (random.pick(&[0, 1, 1, 2, 3, 9, 1 << 31]), random.pick(&MODES));
        let asked = keys.iter().map(of).collect::<Vec<_>>();
        self.compare(keys, random.below(10), now, |n| asked[n]);
    }

    fn compare(&self, keys: &[usize], kind: u64, now: Moment, of: impl Fn(usize) -> (u64, Mode)) {
        let (mut carried, mut named) = (Vec::new(), Vec::new());
        for (n, key) in keys.iter().enumerate() {
            let (cost, mode) = of(n);
            let rule = self.carrying.carry(self.terms[*key].rule(), START).unwrap();
            carried.push(Request::carried(rule, KEYS[*key], cost).with_mode(mode));
            named.push(Request::new(KEYS[*key], "x", cost).with_mode(mode));
        }
        let (answer, expected) =
            (ask(&self.carrying, kind, &carried, now), ask(&self.named, kind, &named, now));
        assert_eq!(answer, expected, "{kind} of {named:?} under {:?}", self.terms);
    }
}

#[test]
fn every_answer_is_that_of_a_named_limit_which_was_reloaded_to_the_rule_at_that_moment() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (mut pair, mut now) = (Pair::new(&mut random), START);
        for _ in 0..1_500 {
            now = later(now, &mut random);
            pair.step(&mut random, now);
        }
    }
}

#[test]
fn a_restart_and_a_reload_change_no_answer() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (mut pair, mut now) = (Pair::new(&mut random), START);
        for _ in 0..1_500 {
            now = later(now, &mut random);
            pair.step(&mut random, now);
            if random.chance(1, 50) {
                let file = save(&pair.carrying, now);
                now = later(now, &mut random);
                pair.carrying = restore(&file, now);
            }
            if random.chance(1, 50) {
                pair.carrying
                    .reload(limits(&KEYS.map(|_| Terms::sample(&mut random))), now)
                    .unwrap();
            }
        }
    }
}

fn save(limiter: &Limiter, at: Moment) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    limiter.save(&mut writer, at).unwrap();
    writer.finish().unwrap();
    file
}

fn restore(file: &[u8], at: Moment) -> Limiter {
    let mut reader = Reader::new(file).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::Limits));
    let limiter = Limiter::restore(Limits::new(), MEMORY_MIN, &mut reader, at).unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
    limiter
}

fn hourly(burst: u64) -> Rule {
    Rule::new(burst, 1, Nanos::from_secs(3600)).unwrap()
}

fn one(limiter: &Limiter, carried: Carried, key: &str, cost: u64) -> Decision {
    limiter.transaction(&[Request::carried(carried, key, cost)], START).unwrap().decision
}

/// Has as many rules known as there can be, of bursts from 1.
fn fill(limiter: &Limiter) {
    for burst in 1..=CARRIED_RULES_MAX as u64 {
        limiter.carry(hourly(burst), START).unwrap();
    }
    assert_eq!(limiter.carry(hourly(CARRIED_RULES_MAX as u64 + 1), START), Err(TooManyRules));
}

#[test]
fn rules_are_bounded_and_those_that_are_known_go_on() {
    let limiter = nothing();
    let known = limiter.carry(hourly(7), START).unwrap();
    let _ = one(&limiter, known, "ada", 7);
    fill(&limiter);
    let refused = limiter.carry(hourly(1 << 20), START).unwrap_err().to_string();
    assert!(refused.starts_with("asks came with 65536 different rules"), "{refused}");
    for known in [known, limiter.carry(hourly(7), START).unwrap()] {
        assert!(!one(&limiter, known, "ada", 1).allowed);
    }
    let terms = Terms { burst: 2, count: 1, nanos: SECOND };
    limiter.reload(limits(&[terms; 4]), START).unwrap();
    assert!(
        limiter.spend("K0", "x", 2, START).unwrap().allowed,
        "named limits have their own room"
    );
}

#[test]
fn a_restart_keeps_the_rules_that_buckets_are_under_and_makes_room_for_others() {
    let limiter = nothing();
    fill(&limiter);
    let used = [1, 30_000, CARRIED_RULES_MAX as u64]
        .map(|burst| limiter.carry(hourly(burst), START).unwrap());
    for (n, carried) in used.into_iter().enumerate() {
        let _ = one(&limiter, carried, KEYS[n], 1);
    }
    let restored = restore(&save(&limiter, START), START);
    for (n, burst) in [1, 30_000, CARRIED_RULES_MAX as u64].into_iter().enumerate() {
        let known = restored.carry(hourly(burst), START).unwrap();
        assert_eq!(one(&restored, known, KEYS[n], 0).remaining, burst - 1);
    }
    for burst in 1..=CARRIED_RULES_MAX as u64 - 3 {
        restored.carry(hourly(1_000_000 + burst), START).unwrap();
    }
    assert_eq!(restored.carry(hourly(2), START), Err(TooManyRules));
}

#[test]
fn rules_that_come_during_a_save_are_in_it_with_their_buckets() {
    let (limiter, is_done) = (nothing(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bursts = 1..=CARRIED_RULES_MAX as u64;
            for burst in bursts.take_while(|_| !is_done.load(Ordering::Relaxed)) {
                let carried = limiter.carry(hourly(burst), START).unwrap();
                let _ = one(&limiter, carried, &(burst % 5_000).to_string(), 1);
            }
        });
        for _ in 0..50 {
            restore(&save(&limiter, START), START);
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn threads_that_bring_the_same_rules_at_once_agree_on_them() {
    const THREADS: usize = 4;
    let (limiter, barrier) = (nothing(), Barrier::new(THREADS));
    let told: Vec<Vec<Carried>> = std::thread::scope(|scope| {
        let ask = |_| {
            scope.spawn(|| {
                barrier.wait();
                (1..=3_000).map(|burst| limiter.carry(hourly(burst), START).unwrap()).collect()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(told.iter().all(|carried| *carried == told[0]));
    let mut different = told[0].clone();
    different.sort_by_key(|carried| format!("{carried:?}"));
    different.dedup();
    assert_eq!(different.len(), 3_000);
}

#[test]
fn mistakes_say_what_was_wrong_and_a_cost_above_the_burst_is_denied() {
    let limiter = nothing();
    let carried = limiter.carry(hourly(3), START).unwrap();
    let long = "x".repeat(ID_BYTES_MAX + 1);
    let asks = [
        Request::carried(carried, "ada", 4),
        Request::carried(carried, &long, 1),
        Request::carried(carried, &long[1..], 1),
        Request::carried(carried, "", 1),
    ];
    let mut batch = Batch::default();
    let answers = limiter.batch(&mut batch, &asks, START);
    let told: Vec<_> = answers.iter().map(|answer| answer.map_err(ToString::to_string)).collect();
    let above = "a cost of 4 is more than `CL.THROTTLE` ever holds: its burst is 3";
    assert_eq!(told[0], Err(above.to_owned()));
    assert!(told[1].as_ref().unwrap_err().contains("the id is longer than 512 bytes"));
    assert!(told[2].as_ref().unwrap().allowed && told[3].as_ref().unwrap().allowed);
    let decisions: Vec<_> = answers.decisions().collect();
    assert_eq!(decisions[0].map(|it| (it.allowed, it.remaining)), Some((false, 3)));
    assert_eq!(decisions[1], None);
    let twice = limiter.transaction(&[asks[0], asks[0]], START).unwrap_err();
    assert_eq!(twice, Mistake::SameBucketTwice { bucket: "CL.THROTTLE key:ada".to_owned() });
    assert_eq!(limiter.held().keys, 2);
    let many = vec![asks[0]; TRANSACTION_ASKS_MAX + 1];
    assert!(limiter.transaction(&many, START).is_err());
}

#[test]
fn a_limit_of_the_same_name_is_another() {
    let source =
        Source { name: "limits.yaml", text: "CL.THROTTLE: {burst: 9, count: 1, period: 1h}" };
    let limits = Limits::parse(&source, None).unwrap();
    let limiter = Limiter::with_memory(limits, MEMORY_MIN).unwrap();
    let carried = limiter.carry(hourly(3), START).unwrap();
    let asks = [
        Request::carried(carried, "ada", 1),
        Request::new(CARRIED, "ada", 1),
        Request::carried(carried, "ada", 1),
    ];
    let mut batch = Batch::default();
    let answers = limiter.batch(&mut batch, &asks, START);
    let left: Vec<_> = answers.decisions().map(|it| it.unwrap().remaining).collect();
    assert_eq!(left, [2, 8, 1]);
}

#[derive(Default)]
struct Diary(Mutex<Vec<(String, String, u64, Ruling)>>);

impl Witness for Diary {
    fn decided(&self, decided: &Decided<'_>) {
        for seen in decided.iter() {
            let mut id = String::new();
            seen.write_id(&mut id);
            self.0.lock().unwrap().push((seen.limit().to_owned(), id, seen.spent(), seen.ruling()));
        }
    }
}

#[test]
fn a_witness_is_told_of_all_rules_under_one_name() {
    let diary = Arc::new(Diary::default());
    let limiter = nothing().witnessed(diary.clone());
    for burst in [3, 4] {
        let carried = limiter.carry(hourly(burst), START).unwrap();
        let asks = [2, 9].map(|cost| Request::carried(carried, "Ada 1", cost));
        let _ = limiter.batch(&mut Batch::default(), &asks, START);
        let _ = limiter.transaction(&[Request::carried(carried, "Ada 1", 2)], START).unwrap();
    }
    let told = |spent, ruling| (CARRIED.to_owned(), "Ada 1".to_owned(), spent, ruling);
    let expected = [
        told(2, Ruling::Allowed),
        told(0, Ruling::Denied),
        told(2, Ruling::Allowed),
        told(0, Ruling::Denied),
    ];
    assert_eq!(*diary.0.lock().unwrap(), expected);
}
