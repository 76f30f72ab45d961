//! The scripts against the engine: the same random asks, and no difference.

use std::collections::HashMap;
use std::sync::Arc;

use ratekeeper::algorithm::book::{self, Action, Book, Gcra, RuleId};
use ratekeeper::algorithm::gcra::{self, Outcome};
use ratekeeper::store::{Fingerprint, MemoryStore, Question, Secret, Store};
use ratekeeper::{Moment, Nanos};
use ratekeeper_redis::{Ask, Rule};
use ratekeeper_testkit::random::Random;

use crate::servers::{Blocking, START, Single};

const DECISIONS: usize = 100_000;
const MEMORY: usize = 1 << 26;
/// Bursts and rates of so many bits: the times of a cell then take no more than 80 of its 96.
const ROOMY_BITS: u32 = 16;
const ACTIONS: [Action; 8] = [
    Action::CheckAndSpend,
    Action::CheckAndSpend,
    Action::CheckAndSpend,
    Action::CheckAndSpend,
    Action::CheckOnly,
    Action::SpendOnly,
    Action::Refund,
    Action::Reset,
];

fn fingerprint(bucket: &str) -> Fingerprint {
    Secret::new(1, 2).seal().fingerprint(bucket.as_bytes())
}

/// A rule that Redis keeps, and one whose nanoseconds are the other's microseconds: so the engine
/// counts in the same ticks as the script, and must say the same to the tick.
///
/// Where a limit is lowered, the engine hides what there is room for beside its times, and Redis all. So
/// these are either all of one burst, or they have room.
fn twins(random: &mut Random, burst: Option<u64>) -> (Rule, gcra::Rule) {
    loop {
        // Mostly rules that people write, at times rules at the edge of what can be counted.
        let mut of = |usual, at_most| if random.chance(1, 4) { at_most } else { usual };
        let (bursts, counts, periods) = (of(6, 32), of(6, 30), of(33, 60));
        let (is_roomy, any) = (burst.is_none(), random.log_between(1, 1 << bursts));
        let burst = burst.unwrap_or_else(|| any.min(1 << ROOMY_BITS));
        let count = random.log_between(1, 1 << counts);
        let period = random.log_between(1_000, 1 << periods);
        let engine = gcra::Rule::new(burst, count, Nanos::new(period.into()));
        let Ok(rule) = Rule::new(&engine.unwrap()) else { continue };
        let (step, rate) = rule.emission_interval();
        if is_roomy && (rate >= 1 << ROOMY_BITS || step >= 1 << 60) {
            continue;
        }
        if let Ok(twin) = gcra::Rule::new(burst, rate, Nanos::new(step.into())) {
            return (rule, twin);
        }
    }
}

/// One ask as both sides see it.
struct Pair {
    bucket: String,
    rule: usize,
    action: Action,
    is_shadow: bool,
    cost: u64,
    since: Moment,
    joined: bool,
}

impl Pair {
    /// `asked` is when each bucket was asked last: a rule is in force since then or later.
    fn random(
        random: &mut Random,
        rules: &[(Rule, gcra::Rule)],
        asked: &mut HashMap<u64, u64>,
        now_micros: u64,
        are_spends: bool,
    ) -> Self {
        // Each bucket has a rule that it is mostly asked by, and at times another.
        let number = random.below(if are_spends { 8 } else { 64 });
        let rule = if random.chance(1, 30) { random.index(rules.len()) } else { 0 };
        let rule = (usize::try_from(number).unwrap() + rule) % rules.len();
        let burst = rules[rule].0.burst();
        let cost = match random.below(10) {
            0 => 0,
            1 => burst,
            2 => burst.saturating_add(1),
            3..6 => random.between(0, burst),
            _ => 1,
        };
        let last = asked.insert(number, now_micros).unwrap_or(now_micros);
        // Mostly the same for all, so that they are decided together.
        let since =
            if random.chance(1, 4) { random.between(last, now_micros + 1_000) } else { now_micros };
        Self {
            bucket: format!("d:{number}"),
            rule,
            action: if are_spends { Action::CheckAndSpend } else { random.pick(&ACTIONS) },
            is_shadow: !are_spends && random.chance(1, 10),
            cost,
            since: Moment::from_nanos(since),
            joined: !are_spends && random.chance(1, 3),
        }
    }
}

struct Twins {
    rules: Vec<(Rule, gcra::Rule)>,
    ids: Vec<RuleId>,
    link: Blocking,
    engine: MemoryStore<Gcra>,
    seed: u64,
}

impl Twins {
    fn new(server: &Single, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let burst = random.log_between(1, 1 << 32);
        let burst = seed.is_multiple_of(2).then_some(burst);
        let rules: Vec<_> = (0..24).map(|_| twins(&mut random, burst)).collect();
        let mut book = Book::default();
        let ids = rules.iter().map(|(_, twin)| book.add(*twin).unwrap()).collect();
        let engine = MemoryStore::new(&Arc::new(book), MEMORY).unwrap();
        Self { rules, ids, link: Blocking::open(&server.url()), engine, seed }
    }

    fn question(&self, pair: &Pair) -> Question<Gcra> {
        let (rule, cost) = (self.ids[pair.rule], pair.cost);
        let ask = book::Ask { rule, action: pair.action, is_shadow: pair.is_shadow, cost };
        Question { bucket: fingerprint(&pair.bucket), ask, joined: pair.joined }
    }

