//! How many instructions a decision takes: the same number on every run, however busy the machine.

use std::process::Command;

use tollgate::limiter::Batch;
use tollgate::limits::{Limit, Limits};
use tollgate::{Limiter, Moment, Nanos, Request};

use super::Failure;

/// Few enough for the cache, many enough that no branch is learnt by heart.
const KEYS: usize = 1_000;
const BATCH: usize = 64;
/// A burst that is not used up.
const WIDE: u64 = 1_000_000;
/// Two runs that differ only in this; what they have in common falls away.
const SHORT: u64 = 20_000;
const LONG: u64 = 220_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Be what is counted: decide this often
    #[arg(long, hide = true, requires = "what")]
    decisions: Option<u64>,
    #[arg(long, hide = true)]
    what: Option<What>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    Spend,
    Deny,
    Batch,
    Transaction,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let (Some(decisions), Some(what)) = (args.decisions, args.what) {
        return decide(what, decisions);
    }
    println!("instructions per decision, by name and id (callgrind)\n");
    for (name, what) in [
        ("one ask, allowed", "spend"),
        ("one ask, denied", "deny"),
        ("one ask of a batch of 64, allowed", "batch"),
        ("a transaction over two buckets, allowed", "transaction"),
    ] {
        let count = (instructions(what, LONG)? - instructions(what, SHORT)?) / (LONG - SHORT);
        println!("{count:>6}  {name}");
    }
    Ok(())
}

/// Runs this program again under callgrind, which tells its total on standard error.
fn instructions(what: &str, decisions: u64) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(std::env::current_exe()?).args(["bench", "count", "--what", what, "--decisions"]);
    let output = command.arg(decisions.to_string()).output().map_err(|error| {
        format!("valgrind counts the instructions and cannot be started ({error}): install it")
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let total = text.lines().find_map(|line| line.split_once("Collected : "));
    Ok(total.ok_or_else(|| format!("valgrind told no total:\n{text}"))?.1.trim().parse()?)
}

fn decide(what: What, decisions: u64) -> Result<(), Failure> {
    let limit = |burst| Limit::new(burst, 1, Nanos::from_secs(3_600));
    let limits = Limits::new().with("PerClient", limit(WIDE)?)?.with("PerSite", limit(WIDE)?)?;
    let limiter = Limiter::new(limits.with("Tight", limit(1)?)?)?;
    let ids: Vec<_> = (0..KEYS).map(|key| format!("client-{key:013}")).collect();
    let now = Moment::from_nanos(1_700_000_000_000_000_000);
    let asks = |name| ids.iter().map(|id| Request::new(name, id, 1)).collect::<Vec<_>>();
    let (mut batch, clients, sites) = (Batch::default(), asks("PerClient"), asks("PerSite"));
    for place in 0..usize::try_from(decisions)? {
        let key = place % KEYS;
        let allowed = match what {
            What::Spend => limiter.spend("PerClient", &ids[key], 1, now)?.allowed,
            What::Deny => limiter.spend("Tight", &ids[key], 1, now)?.allowed != (place >= KEYS),
            What::Batch if place.is_multiple_of(BATCH) => {
                let asks = clients.chunks(BATCH).nth(key / BATCH).unwrap_or_default();
                let answers = limiter.batch(&mut batch, asks, now);
                answers.iter().all(|answer| answer.is_ok_and(|it| it.allowed))
            }
            What::Batch => true,
            What::Transaction => {
                limiter.transaction(&[clients[key], sites[key]], now)?.decision.allowed
            }
        };
        if !allowed {
            return Err("what was counted is not what was meant".into());
        }
    }
    Ok(())
}
