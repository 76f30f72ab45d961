//! What callers see while Redis is away, and what Redis sees of a flood that is denied.

use std::time::Duration;

use ratekeeper_redis::WITHIN_DEFAULT;
use tokio::time::sleep;

use super::super::Failure;
use super::load::{self, Load, Shape};
use super::server::Server;
use super::{Args, Ratekeeper};

/// How long Redis is away.
const AWAY: Duration = Duration::from_secs(2);
/// How long after its start it must decide again.
const BACK_MAX: Duration = Duration::from_secs(1);
/// How long to wait before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long the flood is.
const FLOOD: Duration = Duration::from_secs(2);
/// How many commands a second it may put on Redis.
const COMMANDS_MAX: f64 = 100.0;

/// Kills Redis under load, starts it again, and prints what decisions took meanwhile.
pub(super) async fn run(args: &Args, server: &mut Server) -> Result<Vec<String>, Failure> {
    let ratekeeper = Ratekeeper::open(server, args.buckets, WITHIN_DEFAULT)?;
    let exact = || ratekeeper.worker("Exact");
    let shape = args.shape();
    let before = Shape { length: Duration::from_millis(500), ..shape };
    load::run(before, args.buckets, exact).await?;
    // It is killed while everything is under way, and all that follows is counted.
    let killing = async {
        sleep(LOOK_AGAIN).await;
        server.kill()
    };
    let down = Shape { length: AWAY, ..shape };
    let (killed, down) = tokio::join!(killing, load::run(down, args.buckets, exact));
    killed?;
    let down = down?;
    let (back, after) = back(&ratekeeper, server, Shape { length: AWAY, ..shape }, args).await?;
    println!(
        "while Redis is down: {:.0} decisions/s, p50 {:.3} ms, p99 {:.3} ms, longest {:.3} ms",
        down.per_second,
        down.at(50),
        down.at(99),
        down.longest()
    );
    println!(
        "Redis decides again {:.0} ms after it was started; p99 {:.3} ms meanwhile",
        back.as_secs_f64() * 1e3,
        after.at(99)
    );
    let mut misses = Vec::new();
    if down.at(99) > WITHIN_DEFAULT.as_secs_f64() * 1e3 {
        misses.push(format!("decisions take {:.1} ms while Redis is down", down.at(99)));
    }
    if back > BACK_MAX {
        misses.push(format!("Redis decides again only after {back:?}"));
    }
    Ok(misses)
}

/// How long after its start the server decided something, while the load went on.
async fn back(
    ratekeeper: &Ratekeeper,
    server: &mut Server,
    shape: Shape,
    args: &Args,
) -> Result<(Duration, Load), Failure> {
    let decided = ratekeeper.health().decided;
    let start = load::now();
    server.restart()?;
    let watching = async {
        while ratekeeper.health().decided == decided && start.elapsed() < shape.length {
            sleep(LOOK_AGAIN).await;
        }
        start.elapsed()
    };
    let exact = || ratekeeper.worker("Exact");
    let (back, load) = tokio::join!(watching, load::run(shape, args.buckets, exact));
    Ok((back, load?))
}

/// Floods one bucket that is empty, and prints how much of it reaches Redis.
pub(super) async fn flood(args: &Args, server: &Server) -> Result<Vec<String>, Failure> {
    let ratekeeper = Ratekeeper::open(server, 1, WITHIN_DEFAULT)?;
    let denied = || ratekeeper.worker("Denied");
    // Takes the only token, and is told so.
    let first = Shape { depth: 1, in_flight: 1, length: Duration::from_millis(10) };
    load::run(first, 1, denied).await?;
    let before = server.number("total_commands_processed")?;
    let flood = load::run(Shape { length: FLOOD, ..args.shape() }, 1, denied).await?;
    let commands = server.number("total_commands_processed")?.saturating_sub(before);
    let per_second = f64::from(u32::try_from(commands)?) / FLOOD.as_secs_f64();
    println!(
        "a flood of {:.0} asks/s on one bucket that is empty: {per_second:.1} commands/s on Redis",
        flood.per_second
    );
    let is_too_much = per_second >= COMMANDS_MAX;
    Ok(is_too_much
        .then(|| format!("the flood puts {per_second:.0} commands/s on Redis"))
        .into_iter()
        .collect())
}
