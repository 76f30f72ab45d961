//! The server's clock, by which all processes cut terms.
//!
//! Each answer says which second it is there, in the header field `Date`. It was written between
//! the ask and the answer, and within that second; so from each answer follows how far ahead of the
//! own clock that one is at least, and at most. What is assumed is changed no more than it has to
//! be, and so comes to be right within the time that an answer takes. After the first answer two
//! processes differ by no more than a second and that time.

use tollgate::{Moment, Nanos};

const SECOND: i128 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct ServerClock {
    /// How many nanoseconds it is ahead of ours, or behind if it is negative.
    ahead: i128,
    /// Whether there was an answer, whatever it said.
    pub(super) is_asked: bool,
}

impl ServerClock {
    /// An answer to what was asked at a moment came now, and says in which second it was written.
    pub(super) fn learn(&mut self, second: Option<Moment>, asked: Moment, now: Moment) {
        self.is_asked = true;
        let Some(second) = second else { return };
        let [second, asked, now] = [second, asked.min(now), now].map(nanos);
        self.ahead = self.ahead.clamp(second - now, second + SECOND - asked);
    }

    /// What it says now.
    pub(super) fn at(&self, now: Moment) -> Moment {
        let length = Nanos::new(self.ahead.unsigned_abs());
        if self.ahead < 0 { now.before(length) } else { now.after(length) }
    }
}

fn nanos(moment: Moment) -> i128 {
    moment.as_nanos().into()
}

#[cfg(test)]
mod tests;
