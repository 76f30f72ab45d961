//! A budget that fills up little by little.
//!
//! Each response says how much was left when the request was counted, and when it would be full.
//! From then on at least that much and what has come back since is there, less what was counted
//! later. Here the least that was ever said would starve the caller, for what is left honestly
//! rises. So old responses must be superseded, and only by one that was counted after them.
//!
//! A request sent after a response was received is counted after it. So the least of all
//! responses since some moment replaces what was known as soon as one of them answers a request
//! sent after that moment; and then the next stretch begins. That takes one round trip or two,
//! and of the responses of a stretch the one that was counted last is always among them.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use super::fixed_end::FixedEnd;
use super::{Heard, Open};
use crate::headers::{Told, WAIT_MAX, Wait};
use crate::length::Length;

/// There are no windows: so long an answer is waited for beside its patience.
const WINDOW_UNKNOWN: Length = Length::from_nanos(1_000_000_000);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Level {
    known: Option<Line>,
    /// The least since `since`.
    fresh: Option<Line>,
    since: Moment,
    fixed_end: FixedEnd,
}

/// What is there at any moment, if nothing is taken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Line {
    at: Moment,
    left: u64,
    full_at: Moment,
    truly_secs: Option<f64>,
}

impl Level {
    pub(super) const fn new() -> Self {
        Self { known: None, fresh: None, since: Moment::EPOCH, fixed_end: FixedEnd(None) }
    }

    pub(super) fn learn(&mut self, told: &Told<'_>, limit: Option<u64>, cost: u64, heard: &Heard) {
        let limit = limit.or(told.remaining).unwrap_or(1).max(1);
        let Some(left) = told.remaining else { return self.spend(cost, Some(limit), heard) };
        let unsaid =
            || Wait { length: told.window.unwrap_or(heard.unsaid.into()), truly_secs: None };
        let wait = told.reset_in.unwrap_or_else(unsaid);
        let left = left.min(limit);
        let fill = if told.only_more { fill(told, wait, limit - left, limit) } else { wait.length };
        // One is there after the longest wait, whatever is said.
        let longest = Nanos::from(heard.longest).get().saturating_mul((limit - left).max(1).into());
        let fill = fill.min(Nanos::new(longest));
        let line = Line {
            at: heard.now,
            left,
            full_at: heard.now.after(fill),
            truly_secs: wait.truly_secs_beyond(heard.longest.into()),
        };
        self.fresh = Some(Line::least(self.fresh, line, limit));
        self.known = Some(Line::least(self.known, line, limit));
        if heard.sent >= self.since {
            self.known = self.fresh.take();
            self.since = heard.now;
        }
    }

    /// One is there after the longest wait from now on, whatever was said.
    pub(super) fn wait_at_most(&mut self, longest: Nanos, limit: Option<u64>, now: Moment) {
        for line in [&mut self.known, &mut self.fresh].into_iter().flatten() {
            let missing = limit.unwrap_or(1).saturating_sub(line.left).max(1);
            let fill = Nanos::new(longest.get().saturating_mul(missing.into()));
            line.full_at = line.full_at.min(now.after(fill));
        }
    }

    /// Whether a response shows, with those before, that all of it is there again at one moment.
    pub(super) fn is_window(&mut self, told: &Told<'_>, limit: Option<u64>, heard: &Heard) -> bool {
        let (Some(limit), Some(left), Some(wait), false) =
            (limit, told.remaining, told.reset_in, told.only_more)
        else {
            return false;
        };
        let fill = u64::try_from(wait.length.get()).unwrap_or(u64::MAX);
        self.fixed_end.is_seen(limit.saturating_sub(left), fill, heard)
    }

    pub(super) fn spend(&mut self, cost: u64, limit: Option<u64>, heard: &Heard) {
        let limit = limit.unwrap_or(1).max(1);
        let full = Line { at: heard.now, left: limit, full_at: heard.now, truly_secs: None };
        self.known.get_or_insert(full).spend(cost, limit, heard);
        // Only a response to a request that is sent from now on surely tells of it.
        self.fresh = None;
        self.since = heard.now;
    }

