//! `cargo xtask memory`: what keys cost, that the cap holds, and that a flood of one limit changes no
//! answer of another.

use std::process::Command;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Decision, Limiter, Moment};
use ratekeeper_testkit::oracle::{Answer, Bucket};
use ratekeeper_testkit::terms::Terms;

use crate::bench::Failure;

/// What one live key may take, everything included.
const BYTES_PER_KEY_MAX: f64 = 48.0;
/// What the process may take, as a part of the cap.
const OF_CAP_MAX: f64 = 1.1;
/// Nothing but the keys should weigh: below this many, the program itself does.
const MIB: usize = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many live keys to hold
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// How many one-shot keys to flood the store with
    #[arg(long, default_value_t = 20_000_000)]
    flood: u64,
    /// The cap that the flood meets, in MiB
    #[arg(long, default_value_t = 256)]
    cap: usize,
    /// How many busy keys must not notice
    #[arg(long, default_value_t = 1_000)]
    busy: usize,
    /// How many hostile ids to flood a limit with: one third each asks once, twice, and up to its burst
    #[arg(long, default_value_t = 20_000_000)]
    hostile: u64,
    /// The cap that the hostile ids meet, in MiB
    #[arg(long, default_value_t = 64)]
    hostile_cap: usize,
    /// Only one of the parts, in this process
    #[arg(long, hide = true)]
    only: Option<Part>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    Live,
    Flood,
    Hostile,
}

/// Measures each part in a process of its own, so that one does not weigh on the other.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match args.only {
        Some(Part::Live) => live(args.keys),
        Some(Part::Flood) => flood(args),
        Some(Part::Hostile) => hostile(args),
        None => {
            let fresh = |part: &str| -> Result<(), Failure> {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(std::env::args_os().skip(1)).args(["--only", part]);
                let status = command.status()?;
                if status.success() { Ok(()) } else { Err(format!("{part} failed").into()) }
            };
            fresh("live")?;
            fresh("flood")?;
            fresh("hostile")
        }
    }
}

fn live(keys: u64) -> Result<(), Failure> {
    let before = resident("VmRSS")?;
    // Room for twice as many, so that it is not the cap that keeps it small.
    let cap = usize::try_from(keys)? * 96 + 64 * MIB;
    let limiter = limiter("Live: {burst: 100, count: 100, period: 365d}", cap)?;
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    for key in 0..keys {
        let _ = limiter.spend("Live", &format!("user-{key:015}"), 1, now)?;
        progress(key, keys, "live keys");
    }
    let held = limiter.held();
    let bytes = resident("VmHWM")?.saturating_sub(before);
    let each = ratio(bytes, keys);
    println!(
        "{} live keys: {} MiB, {each:.1} bytes each (at most {BYTES_PER_KEY_MAX})",
        held.keys,
        bytes / 1024 / 1024
    );
    if u64::try_from(held.keys)? != keys || held.tally.evicted > 0 {
        return Err(format!("keys were lost: {held:?}").into());
    }
    if each > BYTES_PER_KEY_MAX { Err("that is too much".into()) } else { Ok(()) }
}

const VISITORS: &str = "Visitors: {burst: 20, count: 20, period: 1h}";
const BUSY_TERMS: Terms = Terms { burst: 20, count: 20, period_ns: 1_000_000_000 };
/// Rounds that a key asks in before it pauses as long.
const CLUMP: u64 = 4;
/// Asks of strangers between two asks of busy keys.
const STRANGERS: u64 = 5;

/// Half of the busy keys ask twice as often as they may, half as often as they may but in clumps;
/// in between, strangers ask once and never again.
fn flood(args: &Args) -> Result<(), Failure> {
    let text = format!("{VISITORS}\nBusy: {{burst: 20, count: 20, period: 1s}}\n");
    let limiter = limiter(&text, args.cap * MIB)?;
    let mut oracle = vec![Bucket::new(BUSY_TERMS); args.busy];
    let step = 1_000_000_000 / (40 * u64::try_from(args.busy)? * STRANGERS);
    let (mut asked, mut denied, mut wrong) = (0_u64, 0_u64, 0_u64);
    for stranger in 0..args.flood {
        let at = 1_700_000_000_000_000_000 + stranger * step;
        let now = Moment::from_nanos(at);
        let _ = limiter.spend("Visitors", &format!("stranger-{stranger:012}"), 1, now)?;
        let turn = stranger / STRANGERS;
        let key = usize::try_from(turn % u64::try_from(args.busy)?)?;
        let round = turn / u64::try_from(args.busy)?;
        let is_pausing = key % 2 == 1 && round / CLUMP % 2 == 1;
        if stranger % STRANGERS == 0 && !is_pausing {
            let decision = limiter.spend("Busy", &format!("busy-{key}"), 1, now)?;
            let exact = oracle[key].spend(1, at).map_err(|mistake| format!("{mistake:?}"))?;
            wrong += u64::from(!agrees(&decision, &exact));
            denied += u64::from(!exact.allowed);
            asked += 1;
        }
        progress(stranger, args.flood, "strangers");
    }
    let (held, peak, cap) = (limiter.held(), resident("VmHWM")?, args.cap * MIB);
    let part = ratio(peak, u64::try_from(cap)?);
    println!(
        "{} strangers under a cap of {} MiB: the process took {} MiB at most, {part:.2} of the cap \
         (at most {OF_CAP_MAX}); {} keys held, {} forgotten",
        args.flood,
        args.cap,
        peak / 1024 / 1024,
        held.keys,
        held.tally.evicted
    );
    println!(
        "{} busy keys: {wrong} wrong decisions of {asked}, {denied} of them denials",
        args.busy
    );
    let is_full = held.tally.evicted > 0;
    match (wrong, part <= OF_CAP_MAX, is_full) {
        (0, true, true) => Ok(()),
        (0, true, false) => Err("the flood did not reach the cap: use more strangers".into()),
        (0, false, _) => Err("that is too much memory".into()),
        _ => Err("busy keys were answered wrongly".into()),
    }
}

