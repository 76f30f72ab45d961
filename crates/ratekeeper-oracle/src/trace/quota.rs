//! What a quota with a lifetime cannot have answered.
//!
//! A quota begins with an ask that finds none, has room for so many, and ends a lifetime later
//! whatever happens. It is assumed that all who use it ask for the same quota and lifetime.

use super::{Counted, Findings, Said, Seen, Why, answered, windows};
use crate::terms::Terms;

/// Judges asks of a quota that has room for so many of them.
///
/// **Allowed.** Two quotas begin at least a lifetime apart, so in a window of time `w` at most
/// `w / lifetime + 1` begin, and one more may be there when it begins: at most
/// `2 * room + w * room / lifetime` asks pass, which is what a bucket of tokens allows.
///
/// **Denied.** Once a lifetime has passed since the start, whoever is denied finds a quota that an
/// ask of ours began less than a lifetime ago, and that is used up since: all its users are among
/// those that may have been decided in that time.
pub(super) fn judge(room: u64, ttl_ns: u64, start: u64, asks: &[Seen], findings: &mut Findings) {
    if room == 0 {
        for ask in asks.iter().filter(|ask| ask.said == Said::Allowed) {
            findings.over(ask, Why::Never);
        }
        return;
    }
    let terms = Terms { burst: 2 * room, count: room, period_ns: ttl_ns };
    windows::judge(terms, 1, asks, findings);
    let counted = Counted::new(asks.iter().filter(|ask| ask.said != Said::Denied).copied());
    for ask in &answered(asks, Said::Denied) {
        let Some(from) = ask.sent.checked_sub(ttl_ns).filter(|from| *from >= start) else {
            continue;
        };
        let most = u64::try_from(counted.during(from, ask.received)).unwrap_or(u64::MAX);
        if most < room {
            findings.wrong(ask, Why::Unused { most, room });
        }
    }
}
