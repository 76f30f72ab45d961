//! A limiter inside a program of your own. Run it with
//!
//! ```text
//! cargo run -p ratekeeper --example embed
//! ```
//!
//! It reads the clock once and never sleeps. Time is an argument, so "a second later" is a number
//! that is added; a real program would pass `clock.now()` each time.

use std::error::Error;

use ratekeeper::limits::{Limits, Source};
use ratekeeper::{Clock, Limiter, Mistake, Moment, Request};

/// What everybody may do. A real program reads this from a file.
const LIMITS: &str = "
SearchesPerUser:
  burst: 3        # three at once ..
  count: 1        # .. and one more ..
  period: 1s      # .. every second

SearchesPerAddress:
  burst: 100
  count: 100
  period: 1m
  id: ipAddress   # 2001:DB8::1 and 2001:db8:0:0::1 are the same id
";

/// What some may do instead.
const OVERRIDES: &str = "
- SearchesPerUser:
    burst: 50
    count: 50
    period: 1s
    ids:
      - {id: grace, comment: runs the nightly report}
";

fn main() -> Result<(), Box<dyn Error>> {
    // Parsing tells everything that is wrong with either text, with line and column. What comes
    // out of it is valid, and nobody has to check it again.
    let defaults = Source { name: "limits.yaml", text: LIMITS };
    let overrides = Source { name: "overrides.yaml", text: OVERRIDES };
    let limits = Limits::parse(&defaults, Some(&overrides))?;

    // All the memory that the buckets may ever use is reserved here. Share the limiter between
    // threads as you like: every method takes `&self`.
    let limiter = Limiter::with_memory(limits, 16 << 20)?;

    // The limiter never reads a clock; this one never steps backwards.
    let clock = Clock::start();
    let now = clock.now();

    let later = spend_until_denied(&limiter, now)?;
    spend_both_or_neither(&limiter, later)?;
    ask_for_somebody_with_an_override(&limiter, later)?;
    make_a_mistake(&limiter, later);
    Ok(())
}

/// A denial is an answer: it says how long to wait, and the wait is exact. Returns the moment at
/// its end.
fn spend_until_denied(limiter: &Limiter, now: Moment) -> Result<Moment, Mistake> {
    println!("Ada searches, again and again:");
    for search in 1.. {
        let decision = limiter.spend("SearchesPerUser", "ada", 1, now)?;
        if !decision.allowed {
            println!("  search {search}: denied, try again in {}", decision.retry_in);
            let later = now.after(decision.retry_in);
            let again = limiter.spend("SearchesPerUser", "ada", 1, later)?;
            println!("  {} later: {}\n", decision.retry_in, word(again.allowed));
            return Ok(later);
        }
        println!("  search {search}: allowed, {} left", decision.remaining);
    }
    Ok(now)
}

/// Several limits at once. If one of them says no, none of them is charged.
fn spend_both_or_neither(limiter: &Limiter, now: Moment) -> Result<(), Mistake> {
    println!("Ada's search counts for her and for her address:");
    let asks = [
        Request::new("SearchesPerUser", "ada", 1),
        Request::new("SearchesPerAddress", "2001:db8::1", 1),
    ];
    let merged = limiter.transaction(&asks, now)?;
    println!("  {}, decided by {}", word(merged.decision.allowed), asks[merged.decided_by].limit);

    // A cost of zero is a look: it takes nothing.
    let address = limiter.check("SearchesPerAddress", "2001:db8::1", 0, now)?;
    println!("  the address still has {} left\n", address.remaining);
    Ok(())
}

/// Which limit applies, where it is written, why, and the arithmetic of an answer.
fn ask_for_somebody_with_an_override(limiter: &Limiter, now: Moment) -> Result<(), Mistake> {
    println!("Grace may do more:");
    let decision = limiter.spend("SearchesPerUser", "grace", 20, now)?;
    println!("  20 searches at once: {}, {} left\n", word(decision.allowed), decision.remaining);
    println!("{}", limiter.explain("SearchesPerUser", "grace", 1, now)?);
    Ok(())
}

/// An ask that could never be decided is an error, not a denial.
fn make_a_mistake(limiter: &Limiter, now: Moment) {
    println!("A mistake says what was perhaps meant:");
    if let Err(mistake) = limiter.spend("SearchPerUser", "ada", 1, now) {
        println!("  {mistake}");
    }
}

fn word(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}
