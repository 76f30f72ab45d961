//! Requests that the operator's limits answer: the resource is the name of a limit, the consumer
//! the id.

use tollgate::algorithm::quota::{Ask, Outcome, Unit};
use tollgate::limiter::{EVERYBODY, Wherever};
use tollgate::{Decision, Mistake, Moment};

/// Answers a request as if the bucket of `consumer` were a quota. Who it is not about, because the
/// limit does not take such an id, has no quota.
pub(super) async fn answer(
    limiter: Wherever<'_>,
    limit: &str,
    consumer: &[u8],
    ask: &Ask,
    now: Moment,
) -> Outcome {
    let id = match consumer {
        [] => Ok(EVERYBODY),
        consumer => str::from_utf8(consumer),
    };
    let unit = if let Ask::Insert { unit, .. } = ask { *unit } else { Unit::default() };
    let none = Outcome { unit, ..Outcome::default() };
    let Ok(id) = id else { return none };
    let peek = || limiter.check(limit, id, 0, now);
    let refused = |decision| Decision { allowed: false, ..decision };
    let decision = match ask {
        Ask::Insert { usage, .. } => match limiter.spend(limit, id, *usage, now).await {
            Err(Mistake::CostAboveBurst { .. }) => peek().await.map(refused),
            decision => decision,
        },
        Ask::Query => peek().await,
        Ask::Purge => match peek().await {
            Ok(before) if before.reset_in.is_zero() => Ok(refused(before)),
            Ok(_) => limiter.reset(limit, id, now).await,
            mistake => mistake,
        },
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
