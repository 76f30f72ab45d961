//! Decisions in Redis, beside a plain loop of `EVALSHA` against the same server.
//!
//! One thread asks, as one worker of a server does, over one connection. Every round lets each
//! contender ask for as long, one after the other, with as many asks per batch and as many batches
//! on their way; a ratio is that of two neighbours in time. Shown are medians over the rounds.

mod load;
mod outage;
mod server;

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::limiter::Batch;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Clock, Limiter};
use ratekeeper_redis::{Health, Tls};
use redis::Script;

use self::load::{Load, Plain, Shape, Shared};
use self::server::Server;
use super::Failure;

/// The least that exact decisions may come to, as a part of what the plain loop does.
const EXACT_MIN: f64 = 0.9;
/// The least that leased decisions may come to.
const LEASED_MIN: f64 = 10.0;
/// Long enough that nothing is decided without Redis while speed is measured.
const UNHURRIED: Duration = Duration::from_secs(5);
const MEMORY: usize = 256 << 20;
/// Nobody is denied, except at `Denied`; the keys stay for the whole run.
const LIMITS: &str = "\
Exact: {burst: 10000, count: 10000, period: 10h}
Leased: {burst: 1000000, count: 1000000, period: 1s, lease: 50ms}
Denied: {burst: 1, count: 1, period: 1h}
";
/// `Exact` as the bare script has it: microseconds.
const BARE: &str = include_str!("redis/bare.lua");
const BARE_ARGS: &[&str] = &["3600000", "36000000000", "1"];
/// And as Ratekeeper's script has it, for one spend per call: price, rule, depth, since.
const OURS: &str = concat!(
    include_str!("../../../../crates/ratekeeper-redis/src/scripts/gcra.lua"),
    include_str!("../../../../crates/ratekeeper-redis/src/scripts/bucket.lua"),
    include_str!("../../../../crates/ratekeeper-redis/src/scripts/general.lua"),
);
const OURS_ARGS: &[&str] = &["3600000", "3600000/1 10000", "36000000000", "1700000000000000"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many rounds; medians are shown
    #[arg(long, default_value_t = 36)]
    rounds: usize,
    /// How long each contender asks in a round, in milliseconds
    #[arg(long, default_value_t = 250)]
    millis: u64,
    /// Asks per batch
    #[arg(long, default_value_t = 64)]
    depth: usize,
    /// Batches on their way at a time
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// How many buckets, other than leased ones
    #[arg(long, default_value_t = 100_000)]
    buckets: usize,
    /// How many buckets are leased
    #[arg(long, default_value_t = 64)]
    hot: usize,
}

/// Prints all figures. Fails if decisions are slower than they must be, if one takes longer than it
/// may while Redis is away, or if Redis is not asked again soon after.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut server = Server::start()?;
        println!(
            "Redis {} on this machine, one connection, {} asks per batch, {} batches on their way;",
            server.version()?,
            args.depth,
            args.in_flight
        );
        println!(
            "{} buckets, {} leased ones; medians of {} rounds of {} ms each\n",
            args.buckets, args.hot, args.rounds, args.millis
        );
        let mut misses = compare(args, &server).await?;
        memory(args, &server).await?;
        misses.extend(outage::flood(args, &server).await?);
        misses.extend(outage::run(args, &mut server).await?);
        if misses.is_empty() { Ok(()) } else { Err(misses.join("; ").into()) }
    })
}

impl Args {
    fn shape(&self) -> Shape {
        let length = Duration::from_millis(self.millis);
        Shape { depth: self.depth, in_flight: self.in_flight, length }
    }
}

/// A limiter that shares its buckets over Redis.
struct Ratekeeper {
    limiter: Arc<Limiter>,
    clock: Arc<Clock>,
    store: ratekeeper_redis::Shared,
    ids: Arc<[String]>,
}

impl Ratekeeper {
    fn open(server: &Server, buckets: usize, within: Duration) -> Result<Self, Failure> {
        let limits = Limits::parse(&Source { name: "limits.yaml", text: LIMITS }, None)?;
        let limiter = Arc::new(Limiter::with_memory(limits, MEMORY)?);
        let clock = Arc::new(Clock::start());
        let store = ratekeeper_redis::Shared::new(server.url().parse()?, Tls::default(), within)?;
        limiter.share(store.buckets(), clock.now())?;
        Ok(Self { limiter, clock, store, ids: ids(buckets) })
    }

    fn worker(&self, limit: &'static str) -> Shared {
        Shared {
            limiter: Arc::clone(&self.limiter),
            clock: Arc::clone(&self.clock),
            batch: Batch::default(),
            limit,
            ids: Arc::clone(&self.ids),
        }
    }

