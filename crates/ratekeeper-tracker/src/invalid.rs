//! Refused requests in a sliding stretch of time, for servers that ban whoever has too many.

use ratekeeper_time::{Moment, Nanos};

/// How many refused requests a server bears before it bans the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMax {
    /// As many as this are too many.
    pub count: u32,
    /// In how long; at most [`INVALID_SECS_MAX`] seconds.
    pub window: Nanos,
}

/// The longest stretch that is counted: each second of it takes four bytes.
pub const INVALID_SECS_MAX: u64 = 3_600;
const SECOND: u64 = 1_000_000_000;

/// Counts by the second, so that the memory is bounded whatever happens. A whole second is
/// forgotten when the last of it is old enough.
#[derive(Clone, Debug)]
pub(crate) struct Invalid {
    count: u32,
    seconds: Vec<u32>,
    /// The last second that was counted in.
    latest: u64,
    total: u64,
}

impl Invalid {
    pub(crate) fn new(max: InvalidMax) -> Self {
        let window = u64::try_from(max.window.get()).unwrap_or(u64::MAX).div_ceil(SECOND);
        // One more: the stretch that ends now begins within a second.
        let seconds = usize::try_from(window.clamp(1, INVALID_SECS_MAX)).unwrap_or(1) + 1;
        Self { count: max.count, seconds: vec![0; seconds], latest: 0, total: 0 }
    }

    pub(crate) fn add(&mut self, now: Moment) {
        self.add_many(now, 1);
    }

    /// So many were refused then, or since, if others were counted after them.
    pub(crate) fn add_many(&mut self, now: Moment, count: u32) {
        self.advance(now);
        let place = self.place(self.latest);
        let known = self.seconds[place];
        self.seconds[place] = known.saturating_add(count);
        self.total += u64::from(self.seconds[place] - known);
    }

    /// The ends of the seconds in which some were refused, the earliest first, and how many.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Moment, u32)> {
        let all = self.seconds.len() as u64;
        let oldest = (self.latest + 1).saturating_sub(all);
        let ends = (oldest..=self.latest).map(|second| {
            let end = Moment::from_nanos(second.saturating_mul(SECOND) + SECOND - 1);
            (end, self.seconds[self.place(second)])
        });
        ends.filter(|(_, count)| *count > 0)
    }

    /// How many more may be refused, if those in flight all are.
    pub(crate) fn left(&mut self, in_flight: usize, now: Moment) -> u64 {
        self.advance(now);
        u64::from(self.count).saturating_sub(1 + self.total + in_flight as u64)
    }

    /// Whether none is counted any more.
    pub(crate) fn is_idle(&self, now: Moment) -> bool {
        let seconds = self.seconds.len() as u64;
        self.total == 0 || now.as_nanos() / SECOND >= self.latest.saturating_add(seconds)
    }

    /// When the first of those that are counted is forgotten.
    pub(crate) fn frees_at(&self) -> Option<Moment> {
        let all = self.seconds.len() as u64;
        let oldest = (0..all).map(|n| (self.latest + 1 + n).saturating_sub(all));
        let first = oldest.into_iter().find(|&second| self.seconds[self.place(second)] > 0)?;
        Some(Moment::from_nanos((first + all).saturating_mul(SECOND)))
    }

    fn advance(&mut self, now: Moment) {
        let second = (now.as_nanos() / SECOND).max(self.latest);
        let steps = (second - self.latest).min(self.seconds.len() as u64);
        for step in 1..=steps {
            let place = self.place(second - steps + step);
            self.total -= u64::from(std::mem::take(&mut self.seconds[place]));
        }
        self.latest = second;
    }

    fn place(&self, second: u64) -> usize {
        usize::try_from(second % self.seconds.len() as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
