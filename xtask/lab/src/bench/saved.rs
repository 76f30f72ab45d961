//! Saving all buckets of a limiter, and restoring them, beside a plain copy of as many bytes.

use std::time::{Duration, Instant};

use ratekeeper::limits::{Limits, Source};
use ratekeeper::store::saved::{Reader, Writer};
use ratekeeper::{Limiter, Moment};

use super::Failure;

const MEMORY: usize = 1 << 30;
const TEXT: &str = "RequestsPerClient: {burst: 100, count: 1, period: 365d}";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many buckets, as a list
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000])]
    buckets: Vec<u64>,
    /// How many rounds; the fastest of each is shown
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    println!("milliseconds for all buckets, in memory\n");
    println!(
        "{:>10} {:>10} {:>8} {:>8} {:>8} {:>12} {:>12}",
        "buckets", "MiB", "copy", "save", "restore", "longest ask", "without"
    );
    for &buckets in &args.buckets {
        measure(buckets, args.rounds)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "shown to people")]
fn measure(buckets: u64, rounds: usize) -> Result<(), Failure> {
    let limits = Limits::parse(&Source { name: "limits.yaml", text: TEXT }, None)?;
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let limiter = Limiter::with_memory(limits.clone(), MEMORY)?;
    for n in 0..buckets {
        let _ = limiter.spend("RequestsPerClient", &format!("client-{n}"), 1, now)?;
    }
    let (mut file, mut other) = (Vec::new(), Vec::new());
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..rounds.max(1) {
        times[1].push(timed(|| save(&limiter, &mut file, now))?);
        times[0].push(timed(|| {
            other.clear();
            other.extend_from_slice(&file);
            Ok(())
        })?);
        times[2].push(timed(|| {
            let mut reader = Reader::new(file.as_slice())?;
            reader.next_section()?;
            let restored = Limiter::restore(limits.clone(), MEMORY, &mut reader, now)?;
            let keys = restored.held().keys as u64;
            if keys == buckets { Ok(()) } else { Err("buckets were lost".into()) }
        })?);
        times[3].push(longest_ask(&limiter, now, || save(&limiter, &mut file, now))?);
        // What the machine alone makes an ask wait, while the other thread is as busy.
        times[4].push(longest_ask(&limiter, now, || {
            for _ in 0..8 {
                other.copy_from_slice(&file);
            }
            Ok(())
        })?);
    }
    let [copy, save, restore, ask, without] =
        times.map(|times| times.into_iter().min().unwrap_or_default().as_secs_f64() * 1e3);
    let mib = file.len() as f64 / f64::from(1 << 20);
    println!(
        "{buckets:>10} {mib:>10.1} {copy:>8.1} {save:>8.1} {restore:>8.1} {ask:>12.3} {without:>12.3}"
    );
    Ok(())
}

fn save(limiter: &Limiter, file: &mut Vec<u8>, now: Moment) -> Result<(), Failure> {
    file.clear();
    let mut writer = Writer::new(file)?;
    limiter.save(&mut writer, now)?;
    writer.finish()?;
    Ok(())
}

/// How long somebody who asks all the time waits at most for one answer, while another thread is
/// at work.
fn longest_ask(
    limiter: &Limiter,
    now: Moment,
    work: impl FnOnce() -> Result<(), Failure> + Send,
) -> Result<Duration, Failure> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let mut longest = Duration::ZERO;
        for n in (0..1_000_u32).cycle() {
            if worker.is_finished() {
                break;
            }
            let id = format!("client-{n}");
            let ask = timed(|| Ok(limiter.check("RequestsPerClient", &id, 1, now).map(drop)?))?;
            longest = longest.max(ask);
        }
        worker.join().map_err(|_| "the other thread panicked")??;
        Ok(longest)
    })
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}