    fn health(&self) -> Health {
        self.store.health()
    }
}

fn ids(count: usize) -> Arc<[String]> {
    (0..count).map(|number| format!("client-{number}")).collect()
}

/// What one round saw.
struct Round {
    bare: Load,
    ours: Load,
    exact: Load,
    leased: Load,
}

/// Prints speeds, and tells which are below what they must be.
async fn compare(args: &Args, server: &Server) -> Result<Vec<String>, Failure> {
    let ratekeeper = Ratekeeper::open(server, args.buckets, UNHURRIED)?;
    let bare = plain(server, args.buckets, "bareloop", BARE, BARE_ARGS).await?;
    let ours = plain(server, args.buckets, "ourloops", OURS, OURS_ARGS).await?;
    let shape = args.shape();
    let mut rounds = Vec::new();
    // The first makes the keys, and is not counted.
    for number in 0..=args.rounds {
        let round = Round {
            bare: load::run(shape, args.buckets, || bare.clone()).await?,
            exact: load::run(shape, args.buckets, || ratekeeper.worker("Exact")).await?,
            ours: load::run(shape, args.buckets, || ours.clone()).await?,
            leased: load::run(shape, args.hot, || ratekeeper.worker("Leased")).await?,
        };
        if number > 0 {
            rounds.push(round);
        }
    }
    let health = ratekeeper.health();
    let failed: u64 = health.failures.iter().map(|(_, count)| count).sum();
    if failed > 0 {
        return Err(format!("Redis did not answer {failed} asks: {:?}", health.failures).into());
    }
    Ok(report(&rounds, &health))
}

async fn plain(
    server: &Server,
    keys: usize,
    prefix: &str,
    text: &str,
    args: &'static [&'static str],
) -> Result<Plain, Failure> {
    let client = redis::Client::open(server.url())?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let hash = Script::new(text).load_async(&mut connection).await?;
    // As long as Ratekeeper's own, so that the difference is the script's and not theirs.
    let keys = (0..keys).map(|number| format!("{prefix}:{{Exact:client-{number}}}")).collect();
    Ok(Plain { connection, hash: hash.into(), keys, args })
}

fn report(rounds: &[Round], health: &Health) -> Vec<String> {
    println!("                           decisions/s  p50 ms  p99 ms  ratio to the plain loop");
    let row = |name: &str, pick: fn(&Round) -> &Load| {
        let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        let ratio = of(&|round| pick(round).per_second / round.bare.per_second);
        println!(
            "{name:<26} {:>11.0} {:>7.3} {:>7.3} {ratio:>9.2}",
            of(&|round| pick(round).per_second),
            of(&|round| pick(round).at(50)),
            of(&|round| pick(round).at(99)),
        );
        ratio
    };
    row("EVALSHA, a bare script", |round| &round.bare);
    row("EVALSHA, Ratekeeper's script", |round| &round.ours);
    let exact = row("Ratekeeper, exact", |round| &round.exact);
    let leased = row("Ratekeeper, lease: 50ms", |round| &round.leased);
    println!(
        "\nof all of Ratekeeper's, {} were decided by Redis in {} round trips, {} by leases\n",
        health.decided, health.trips, health.leased
    );
    let mut misses = Vec::new();
    if exact < EXACT_MIN {
        misses.push(format!("exact decisions are {exact:.2} x the plain loop, not {EXACT_MIN}"));
    }
    if leased < LEASED_MIN {
        misses.push(format!("leased decisions are {leased:.2} x the plain loop, not {LEASED_MIN}"));
    }
    misses
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Prints what a bucket takes in Redis: one by itself, and all with the tables that find them.
async fn memory(args: &Args, server: &Server) -> Result<(), Failure> {
    server.command(&["FLUSHALL"])?;
    let before = server.number("used_memory")?;
    let ratekeeper = Ratekeeper::open(server, args.buckets, UNHURRIED)?;
    load::run(args.shape(), args.buckets, || ratekeeper.worker("Exact")).await?;
    let taken = server.number("used_memory")?.saturating_sub(before);
    let keys: u64 = redis::from_redis_value(server.command(&["DBSIZE"])?)?;
    let key: String = redis::from_redis_value(server.command(&["RANDOMKEY"])?)?;
    let value: String = redis::from_redis_value(server.command(&["GET", &key])?)?;
    let bytes: u64 = redis::from_redis_value(server.command(&["MEMORY", "USAGE", &key])?)?;
    println!("a bucket in Redis: {key} is '{value}', {bytes} bytes by MEMORY USAGE;");
    println!("{keys} buckets take {} bytes each of used_memory\n", taken / keys.max(1));
    Ok(())
}
