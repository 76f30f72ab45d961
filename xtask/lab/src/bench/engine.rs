//! One decision by name and id, beside governor's keyed limiter.
//!
//! In every round each contender decides on the same ids, one contender after the other. Only the
//! second half is timed: the first brings the contender's own table back into the cache, as it would
//! be in a program that uses only one of them. The table shows medians over the rounds. Ratekeeper is
//! told the time; governor reads a clock inside: quanta's as it comes, or the system's, which is also
//! what [`ratekeeper::Clock`] reads.
//!
//! Ids are written, some thousands at a time, to where others were before: who asks has just been
//! told whom about. Lists of all ids, made anew in every round, took longer to read than a decision
//! takes, most of all with two threads, and pushed the tables out of the cache. Threads start
//! together with every piece; who wakes up late then asks alone for some microseconds.

use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::clock::{Clock as GovernorClock, MonotonicClock, QuantaClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use ratekeeper::limiter::Batch;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Clock, Limiter, Request};
use ratekeeper_testkit::random::Random;

use super::Failure;

const BATCH: usize = 64;
/// How many ids are written at a time, in whole batches: few enough to stay in most processors' own
/// caches.
const PIECE: usize = 128 * BATCH;
const MEMORY: usize = 1 << 30;
const NAME: &str = "RequestsPerClient";
/// Slow enough that every key stays in use, large enough that nothing is denied.
const BURST: u32 = 50_000_000;
const PERIOD_SECS: u64 = 4_000_000_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many keys, as a list
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 1_000_000, 10_000_000])]
    keys: Vec<u64>,
    /// How many rounds of each measurement; medians are shown
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How many decisions a round times, per thread; rounded up to whole pieces of 8192
    #[arg(long, default_value_t = 400_000)]
    decisions: usize,
}

#[derive(Clone, Copy)]
enum Spread {
    Uniform,
    Zipf,
}

type Governor<C> = RateLimiter<
    String,
    DashMapStateStore<String>,
    C,
    NoOpMiddleware<<C as GovernorClock>::Instant>,
>;

struct Contenders {
    ratekeeper: Limiter,
    clock: Clock,
    quanta: Governor<QuantaClock>,
    system: Governor<MonotonicClock>,
}

/// Medians in nanoseconds per decision.
#[derive(Clone, Copy, Default)]
struct Times {
    quanta: f64,
    system: f64,
    one: f64,
    one_with_clock: f64,
    batch: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    println!("nanoseconds per decision and thread; ratio to governor (system clock / quanta)\n");
    println!(
        "{:>10} {:8} {:>7} | {:>9} {:>9} | {:>6} {:>13} | {:>6} {:>13} | {:>6} {:>13}",
        "keys",
        "spread",
        "threads",
        "gov sys",
        "gov qnta",
        "one",
        "ratio",
        "of 64",
        "ratio",
        "+clock",
        "ratio"
    );
    for &keys in &args.keys {
        let contenders = Contenders::new(keys)?;
        for threads in [1, 2] {
            for spread in [Spread::Uniform, Spread::Zipf] {
                let times = measure(args, &contenders, keys, threads, spread)?;
                print_row(keys, threads, spread, &times);
            }
        }
    }
    Ok(())
}

fn print_row(keys: u64, threads: usize, spread: Spread, times: &Times) {
    let Times { quanta, system, one, one_with_clock, batch } = times;
    let spread = match spread {
        Spread::Uniform => "uniform",
        Spread::Zipf => "zipf",
    };
    println!(
        "{keys:>10} {spread:8} {threads:>7} | {system:>9.0} {quanta:>9.0} | {one:>6.0} {:>6.2} {:>6.2} | {batch:>6.0} {:>6.2} {:>6.2} | {one_with_clock:>6.0} {:>6.2} {:>6.2}",
        one / system,
        one / quanta,
        batch / system,
        batch / quanta,
        one_with_clock / system,
        one_with_clock / quanta,
    );
}

impl Contenders {
    fn new(keys: u64) -> Result<Self, Failure> {
        let text = format!("{NAME}: {{burst: {BURST}, count: {BURST}, period: {PERIOD_SECS}s}}");
        let limits = Limits::parse(&Source { name: "limits.yaml", text: &text }, None)?;
        let ratekeeper = Limiter::with_memory(limits, MEMORY)?;
        let per_token = Duration::from_secs(PERIOD_SECS) / BURST;
        let quota = Quota::with_period(per_token).ok_or("the period is not zero")?;
        let quota = quota.allow_burst(NonZeroU32::new(BURST).ok_or("the burst is not zero")?);
        let all = Self {
            ratekeeper,
            clock: Clock::start(),
            quanta: RateLimiter::dashmap_with_clock(quota, QuantaClock::default()),
            system: RateLimiter::dashmap_with_clock(quota, MonotonicClock),
        };
        eprintln!("filling in {keys} keys");
        for key in 0..keys {
            let id = id(key);
            all.quanta.check_key(&id).map_err(|_| "denied")?;
            all.system.check_key(&id).map_err(|_| "denied")?;
            let _ = all.ratekeeper.spend(NAME, &id, 1, all.clock.now())?;
        }
        Ok(all)
    }
}

