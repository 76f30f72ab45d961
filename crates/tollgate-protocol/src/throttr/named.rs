//! Requests that the operator's limits answer: the resource is the name of a limit, the consumer
//! the id.

use tollgate::algorithm::quota::{Ask, Outcome, Unit};
use tollgate::limiter::EVERYBODY;
use tollgate::{Decision, Limiter, Mistake, Moment};

/// Answers a request as if the bucket of `consumer` were a quota. Who it is not about, because the
/// limit does not take such an id, has no quota.
pub(super) fn answer(
    limiter: &Limiter,
    limit: &str,
    consumer: &[u8],
    ask: &Ask,
    now: Moment,
) -> Outcome {
    let id = match consumer {
        [] => Ok(EVERYBODY),
        consumer => str::from_utf8(consumer),
    };
    let peek = |id| limiter.check(limit, id, 0, now);
    let unit = if let Ask::Insert { unit, .. } = ask { *unit } else { Unit::default() };
    let none = Outcome { unit, ..Outcome::default() };
    let Ok(id) = id else { return none };
    let decision = match ask {
        Ask::Insert { usage, .. } => match limiter.spend(limit, id, *usage, now) {
            Err(Mistake::CostAboveBurst { .. }) => {
                peek(id).map(|decision| Decision { allowed: false, ..decision })
            }
            decision => decision,
        },
        Ask::Query => peek(id),
        Ask::Purge => peek(id).and_then(|before| {
            if before.reset_in.is_zero() {
                return Ok(Decision { allowed: false, ..before });
            }
            limiter.reset(limit, id, now)
        }),
        // What an operator set, a client does not change.
        Ask::AmendQuota(..) | Ask::AmendLifetime(..) | Ask::Touch => return none,
    };
    let Ok(Decision { allowed, remaining, reset_in, .. }) = decision else { return none };
    let ttl = reset_in.get().checked_div(nanos(unit)).unwrap_or_default();
    let ttl = u64::try_from(ttl).unwrap_or(u64::MAX);
    Outcome { can: allowed, remaining, unit, ttl }
}

const fn nanos(unit: Unit) -> u128 {
    match unit {
        Unit::Nanoseconds => 1,
        Unit::Milliseconds => 1_000_000,
        Unit::Seconds => 1_000_000_000,
    }
}
