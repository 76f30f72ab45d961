//! Many batches on their way at once, and how long each takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratekeeper::limiter::Batch;
use ratekeeper::{Clock, Limiter, Request};
use ratekeeper_testkit::random::Random;
use redis::aio::MultiplexedConnection;
use tokio::task::{JoinSet, yield_now};

use super::super::Failure;

/// Asks again and again, one batch at a time.
pub(super) trait Worker: Send + 'static {
    /// Asks one batch, and takes the answers.
    fn ask(&mut self, picks: &[usize]) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// How much is asked at a time.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Asks per batch.
    pub(super) depth: usize,
    /// Batches on their way.
    pub(super) in_flight: usize,
    pub(super) length: Duration,
}

/// How it went.
#[derive(Clone, Default)]
pub(super) struct Load {
    pub(super) per_second: f64,
    /// How long each batch took in milliseconds, in ascending order.
    pub(super) millis: Vec<f64>,
}

impl Load {
    pub(super) fn at(&self, percent: usize) -> f64 {
        self.millis.get(self.millis.len() * percent / 100).copied().unwrap_or_default()
    }

    pub(super) fn longest(&self) -> f64 {
        self.millis.last().copied().unwrap_or_default()
    }
}

/// Lets workers ask for buckets out of so many.
pub(super) async fn run<W: Worker>(
    shape: Shape,
    buckets: usize,
    worker: impl Fn() -> W,
) -> Result<Load, Failure> {
    let start = now();
    let mut tasks = JoinSet::new();
    for number in 0..shape.in_flight {
        let mut worker = worker();
        tasks.spawn(async move {
            let mut random = Random::new(start.elapsed().subsec_nanos().into());
            let mut picks = vec![number; shape.depth];
            let mut millis = Vec::new();
            while start.elapsed() < shape.length {
                picks.fill_with(|| random.index(buckets));
                let begin = now();
                worker.ask(&picks).await?;
                millis.push(begin.elapsed().as_secs_f64() * 1e3);
                // What is answered at once would otherwise keep all else from running.
                yield_now().await;
            }
            Ok::<_, Failure>(millis)
        });
    }
    let mut load = Load::default();
    while let Some(done) = tasks.join_next().await {
        load.millis.append(&mut done??);
    }
    let asks = u32::try_from(load.millis.len() * shape.depth)?;
    load.per_second = f64::from(asks) / start.elapsed().as_secs_f64();
    load.millis.sort_by(f64::total_cmp);
    Ok(load)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The `redis` crate alone: `EVALSHA` with the same arguments for each key.
#[derive(Clone)]
pub(super) struct Plain {
    pub(super) connection: MultiplexedConnection,
    pub(super) hash: Arc<str>,
    pub(super) keys: Arc<[String]>,
    pub(super) args: &'static [&'static str],
}

impl Worker for Plain {
    async fn ask(&mut self, picks: &[usize]) -> Result<(), Failure> {
        let mut commands = redis::Pipeline::with_capacity(picks.len());
        for &pick in picks {
            commands.cmd("EVALSHA").arg(&*self.hash).arg(1).arg(&self.keys[pick]).arg(self.args);
        }
        let answers: Vec<(i64, i64)> = commands.query_async(&mut self.connection).await?;
        if answers.len() == picks.len() { Ok(()) } else { Err("answers are missing".into()) }
    }
}

/// Ratekeeper: one limit, through a limiter whose buckets are shared.
pub(super) struct Shared {
    pub(super) limiter: Arc<Limiter>,
    pub(super) clock: Arc<Clock>,
    pub(super) batch: Batch,
    pub(super) limit: &'static str,
    pub(super) ids: Arc<[String]>,
}

impl Worker for Shared {
    async fn ask(&mut self, picks: &[usize]) -> Result<(), Failure> {
        let asks: Vec<_> =
            picks.iter().map(|&pick| Request::new(self.limit, &self.ids[pick], 1)).collect();
        let wherever = self.limiter.wherever();
        let answers = wherever.batch(&mut self.batch, &asks, self.clock.now()).await;
        for answer in answers.iter() {
            let _ = answer.map_err(ToString::to_string)?;
        }
        Ok(())
    }
}