fn measure(
    args: &Args,
    contenders: &Contenders,
    keys: u64,
    threads: usize,
    spread: Spread,
) -> Result<Times, Failure> {
    let start = Barrier::new(threads);
    let per_thread: Vec<Vec<Times>> = std::thread::scope(|scope| {
        let work = |seed| {
            let pieces = args.decisions.div_ceil(PIECE);
            let mut asker = Asker { ids: vec![id(0); PIECE], pieces, keys, spread, start: &start };
            move || {
                let mut random = Random::new(seed);
                let seeds = std::iter::repeat_with(|| random.bits()).take(args.rounds);
                seeds.map(|seed| round(contenders, &mut asker, seed)).collect()
            }
        };
        let workers: Vec<_> = (0..threads).map(|seed| scope.spawn(work(seed as u64))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| "panicked"))
            .collect::<Result<_, _>>()
    })?;
    let rounds: Vec<_> = per_thread.into_iter().flatten().collect();
    let median_of = |field: fn(&Times) -> f64| median(rounds.iter().map(field).collect());
    Ok(Times {
        quanta: median_of(|times| times.quanta),
        system: median_of(|times| times.system),
        one: median_of(|times| times.one),
        one_with_clock: median_of(|times| times.one_with_clock),
        batch: median_of(|times| times.batch),
    })
}

fn round(contenders: &Contenders, asker: &mut Asker<'_>, seed: u64) -> Times {
    let Contenders { ratekeeper, clock, quanta, system } = contenders;
    let now = clock.now();
    Times {
        system: asker.time(seed, |ids| count_governor(system, ids)),
        one: asker.time(seed, |ids| {
            let spend = |id: &&String| ratekeeper.spend(NAME, id, 1, now).is_ok_and(|d| d.allowed);
            ids.iter().filter(spend).count()
        }),
        batch: asker.time(seed, |ids| count_batches(ratekeeper, clock, ids)),
        one_with_clock: asker.time(seed, |ids| {
            let spend = |id: &&String| {
                ratekeeper.spend(NAME, id, 1, clock.now()).is_ok_and(|decision| decision.allowed)
            };
            ids.iter().filter(spend).count()
        }),
        quanta: asker.time(seed, |ids| count_governor(quanta, ids)),
    }
}

fn count_governor<C: GovernorClock>(governor: &Governor<C>, ids: &[String]) -> usize {
    ids.iter().filter(|id| governor.check_key(id).is_ok()).count()
}

fn count_batches(ratekeeper: &Limiter, clock: &Clock, ids: &[String]) -> usize {
    let mut batch = Batch::default();
    let mut asks = Vec::with_capacity(BATCH);
    let mut allowed = 0;
    for ids in ids.chunks(BATCH) {
        asks.clear();
        asks.extend(ids.iter().map(|id| Request::new(NAME, id, 1)));
        let answers = ratekeeper.batch(&mut batch, &asks, clock.now());
        allowed += answers.iter().filter(|answer| answer.is_ok_and(|it| it.allowed)).count();
    }
    allowed
}

/// One thread's ids.
struct Asker<'a> {
    /// A piece of them.
    ids: Vec<String>,
    /// How many are timed.
    pieces: usize,
    keys: u64,
    spread: Spread,
    /// Where all threads wait for each other.
    start: &'a Barrier,
}

impl Asker<'_> {
    /// Nanoseconds per decision on the ids that follow from `seed`. Every decision must be an allowed
    /// one, or it is something else that is timed.
    #[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
    #[expect(clippy::cast_precision_loss, reason = "shown as whole nanoseconds")]
    fn time(&mut self, seed: u64, work: impl Fn(&[String]) -> usize) -> f64 {
        let mut random = Random::new(seed);
        let mut took = Duration::ZERO;
        for piece in 0..2 * self.pieces {
            for place in &mut self.ids {
                place.clone_from(&id(self.spread.pick(self.keys, &mut random)));
            }
            self.start.wait();
            let begin = Instant::now();
            let allowed = work(&self.ids);
            if piece >= self.pieces {
                took += begin.elapsed();
            }
            assert_eq!(allowed, self.ids.len(), "a decision was denied");
        }
        took.as_nanos() as f64 / (self.pieces * self.ids.len()) as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// About 20 bytes.
fn id(key: u64) -> String {
    format!("client-{key:013}")
}

impl Spread {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sample of ranks"
    )]
    fn pick(self, keys: u64, random: &mut Random) -> u64 {
        match self {
            Self::Uniform => random.below(keys),
            Self::Zipf => {
                // The logarithm of a rank is uniform where its frequency is one over the rank.
                let unit = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
                ((keys as f64).powf(unit) as u64).min(keys - 1)
            }
        }
    }
}
