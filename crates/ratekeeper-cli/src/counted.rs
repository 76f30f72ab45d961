//! Counters of a server, as people are shown them.

use ratekeeper::{Brief, Nanos};
use ratekeeper_server::stats::{BusyOf, Rulings};

/// What limits are called that are shown together.
pub(crate) const OTHERS: &str = "(others)";

/// How often an id was counted: exactly, or between two numbers.
pub(crate) fn count(busy: &BusyOf) -> String {
    match busy.error {
        0 => busy.count.to_string(),
        error => format!("{} to {}", busy.count.saturating_sub(error), busy.count),
    }
}

/// A length of time, if there was something to take it.
pub(crate) fn time(micros: u64, requests: u64) -> String {
    match requests {
        0 => "-".to_owned(),
        _ => Nanos::new(u128::from(micros) * 1_000).brief().to_string(),
    }
}

/// How long something lasts already: in whole minutes from an hour on, and in whole hours from a day.
pub(crate) fn so_far(secs: u64) -> Brief {
    let step = match secs {
        86_400.. => 3_600,
        3_600.. => 60,
        _ => 1,
    };
    Nanos::from_secs(secs / step * step).brief()
}

/// How often a limit was asked.
pub(crate) fn asked(it: Rulings) -> u64 {
    it.allowed.saturating_add(it.denied).saturating_add(it.shadow)
}

/// What several limits decided together.
pub(crate) fn sum<'a>(all: impl IntoIterator<Item = &'a Rulings>) -> Rulings {
    all.into_iter().fold(Rulings::default(), |sum, it| Rulings {
        allowed: sum.allowed.saturating_add(it.allowed),
        denied: sum.denied.saturating_add(it.denied),
        shadow: sum.shadow.saturating_add(it.shadow),
    })
}
