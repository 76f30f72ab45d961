//! A limit that is known and never told: so many requests in any stretch of time, or at once.
//!
//! The server counts a request somewhere between its sending and its answer. So a request holds
//! one of the places from when it is sent until a whole window after its answer came. Whatever
//! kind of window the server has, it then never counts more than there are places. That needs
//! one moment for each request, and no guess at how late anything is. Where requests count for
//! several points, they hold as many places. A window of no length is a limit on how many are in
//! flight at once.

use std::collections::VecDeque;

use ratekeeper_time::{Moment, Nanos};

use crate::budget::Trip;
use crate::length::Length;
use crate::request::Request;

/// How much may be sent in any window.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The policy that a refusal names; empty where there is but one.
    pub name: &'static str,
    /// How many requests, or points; at least one, at most [`PACE_MAX`].
    pub count: u32,
    /// In how long. If it is zero, as many may be in flight.
    pub window: Nanos,
    /// What a request counts for: nothing if the pace does not apply to it. Each counts for one
    /// where this is left out.
    pub cost: Option<PaceCostFn>,
}

/// Two paces are the same if they count with the same function.
impl PartialEq for Pace {
    fn eq(&self, other: &Self) -> bool {
        let is_same_cost = match (self.cost, other.cost) {
            (Some(cost), Some(other)) => std::ptr::fn_addr_eq(cost, other),
            (cost, other) => cost.is_none() && other.is_none(),
        };
        let (this, that) = ((self.name, self.count), (other.name, other.count));
        this == that && self.window == other.window && is_same_cost
    }
}

impl Eq for Pace {}

/// What a request counts for in a pace.
pub type PaceCostFn = fn(&Request<'_>) -> u16;

/// The most places that a pace has: sixteen bytes are kept for each.
pub const PACE_MAX: u32 = 1 << 20;

impl Pace {
    /// So many requests in any such window.
    pub const fn new(count: u32, window: Nanos) -> Self {
        Self { name: "", count, window, cost: None }
    }

    /// So much in any such window, where requests count for as much as is told.
    pub const fn counting(name: &'static str, count: u32, window: Nanos, cost: PaceCostFn) -> Self {
        Self { name, count, window, cost: Some(cost) }
    }
}

/// The places of a pace, and who holds them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pace: Pace,
    in_flight: usize,
    /// When the answers came that still hold places, and how many each does, the earliest first.
    answered: VecDeque<(Moment, u16)>,
    /// How many places they hold.
    held: usize,
}

impl Places {
    pub(crate) fn new(pace: Pace) -> Self {
        let count = pace.count.clamp(1, PACE_MAX);
        let answered = VecDeque::with_capacity(count as usize);
        Self { pace: Pace { count, ..pace }, in_flight: 0, answered, held: 0 }
    }

    pub(crate) const fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When the answers came that hold places, and how many each does.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (Moment, u16)> {
        self.answered.iter().copied()
    }

    /// How many places are free now.
    pub(crate) fn free(&mut self, now: Moment, credit: Length) -> usize {
        while let Some(&(at, cost)) = self.answered.front()
            && self.leaves(at, credit) <= now
        {
            self.answered.pop_front();
            self.held -= usize::from(cost);
        }
        self.unheld()
    }

    /// How many places are free at a moment, for who only looks.
    pub(crate) fn left(&self, now: Moment, credit: Length) -> usize {
        let held = self.answered.iter().filter(|(at, _)| self.leaves(*at, credit) > now);
        let held = held.map(|(_, cost)| usize::from(*cost)).sum::<usize>();
        (self.pace.count as usize).saturating_sub(self.in_flight + held)
    }

    /// Whether no place is held any more.
    pub(crate) fn is_idle(&self, now: Moment) -> bool {
        self.in_flight == 0 && self.answered.iter().all(|(at, _)| at.after(self.pace.window) <= now)
    }

    /// When the next places are free for a request; `None` if that depends on answers that are still
    /// to come.
    pub(crate) fn opens_at(&self, cost: u16, credit: Length) -> Option<Moment> {
        let missing = self.needs(cost).saturating_sub(self.unheld());
        self.nth_held(missing.saturating_sub(1)).map(|at| self.leaves(at, credit))
    }

    /// How many places a request needs: those that need more than there are go when all are free.
    pub(crate) fn needs(&self, cost: u16) -> usize {
        usize::from(cost).min(self.pace.count as usize)
    }

    /// When a place is free for somebody who lets as many others be taken first, less than there
    /// are.
    pub(crate) fn opens_for(&self, before: usize, now: Moment, trip: Trip) -> Moment {
        let held = self.held + self.in_flight;
        // Who sends anyway may hold more than there are.
        let leave_first = (before + 1 + held).saturating_sub(self.pace.count as usize);
        match leave_first.checked_sub(1) {
            None => now,
            Some(nth) => match self.nth_held(nth) {
                Some(at) => self.leaves(at, trip.credit).max(now),
                None => now.after(self.cycle(trip)),
            },
        }
    }

    /// For how long a request usually holds its place.
    pub(crate) fn cycle(&self, trip: Trip) -> Nanos {
        let held = self.pace.window.get().saturating_add(trip.usual.get());
        Nanos::new(held.saturating_sub(self.pace.window.min(trip.credit.into()).get()))
    }

    pub(crate) fn take(&mut self, cost: u16) {
        self.in_flight += self.needs(cost);
    }

    /// The answer came: the places are held for another window.
    pub(crate) fn answer(&mut self, cost: u16, now: Moment) {
        self.give_back(cost);
        if self.pace.window.is_zero() {
            return;
        }
        let cost = u16::try_from(self.needs(cost)).unwrap_or(cost);
        if cost == 0 {
            return;
        }
        self.answered.push_back((now, cost));
        self.held += usize::from(cost);
        self.hold_no_more_than_there_are();
    }

    /// Who sends anyway may hold more; only the latest can matter.
    fn hold_no_more_than_there_are(&mut self) {
        let mut too_many = self.held.saturating_sub(self.pace.count as usize);
        self.held -= too_many;
        while let Some((_, cost)) = self.answered.front_mut().filter(|_| too_many > 0) {
            let less = too_many.min(usize::from(*cost));
            too_many -= less;
            *cost -= u16::try_from(less).unwrap_or(*cost);
            if *cost == 0 {
                self.answered.pop_front();
            }
        }
    }

    /// It was never sent.
    pub(crate) fn give_back(&mut self, cost: u16) {
        self.in_flight = self.in_flight.saturating_sub(self.needs(cost));
    }

    fn unheld(&self) -> usize {
        (self.pace.count as usize).saturating_sub(self.in_flight + self.held)
    }

    /// When the answer came that holds a place, counted from the earliest.
    fn nth_held(&self, nth: usize) -> Option<Moment> {
        if self.held == self.answered.len() {
            // Mostly each of them holds one.
            return self.answered.get(nth).map(|(at, _)| *at);
        }
        let mut held = 0;
        let mut answered = self.answered.iter();
        answered.find_map(|&(at, cost)| {
            held += usize::from(cost);
            (held > nth).then_some(at)
        })
    }

    fn leaves(&self, answered: Moment, credit: Length) -> Moment {
        answered.after(self.pace.window).before(self.pace.window.min(credit.into()))
    }
}

#[cfg(test)]
mod tests;
