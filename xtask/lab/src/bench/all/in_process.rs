//! One decision in process, beside the libraries of others.
//!
//! Every round lets each decide on the same ids, one after the other; the first half of a round only
//! brings its table back into the cache.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use ratekeeper::limiter::Batch;
use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Clock, Limiter, Request};
use ratekeeper_bench::Spread;
use ratekeeper_testkit::random::Random;

use super::super::Failure;
use super::servers::{BURST, COUNT, LIMIT, PERIOD_SECS};

const BATCH: usize = 64;
const MEMORY: usize = 1 << 30;
/// How many decisions a round times.
const DECISIONS: usize = 50_000;

/// One who decides on ids, and tells how many were allowed.
struct Entrant {
    name: &'static str,
    decide: Box<Decide>,
}

type Decide = dyn Fn(&[String]) -> usize;

/// A row of the table: who, with how many keys, how long a decision took.
pub(super) struct Row {
    keys: u64,
    name: &'static str,
    nanos: f64,
    /// To our single decision, of the same round.
    ratio: f64,
}

/// Measures all, with each number of keys.
pub(super) fn measure(keys: &[u64], rounds: usize) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for &keys in keys {
        eprintln!("in process: {keys} keys");
        let entrants = entrants(keys)?;
        let mut random = Random::new(1);
        let mut nanos: Vec<Vec<f64>> = entrants.iter().map(|_| Vec::new()).collect();
        // Written anew where they are, in order: made anew in every round they lie where others who
        // allocate left room, and to fetch one takes longer than to decide on it.
        let mut ids = vec![id(0); 2 * DECISIONS];
        for _ in 0..rounds {
            for place in &mut ids {
                place.clone_from(&id(random.below(keys)));
            }
            for (entrant, nanos) in entrants.iter().zip(&mut nanos) {
                nanos.push(entrant.time(&ids)?);
            }
        }
        let ours = nanos.first().cloned().unwrap_or_default();
        for (entrant, nanos) in entrants.iter().zip(nanos) {
            let ratios = nanos.iter().zip(&ours).map(|(nanos, ours)| nanos / ours).collect();
            let (ratio, nanos) = (middle(ratios), middle(nanos));
            rows.push(Row { keys, name: entrant.name, nanos, ratio });
        }
    }
    Ok(rows)
}

fn middle(numbers: Vec<f64>) -> f64 {
    Spread::of(numbers).map_or(f64::NAN, |spread| spread.median)
}

impl Entrant {
    /// Nanoseconds per decision. Refuses if one was denied, as that is something else.
    #[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
    #[expect(clippy::cast_precision_loss, reason = "shown as whole nanoseconds")]
    fn time(&self, ids: &[String]) -> Result<f64, Failure> {
        let (warm_up, ids) = ids.split_at(ids.len() / 2);
        let mut allowed = (self.decide)(warm_up);
        let begin = Instant::now();
        allowed += (self.decide)(ids);
        let took = begin.elapsed();
        if allowed < warm_up.len() + ids.len() {
            return Err(format!("{} denied something", self.name).into());
        }
        Ok(took.as_nanos() as f64 / ids.len() as f64)
    }
}

/// Ours first; each knows all keys.
fn entrants(keys: u64) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = vec![ratekeeper()?, ratekeeper_batch()?, governor()?];
    entrants.extend(limitador(keys)?);
    let ids: Vec<_> = (0..keys).map(id).collect();
    for entrant in &entrants {
        (entrant.decide)(&ids);
    }
    Ok(entrants)
}

fn limiter() -> Result<Limiter, Failure> {
    let text = format!("{LIMIT}: {{burst: {BURST}, count: {COUNT}, period: {PERIOD_SECS}s}}");
    let limits = Limits::parse(&Source { name: "limits.yaml", text: &text }, None)?;
    Ok(Limiter::with_memory(limits, MEMORY)?)
}

