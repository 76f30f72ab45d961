//! A limit that is known and never told: so many requests in any stretch of time.
//!
//! The server counts a request somewhere between its sending and its answer. So a request holds
//! one of the places from when it is sent until a whole window after its answer came. Whatever
//! kind of window the server has, it then never counts more than there are places. That needs
//! one moment for each place, and no guess at how late anything is.

use std::collections::VecDeque;

use tollgate::{Moment, Nanos};

use crate::budget::Trip;
use crate::length::Length;

/// How many requests may be sent in any window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How many; at least one, at most [`PACE_MAX`].
    pub count: u32,
    /// In how long.
    pub window: Nanos,
}

/// The most places that a pace has: each takes eight bytes.
pub const PACE_MAX: u32 = 1 << 20;

/// The places of a pace, and who holds them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pace: Pace,
    in_flight: usize,
    /// When the answers came that still hold a place, the earliest first.
    answered: VecDeque<Moment>,
}

impl Places {
    pub(crate) fn new(pace: Pace) -> Self {
        let count = pace.count.clamp(1, PACE_MAX);
        let answered = VecDeque::with_capacity(count as usize);
        Self { pace: Pace { count, ..pace }, in_flight: 0, answered }
    }

    pub(crate) const fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many places are free now.
    pub(crate) fn free(&mut self, now: Moment, credit: Length) -> usize {
        while self.answered.front().is_some_and(|&at| self.leaves(at, credit) <= now) {
            self.answered.pop_front();
        }
        self.unheld()
    }

    /// How many places are free at a moment, for who only looks.
    pub(crate) fn left(&self, now: Moment, credit: Length) -> usize {
        let held = self.answered.iter().filter(|&&at| self.leaves(at, credit) > now).count();
        (self.pace.count as usize).saturating_sub(self.in_flight + held)
    }

    /// When the next place is free; `None` if that depends on answers that are still to come.
    pub(crate) fn opens_at(&self, credit: Length) -> Option<Moment> {
        self.answered.front().map(|&at| self.leaves(at, credit))
    }

    /// When a place is free for somebody who lets `before` others go first, less than there are
    /// places.
    pub(crate) fn opens_for(&self, before: usize, now: Moment, trip: Trip) -> Moment {
        let held = self.answered.len() + self.in_flight;
        // Who sends anyway may hold more than there are.
        let leave_first = (before + 1 + held).saturating_sub(self.pace.count as usize);
        match leave_first.checked_sub(1) {
            None => now,
            Some(nth) => match self.answered.get(nth) {
                Some(&at) => self.leaves(at, trip.credit).max(now),
                None => now.after(self.cycle(trip)),
            },
        }
    }

    /// For how long a request usually holds its place.
    pub(crate) fn cycle(&self, trip: Trip) -> Nanos {
        let held = self.pace.window.get().saturating_add(trip.usual.get());
        Nanos::new(held.saturating_sub(self.pace.window.min(trip.credit.into()).get()))
    }

    pub(crate) fn take(&mut self) {
        self.in_flight += 1;
    }

    /// The answer came: the place is held for another window.
    pub(crate) fn answer(&mut self, now: Moment) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // Who sends anyway may hold more than there are; only the latest can matter.
        if self.answered.len() >= self.pace.count as usize {
            self.answered.pop_front();
        }
        self.answered.push_back(now);
    }

    /// It was never sent.
    pub(crate) fn give_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn unheld(&self) -> usize {
        (self.pace.count as usize).saturating_sub(self.in_flight + self.answered.len())
    }

    fn leaves(&self, answered: Moment, credit: Length) -> Moment {
        answered.after(self.pace.window).before(self.pace.window.min(credit.into()))
    }
}

#[cfg(test)]
mod tests;
