//! The server's clock, by which all processes cut terms.
//!
//! Each answer says what time it was there. It was written between the ask and the answer, so from
//! each answer follows how far ahead of the own clock that one is at least, and at most. What is
//! assumed is changed no more than it has to be. So it is wrong by no more than an answer takes.

use ratekeeper_time::{Moment, Nanos};

#[derive(Debug, Default)]
pub(super) struct ServerClock {
    /// How many nanoseconds it is ahead of ours, or behind if it is negative. None before the first
    /// answer.
    ahead: Option<i128>,
}

impl ServerClock {
    /// An answer to what was asked at a moment came now, and says what time it was there.
    pub(super) fn learn(&mut self, there: Moment, asked: Moment, now: Moment) {
        let [there, asked, now] = [there, asked.min(now), now].map(nanos);
        let (least, most) = (there - now, there - asked);
        self.ahead = Some(self.ahead.unwrap_or(least).clamp(least, most));
    }

    /// What it says now, if it was ever heard.
    pub(super) fn at(&self, now: Moment) -> Option<Moment> {
        let ahead = self.ahead?;
        let length = Nanos::new(ahead.unsigned_abs());
        Some(if ahead < 0 { now.before(length) } else { now.after(length) })
    }
}

fn nanos(moment: Moment) -> i128 {
    moment.as_nanos().into()
}

#[cfg(test)]
mod tests;