fn ratekeeper() -> Result<Entrant, Failure> {
    let (limiter, clock) = (limiter()?, Clock::start());
    let decide = move |ids: &[String]| {
        let spend =
            |id: &&String| limiter.spend(LIMIT, id, 1, clock.now()).is_ok_and(|it| it.allowed);
        ids.iter().filter(spend).count()
    };
    Ok(Entrant { name: "ratekeeper", decide: Box::new(decide) })
}

fn ratekeeper_batch() -> Result<Entrant, Failure> {
    let (limiter, clock) = (limiter()?, Clock::start());
    let decide = move |ids: &[String]| {
        let mut batch = Batch::default();
        let mut allowed = 0;
        for ids in ids.chunks(BATCH) {
            let asks: Vec<_> = ids.iter().map(|id| Request::new(LIMIT, id, 1)).collect();
            let answers = limiter.batch(&mut batch, &asks, clock.now());
            allowed += answers.iter().filter(|answer| answer.is_ok_and(|it| it.allowed)).count();
        }
        allowed
    };
    Ok(Entrant { name: "ratekeeper, batches of 64", decide: Box::new(decide) })
}

fn governor() -> Result<Entrant, Failure> {
    let burst = NonZeroU32::new(u32::try_from(BURST)?).ok_or("the burst is not zero")?;
    let per_token = Duration::from_secs(PERIOD_SECS) / u32::try_from(COUNT)?;
    let quota = Quota::with_period(per_token).ok_or("the period is not zero")?.allow_burst(burst);
    let limiter: DefaultKeyedRateLimiter<String> = RateLimiter::dashmap(quota);
    let decide =
        move |ids: &[String]| ids.iter().filter(|id| limiter.check_key(id).is_ok()).count();
    Ok(Entrant { name: "governor", decide: Box::new(decide) })
}

/// In memory, with a variable that names the client.
#[cfg(feature = "peers")]
fn limitador(keys: u64) -> Result<Option<Entrant>, Failure> {
    use std::collections::HashMap;

    use limitador::RateLimiter;
    use limitador::limit::{Context, Expression, Limit, Namespace};

    let variable = Expression::try_from("client").map_err(|error| error.to_string())?;
    let limiter = RateLimiter::new(2 * keys);
    limiter.add_limit(Limit::new(LIMIT, BURST, PERIOD_SECS, Vec::new(), [variable]));
    let namespace: Namespace = LIMIT.into();
    let decide = move |ids: &[String]| {
        let spend = |id: &&String| {
            let context: Context<'_> = HashMap::from([("client".to_owned(), (*id).clone())]).into();
            let checked = limiter.check_rate_limited_and_update(&namespace, &context, 1);
            checked.is_ok_and(|checked| !checked.limited)
        };
        ids.iter().filter(spend).count()
    };
    Ok(Some(Entrant { name: "limitador, in memory", decide: Box::new(decide) }))
}

/// Without the feature there is none.
#[cfg(not(feature = "peers"))]
#[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
fn limitador(_keys: u64) -> Result<Option<Entrant>, Failure> {
    Ok(None)
}

/// About 20 bytes.
fn id(key: u64) -> String {
    format!("client-{key:013}")
}

pub(super) fn text(rows: &[Row]) -> String {
    let head = ["keys", "in process", "per decision", "ratio to the first"];
    let line = |cells: [&str; 4]| {
        let [keys, name, nanos, ratio] = cells;
        format!("{keys:>10}  {name:26}  {nanos:>12}  {ratio}\n")
    };
    std::iter::once(line(head))
        .chain(rows.iter().map(|row| line(row.cells().each_ref().map(String::as_str))))
        .collect()
}

pub(super) fn markdown(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = "| keys | in process | per decision | ratio to the first |\n|---|---|---|---|\n";
    let lines = rows.iter().map(|row| format!("| {} |\n", row.cells().join(" | ")));
    std::iter::once(head.to_owned()).chain(lines).collect()
}

impl Row {
    fn cells(&self) -> [String; 4] {
        let Self { keys, name, nanos, ratio } = self;
        let name = (*name).to_owned();
        [keys.to_string(), name, format!("{nanos:.0} ns"), format!("{ratio:.2}")]
    }
}
