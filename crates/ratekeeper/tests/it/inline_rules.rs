//! Asks that bring their rule along are answered as those of a limit that has just got it.

#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use ratekeeper::algorithm::gcra::Rule;
use ratekeeper::algorithm::gcra::{Outcome, Verdict};
use ratekeeper::algorithm::inline_rule::{Ask, InlineGcra, InlineRule};
use ratekeeper::algorithm::tokens::Action;
use ratekeeper::limiter::{Decided, INLINE_RULES, Ruling, Witness};
use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Reader, Section, Writer};
use ratekeeper::store::{MEMORY_MIN, Question};
use ratekeeper::{Batch, Decision, Keyed, Limiter, Mistake, Mode, Moment, Nanos, Request};
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

/// Buckets that nobody asked for.
fn nothing() -> Keyed<InlineGcra> {
    Keyed::new(MEMORY_MIN).unwrap()
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

/// The same of keys and rules that come along.
fn ask_keyed(buckets: &Keyed<InlineGcra>, kind: u64, asks: &[(&str, Ask)], now: Moment) -> Answer {
    let is_transaction = kind < 5;
    let questions: Vec<_> = asks
        .iter()
        .enumerate()
        .map(|(place, (key, ask))| Question {
            joined: is_transaction && place > 0,
            ..buckets.question(&[key.as_bytes()], *ask)
        })
        .collect();
    let mut outcomes = vec![Outcome::default(); asks.len()];
    buckets.decide(&questions, &mut outcomes, now);
    for ((_, ask), outcome) in asks.iter().zip(&outcomes) {
        if is_transaction && outcome.verdict == Verdict::Never {
            return Err(format!("{} of {}", ask.cost, ask.rule.burst()));
        }
    }
    Ok(outcomes.iter().map(Decision::from).collect())
}

/// Buckets that are asked by keys and rules, and a limiter with a limit for each key.
struct Pair {
    keyed: Keyed<InlineGcra>,
    named: Limiter,
    terms: [Terms; KEYS.len()],
}

impl Pair {
    fn new(random: &mut Random) -> Self {
        let terms = KEYS.map(|_| Terms::sample(random));
        let named = Limiter::with_memory(limits(&terms), MEMORY_MIN).unwrap();
        Self { keyed: nothing(), named, terms }
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
        let (mut keyed, mut named) = (Vec::new(), Vec::new());
        for (n, key) in keys.iter().enumerate() {
            let (cost, mode) = of(n);
            let action = match kind {
                0 => Action::Refund,
                1 => Action::Reset,
                _ => Action::from(mode),
            };
            let rule = InlineRule::new(&self.terms[*key].rule());
            keyed.push((KEYS[*key], Ask { rule, action, cost }));
            named.push(Request::new(KEYS[*key], "x", cost).with_mode(mode));
        }
        let (answer, expected) =
            (ask_keyed(&self.keyed, kind, &keyed, now), ask(&self.named, kind, &named, now));
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
fn a_restart_changes_no_answer() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (mut pair, mut now) = (Pair::new(&mut random), START);
        for _ in 0..1_500 {
            now = later(now, &mut random);
            pair.step(&mut random, now);
            if random.chance(1, 50) {
                let file = save(&pair.keyed, now);
                now = later(now, &mut random);
                pair.keyed = restore(&file, now);
            }
        }
    }
}

fn save(buckets: &Keyed<InlineGcra>, at: Moment) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    buckets.save(&mut writer, at).unwrap();
    writer.finish().unwrap();
    file
}

fn restore(file: &[u8], at: Moment) -> Keyed<InlineGcra> {
    let mut reader = Reader::new(file).unwrap();
    assert_eq!(reader.next_section().unwrap(), Some(Section::InlineRules));
    let buckets = Keyed::restore(MEMORY_MIN, &mut reader, at).unwrap();
    assert_eq!(reader.next_section().unwrap(), None);
    buckets
}

fn hourly(burst: u64) -> InlineRule {
    InlineRule::new(&Rule::new(burst, 1, Nanos::from_secs(3600)).unwrap())
}

fn spend(buckets: &Keyed<InlineGcra>, key: &[u8], rule: InlineRule, cost: u64) -> Outcome {
    let mut outcome = [Outcome::default()];
    let ask = Ask { rule, action: Action::CheckAndSpend, cost };
    buckets.decide(&[buckets.question(&[key], ask)], &mut outcome, START);
    outcome[0]
}

#[test]
fn every_rule_that_there_can_be_is_packed_and_unpacked_unchanged() {
    let mut random = Random::new(5);
    for _ in 0..100_000 {
        let (burst, count) = (random.log_between(1, 1 << 32), random.log_between(1, 1 << 32));
        let period = Nanos::new(random.log_between(1, 1 << 62).into());
        let rule = Rule::new(burst, count, period).unwrap();
        let packed = InlineRule::new(&rule);
        assert_eq!((packed.rule(), packed.burst()), (rule, burst));
    }
}

/// There is no table of such rules: a rule is in the cells that are under it, and nowhere else.
#[test]
fn a_client_that_brings_millions_of_rules_changes_no_answer_of_others() {
    let buckets = nothing();
    assert_eq!(spend(&buckets, b"ada", hourly(7), 6).remaining, 1);
    for burst in 1..=3_000_000 {
        assert_eq!(spend(&buckets, b"mallory", hourly(burst), 0).verdict, Verdict::Allow);
    }
    // One key, under one rule after the other.
    for burst in 1..=1_000_000 {
        let outcome = spend(&buckets, b"eve", hourly(burst), 1);
        assert_eq!((outcome.verdict, outcome.remaining), (Verdict::Allow, 0), "{burst}");
    }
    assert_eq!(buckets.held().keys, 2);
    assert_eq!(spend(&buckets, b"ada", hourly(7), 1).remaining, 0);
    assert_eq!(spend(&buckets, b"ada", hourly(7), 1).verdict, Verdict::Deny);
}

#[test]
fn a_cost_above_the_burst_never_passes_and_spends_nothing() {
    let buckets = nothing();
    assert_eq!(spend(&buckets, b"ada", hourly(3), 4).verdict, Verdict::Never);
    assert_eq!(spend(&buckets, b"ada", hourly(3), 3).remaining, 0);
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
fn a_witness_is_told_of_all_rules_under_one_name_and_of_keys_of_any_bytes() {
    let (diary, buckets) = (Arc::new(Diary::default()), nothing());
    let keys: [&[u8]; 2] = [b"Ada 1", b"\xff\n"];
    for (key, cost) in keys.iter().zip([2, 9]) {
        let ask = Ask { rule: hourly(3), action: Action::CheckAndSpend, cost: cost / 3 };
        let questions = [ask, Ask { cost: 3, ..ask }].map(|ask| buckets.question(&[key], ask));
        let mut outcomes = [Outcome::default(); 2];
        buckets.decide(&questions, &mut outcomes, START);
        diary.decided(&Decided::by_inline_rules(&[key, key], &questions, &outcomes));
    }
    let told = |id: &str, spent, ruling| (INLINE_RULES.to_owned(), id.to_owned(), spent, ruling);
    let expected = [
        told("Ada 1", 0, Ruling::Allowed),
        told("Ada 1", 3, Ruling::Allowed),
        told("\\xff\n", 3, Ruling::Allowed),
        told("\\xff\n", 0, Ruling::Denied),
    ];
    assert_eq!(*diary.0.lock().unwrap(), expected);
}