    /// Asks both the same, at the same moment, and compares.
    fn compare(&self, pairs: &[Pair], now_micros: u64) {
        let ask = |pair: &Pair| (pair.bucket.clone(), &self.rules[pair.rule].0);
        let named: Vec<_> = pairs.iter().map(ask).collect();
        let asks: Vec<_> = pairs
            .iter()
            .zip(&named)
            .map(|(pair, (bucket, rule))| Ask {
                bucket: bucket.as_bytes(),
                rule,
                since: Moment::from_nanos(pair.since.as_nanos() * 1_000),
                action: pair.action,
                is_shadow: pair.is_shadow,
                cost: pair.cost,
                joined: pair.joined,
            })
            .collect();
        let answers = self.link.gcra(&asks, Some(Moment::from_nanos(now_micros * 1_000)));
        let mut expected = vec![Outcome::default(); pairs.len()];
        let mut first = 0;
        for transaction in pairs.chunk_by(|_, next| next.joined) {
            let questions: Vec<_> = transaction.iter().map(|pair| self.question(pair)).collect();
            for (pair, question) in transaction.iter().zip(&questions) {
                let at = pair.since.min(Moment::from_nanos(now_micros));
                let only = Question { joined: false, ..*question };
                self.engine.carry_over(&[only], at);
            }
            let place = first..first + transaction.len();
            first = place.end;
            let now = Moment::from_nanos(now_micros);
            self.engine.decide(&questions, &mut expected[place], now);
        }
        for ((pair, answer), expected) in pairs.iter().zip(&answers).zip(&expected) {
            let micros = |nanos: Nanos| Nanos::new(nanos.get() / 1_000);
            let seen = Outcome {
                retry_in: micros(answer.outcome.retry_in),
                reset_in: micros(answer.outcome.reset_in),
                ..answer.outcome
            };
            let Pair { bucket, action, cost, is_shadow, joined, .. } = pair;
            assert_eq!(
                seen, *expected,
                "seed {}: {bucket} {action:?} {cost} by {} at {now_micros} (shadow {is_shadow}, \
                 joined {joined})",
                self.seed, self.rules[pair.rule].0
            );
        }
    }
}

/// Asks of one batch: spends of a few buckets, which are decided together; or transactions over up
/// to a few, none twice.
fn batch(
    random: &mut Random,
    rules: &[(Rule, gcra::Rule)],
    asked: &mut HashMap<u64, u64>,
    now_micros: u64,
) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let are_spends = random.chance(1, 2);
    while pairs.len() < 50 {
        let mut pair = Pair::random(random, rules, asked, now_micros, are_spends);
        let start = pairs.iter().rposition(|pair| !pair.joined).unwrap_or(0);
        let is_there = pairs[start..].iter().any(|before| before.bucket == pair.bucket);
        pair.joined &= !is_there && !pairs.is_empty();
        pairs.push(pair);
    }
    pairs
}

#[test]
fn the_script_and_the_engine_agree_to_the_tick_whatever_is_asked() {
    let server = Single::valkey();
    let mut decisions = 0;
    for seed in 0..10 {
        server.command(&["FLUSHALL"]);
        let twins = Twins::new(&server, seed);
        let mut random = Random::new(seed + 1_000);
        let mut now_micros = START.as_nanos() / 1_000;
        let mut asked = HashMap::new();
        while decisions < DECISIONS / 10 * usize::try_from(seed + 1).unwrap() {
            let pairs = batch(&mut random, &twins.rules, &mut asked, now_micros);
            twins.compare(&pairs, now_micros);
            decisions += pairs.len();
            if random.chance(3, 4) {
                now_micros += random.log_between(1, 1 << 30);
            }
        }
    }
    assert!(decisions >= DECISIONS);
}

#[test]
fn exact_rules_decide_as_the_engine_does_in_nanoseconds() {
    let server = Single::valkey();
    let link = Blocking::open(&server.url());
    let seed = 77;
    let mut random = Random::new(seed);
    let mut tats: HashMap<usize, gcra::Tat> = HashMap::new();
    let mut rules = Vec::new();
    while rules.len() < 40 {
        let (burst, count) = (random.log_between(1, 1_000), random.log_between(1, 10_000));
        let period = Nanos::new(random.log_between(1, 1 << 42).into());
        let engine = gcra::Rule::new(burst, count, period).unwrap();
        if let Ok(rule) = Rule::new(&engine)
            && rule.is_exact()
        {
            rules.push((engine, rule));
        }
    }
    let mut now = START;
    for _ in 0..400 {
        let picks: Vec<_> = (0..50)
            .map(|_| {
                let index = random.index(rules.len());
                (index, random.between(0, rules[index].0.burst()), format!("e:{index}"))
            })
            .collect();
        let ask = |(index, cost, bucket): &'_ (usize, u64, String)| (*index, *cost, bucket.clone());
        let asks: Vec<_> = picks
            .iter()
            .map(|(index, cost, bucket)| Ask {
                bucket: bucket.as_bytes(),
                rule: &rules[*index].1,
                since: Moment::EPOCH,
                action: Action::CheckAndSpend,
                is_shadow: false,
                cost: *cost,
                joined: false,
            })
            .collect();
        for (pick, answer) in picks.iter().map(ask).zip(link.gcra(&asks, Some(now))) {
            let (index, cost, bucket) = pick;
            let tat = tats.get(&index).copied().unwrap_or(gcra::Tat::FULL);
            let (after, outcome) = gcra::spend(&rules[index].0, tat, cost, now);
            tats.insert(index, after);
            let up = |nanos: Nanos| Nanos::new(nanos.get().next_multiple_of(1_000));
            let (retry_in, reset_in) = (up(outcome.retry_in), up(outcome.reset_in));
            let expected = Outcome { retry_in, reset_in, ..outcome };
            assert_eq!(answer.outcome, expected, "seed {seed}: {bucket} {cost} at {now:?}");
        }
        now = now.after(Nanos::new(u128::from(random.log_between(1, 1 << 24)) * 1_000));
    }
}