    pub(super) fn open(
        &self,
        limit: Option<u64>,
        cost: u64,
        in_flight: u64,
        now: Moment,
        credit: Length,
    ) -> Open {
        let Some(line) = self.known else {
            return if in_flight == 0 { Open::Now } else { Open::Probing };
        };
        // As much as is known to have been there; of a budget that is spent, one.
        let limit = limit.unwrap_or(line.left.max(1));
        let wanted = in_flight.saturating_add(cost.min(limit));
        if wanted <= line.left_at(now.after(credit.into()), limit) {
            return Open::Now;
        }
        match line.reaches(wanted, limit) {
            Some(at) => Open::At(at.before(credit.into()), line.truly_secs),
            None => Open::Answered { window: WINDOW_UNKNOWN, from: line.full_at },
        }
    }

    pub(super) fn predict(
        &self,
        limit: Option<u64>,
        cost: u64,
        ahead: u64,
        credit: Length,
    ) -> Option<Moment> {
        let (line, limit) = (self.known?, limit?);
        let wanted = ahead.saturating_add(cost.min(limit));
        let fill = line.full_at.since(line.at).get();
        let missing = u128::from(wanted.saturating_sub(line.left));
        let rate = u128::from((limit - line.left.min(limit)).max(1));
        let wait = missing.saturating_mul(fill).div_ceil(rate);
        Some(line.at.after(Nanos::new(wait)).before(credit.into()))
    }

    pub(super) fn left(&self, limit: Option<u64>, now: Moment, credit: Length) -> Option<u64> {
        let limit = limit?;
        Some(self.known.map_or(limit, |line| line.left_at(now.after(credit.into()), limit)))
    }

    /// How quickly it comes back: so much in so many nanoseconds.
    pub(super) fn refill(&self, limit: Option<u64>) -> Option<(u64, u64)> {
        let line = self.known?;
        let nanos = u64::try_from(line.full_at.since(line.at).get()).unwrap_or(u64::MAX);
        Some((limit?.saturating_sub(line.left), nanos)).filter(|&(much, _)| much > 0)
    }

    pub(super) fn reset_at(&self) -> Option<Moment> {
        self.known.map(|line| line.full_at)
    }
}

/// How long it takes until nothing is missing, where it is said only when there is one more.
fn fill(told: &Told<'_>, wait: Wait, missing: u64, limit: u64) -> Nanos {
    let missing = u128::from(missing);
    let each = wait.length.get().saturating_mul(missing);
    let all = told.window.map(|it| it.get().saturating_mul(missing).div_ceil(limit.into()));
    Nanos::new(all.unwrap_or(each)).max(wait.length).min(WAIT_MAX)
}

impl Line {
    /// The lower of the two at the moment of the second.
    fn least(known: Option<Self>, line: Self, limit: u64) -> Self {
        let Some(known) = known else { return line };
        let left = known.left_at(line.at, limit).min(line.left);
        let later = if known.full_at > line.full_at { known } else { line };
        Self { at: line.at, left, ..later }
    }

    fn left_at(&self, now: Moment, limit: u64) -> u64 {
        if now >= self.full_at {
            return limit;
        }
        let passed = now.since(self.at).get();
        let fill = self.full_at.since(self.at).get().max(1);
        let back = u128::from(limit.saturating_sub(self.left)).saturating_mul(passed) / fill;
        self.left.saturating_add(u64::try_from(back).unwrap_or(u64::MAX)).min(limit)
    }

    /// When there is as much as that; never if there is never so much.
    fn reaches(&self, wanted: u64, limit: u64) -> Option<Moment> {
        if wanted > limit {
            return None;
        }
        let missing = u128::from(wanted.saturating_sub(self.left));
        let fill = self.full_at.since(self.at).get();
        let rate = u128::from(limit.saturating_sub(self.left).max(1));
        Some(self.at.after(Nanos::new(missing.saturating_mul(fill).div_ceil(rate))))
    }

    fn spend(&mut self, cost: u64, limit: u64, heard: &Heard) {
        let missed = u128::from(limit.saturating_sub(self.left));
        let fill = self.full_at.since(self.at).get();
        self.left = self.left_at(heard.now, limit).saturating_sub(cost);
        self.at = heard.now;
        let missing = u128::from(limit.saturating_sub(self.left));
        // As quick as it was until now, where that can be told.
        let fill = missing.saturating_mul(fill).checked_div(missed);
        let fill = fill.map_or(heard.unsaid.into(), Nanos::new);
        self.full_at = heard.now.after(fill.min(WAIT_MAX));
    }
}