const HOSTILE: &str = "Hostile: {burst: 3, count: 3, period: 1000h}";
const HOURLY_TERMS: Terms = Terms { burst: 5, count: 5, period_ns: 3_600_000_000_000 };
/// How many ids of each kind there are beside the hostile ones.
const OTHERS: usize = 1_000;
/// Hostile ids between two asks of others.
const HOSTILE_BETWEEN: u64 = 5;

/// An id that must not notice a flood, and what it must be answered.
struct Watched {
    limit: &'static str,
    id: String,
    exact: Bucket,
    asked: u64,
    wrong: u64,
}

impl Watched {
    fn new(limit: &'static str, terms: Terms, id: String) -> Self {
        Self { limit, id, exact: Bucket::new(terms), asked: 0, wrong: 0 }
    }

    fn spend(&mut self, limiter: &Limiter, cost: u64, at: u64) -> Result<(), Failure> {
        let decision = limiter.spend(self.limit, &self.id, cost, Moment::from_nanos(at))?;
        let exact = self.exact.spend(cost, at).map_err(|mistake| format!("{mistake:?}"))?;
        self.asked += 1;
        self.wrong += u64::from(!agrees(&decision, &exact));
        Ok(())
    }
}

/// A flood of one limit, by ids that ask once, twice and up to their burst, beside ids of others that
/// are busy, that are being denied, and that are empty and silent until the end.
fn hostile(args: &Args) -> Result<(), Failure> {
    let text = format!(
        "{HOSTILE}\nBusy: {{burst: 20, count: 20, period: 1s}}\nHourly: {{burst: 5, count: 5, period: 1h}}\n"
    );
    let limiter = limiter(&text, args.hostile_cap * MIB)?;
    let start = 1_700_000_000_000_000_000;
    let kind = |limit, terms, what: &str| -> Vec<Watched> {
        (0..OTHERS).map(|n| Watched::new(limit, terms, format!("{what}-{n}"))).collect()
    };
    let mut busy = kind("Busy", BUSY_TERMS, "busy");
    let mut denied = kind("Hourly", HOURLY_TERMS, "denied");
    let mut silent = kind("Hourly", HOURLY_TERMS, "silent");
    for watched in denied.iter_mut().chain(&mut silent) {
        watched.spend(&limiter, 5, start)?;
    }
    // All within six minutes, so that nothing comes back to who spent all of the hour.
    let step = 360_000_000_000 / args.hostile.max(1);
    for n in 0..args.hostile {
        let (id, at) = (format!("hostile-{n:012}"), start + n * step);
        for _ in 0..=n % 3 {
            let _ = limiter.spend("Hostile", &id, 1, Moment::from_nanos(at))?;
        }
        if n % HOSTILE_BETWEEN == 0 {
            let turn = usize::try_from(n / HOSTILE_BETWEEN)? % OTHERS;
            busy[turn].spend(&limiter, 1, at)?;
            denied[turn].spend(&limiter, 1, at)?;
        }
        progress(n, args.hostile, "hostile ids");
    }
    for watched in &mut silent {
        watched.spend(&limiter, 1, start + args.hostile * step)?;
    }
    println!(
        "{} hostile ids under a cap of {} MiB: {:?}",
        args.hostile,
        args.hostile_cap,
        limiter.held()
    );
    let mut wrong = 0;
    for (what, watched) in [("busy", &busy), ("denied", &denied), ("silent", &silent)] {
        let sum = |count: fn(&Watched) -> u64| watched.iter().map(count).sum::<u64>();
        println!("{OTHERS} {what} ids: {} wrong of {}", sum(|it| it.wrong), sum(|it| it.asked));
        wrong += sum(|it| it.wrong);
    }
    let tally = limiter.held().tally;
    match wrong {
        0 if tally.evicted + tally.turned_away == 0 => {
            Err("the flood did not reach the cap: use more hostile ids".into())
        }
        0 => Ok(()),
        _ => Err("ids of other limits were answered wrongly".into()),
    }
}

fn agrees(decision: &Decision, exact: &Answer) -> bool {
    decision.allowed == exact.allowed
        && decision.remaining == exact.remaining
        && decision.retry_in.get() == exact.retry_in
        && decision.reset_in.get() == exact.reset_in
}

fn limiter(text: &str, cap: usize) -> Result<Limiter, Failure> {
    let limits = Limits::parse(&Source { name: "limits.yaml", text }, None)?;
    Ok(Limiter::with_memory(limits, cap)?)
}

/// A line of the system's account of this process, in bytes.
fn resident(key: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no such line")?;
    Ok(kib.parse::<u64>()? * 1024)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one or two digits")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn progress(done: u64, all: u64, what: &str) {
    if done % 1_000_000 == 999_999 {
        eprintln!("{} of {} million {what}", (done + 1) / 1_000_000, all / 1_000_000);
    }
}
