//! When it would be somebody's turn.
//!
//! Those who wait for a limit on all requests go by age, each as soon as its own bucket lets it and
//! a place is free. So the turn of who comes now is the first moment at which there is a place that
//! none of them can take. To find it, what they will do is played through, with round trips as long
//! as they usually are; and what is left over of the places is kept until something changes.
//!
//! It is as exact as round trips are. Whoever is off by one place, though, is off by a whole window
//! of the limit, for places that were taken together are free again together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use tollgate::{Moment, Nanos};

use super::{ShutToAll, Tracker};
use crate::arena::Slot;
use crate::bucket::Shut;
use crate::budget::{Refill, Trip};
use crate::headers::Unit;
use crate::pace::Places;
use crate::profile::Route;
use crate::request::Costs;
use crate::verdict::{Limited, Reason};

/// How many of those who wait are played through. The rest is taken to go as quickly as the limit
/// on all requests lets them.
const PLAYED_MAX: usize = 1_024;

/// What those who wait will leave over of the limit on all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    /// Whether nothing has changed since it was made.
    is_true: bool,
    /// The times at which a place is free and nobody who waits can go, in order. The last one has
    /// no end.
    gaps: Vec<Gap>,
    /// When they go, the first [`PLAYED_MAX`] of them.
    goes: Vec<Moment>,
    /// How many more there are.
    more: usize,
    /// The next of each line that its bucket keeps waiting.
    heads: BinaryHeap<Reverse<Head>>,
    /// The next of each line that only lacks a place, by age.
    ready: BinaryHeap<Reverse<(u64, Head)>>,
    /// The delays of the last of each line.
    tails: HashMap<Slot, Delay>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    from: Moment,
    until: Moment,
}

/// The next of a line. Those that go earlier sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    /// When it may go by its bucket alone.
    opens: Moment,
    slot: Slot,
    waiter: Slot,
    number: u64,
    /// How many of the line went before.
    nth: u64,
    delay: Delay,
}

/// By how much a window is later than if the line had its bucket to itself: it begins with the first
/// that goes, and others may keep that one waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Delay {
    this: Nanos,
    /// That of the window after it, once it is known when this one begins.
    next: Option<Nanos>,
}

/// When places are free.
#[derive(Clone, Copy, Debug)]
struct Terms<'p> {
    places: &'p Places,
    now: Moment,
    /// Nobody goes before.
    from: Moment,
    trip: Trip,
}

impl Forecast {
    pub(super) const fn is_true(&self) -> bool {
        self.is_true
    }

    /// Something has changed.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.is_true = false;
    }

    fn clear(&mut self) {
        self.gaps.clear();
        self.goes.clear();
        self.more = 0;
        self.heads.clear();
        self.ready.clear();
        self.tails.clear();
    }

    /// When somebody goes who comes after all others, and may not go before `from`.
    fn turn(&self, from: Moment) -> Moment {
        let index = self.gaps.partition_point(|gap| gap.until <= from);
        self.gaps.get(index).map_or(from, |gap| gap.from.max(from))
    }

    /// Who is the next to go, and when.
    fn next_to_go(&mut self, terms: &Terms<'_>) -> Option<(Head, Moment)> {
        let mut place = self.place(terms);
        if self.ready.is_empty() {
            let opens = self.heads.peek()?.0.opens;
            if place < opens {
                self.gaps.push(Gap { from: place, until: opens });
                place = opens;
            }
        }
        while let Some(&Reverse(head)) = self.heads.peek().filter(|head| head.0.opens <= place) {
            self.heads.pop();
            self.ready.push(Reverse((head.number, head)));
        }
        self.ready.pop().map(|Reverse((_, head))| (head, place))
    }

    /// When there is a place for the next.
    fn place(&self, terms: &Terms<'_>) -> Moment {
        let (nth, count) = (self.goes.len() + self.more, terms.places.pace().count as usize);
        let cycle = terms.places.cycle(terms.trip);
        // As often as somebody whose going was not played through has to go first.
        let unplayed = (nth + 1).saturating_sub(self.goes.len() + count).div_ceil(count);
        let nth = nth - unplayed * count;
        let place = match nth.checked_sub(count).and_then(|nth| self.goes.get(nth)) {
            Some(&goes) => goes.after(cycle),
            None => terms.places.opens_for(nth, terms.now, terms.trip),
        };
        let more = cycle.get().saturating_mul(unplayed as u128);
        place.max(terms.from).after(Nanos::new(more))
    }

    /// Takes in one who came last, if it also goes last; else it has to be made anew.
    fn add(&mut self, from: Moment, terms: &Terms<'_>) {
        let is_last = self.gaps.len() < 2 || self.gaps[self.gaps.len() - 2].until <= from;
        if !is_last || self.more > 0 || self.goes.len() >= PLAYED_MAX {
            return;
        }
        let Some(last) = self.gaps.pop() else { return };
        if last.from < from {
            self.gaps.push(Gap { from: last.from, until: from });
        }
        self.goes.push(last.from.max(from));
        self.gaps.push(Gap { from: self.place(terms), until: Moment::MAX });
        self.is_true = true;
    }
}

impl Head {
    /// Its delays, if it goes at a moment.
    fn delay(&self, goes: Moment) -> Delay {
        let later = || self.delay.this.get().saturating_add(goes.since(self.opens).get());
        let next = self.delay.next.unwrap_or_else(|| Nanos::new(later()));
        Delay { next: Some(next), ..self.delay }
    }
}

impl Tracker {
    /// When it would be the turn of a request that joined now.
    pub(super) fn turn(&mut self, slot: Slot, route: &Route, costs: &Costs) -> Moment {
        if !self.forecast.is_true {
            self.foresee();
        }
        let turn = self.turn_in_bucket(slot, route, costs);
        if route.exempt { turn } else { self.forecast.turn(turn) }
    }

    /// Takes note of one that has joined, and does not go before `turn` by its bucket alone.
    pub(super) fn foresee_one_more(&mut self, route: &Route, turn: Moment) {
        let mut forecast = std::mem::take(&mut self.forecast);
        match self.terms() {
            Some(terms) if !route.exempt => forecast.add(turn, &terms),
            _ => forecast.is_true = true,
        }
        self.forecast = forecast;
    }

    /// The turn by its bucket, by what stops everybody, and by a forecast if there is one.
    pub(super) fn turn_in_bucket(&mut self, slot: Slot, route: &Route, costs: &Costs) -> Moment {
        let (now, trip) = (self.now, self.credit.trip());
        let predicted = self.buckets.at(slot).and_then(|bucket| bucket.predict(costs, now, trip));
        let mut turn = predicted.unwrap_or(now.after(trip.usual));
        if let Some(delay) = self.forecast.tails.get(&slot).filter(|_| self.forecast.is_true) {
            let last = self.buckets.at(slot).map_or(0, |bucket| bucket.waiting(Unit::Requests));
            let is_next_window = turn > self.opens_for(slot, last.saturating_sub(1));
            turn = turn.after(delay.next.filter(|_| is_next_window).unwrap_or(delay.this));
        }
        match self.open_to_all(route.exempt, now) {
            Err(ShutToAll { until: Some(until), .. }) => turn.max(until),
            _ => turn,
        }
    }

    /// Why a request may not go before, or join, those who wait.
    pub(super) fn behind(
        &mut self,
        slot: Slot,
        route: &Route,
        costs: &Costs,
        reason: Reason,
    ) -> Limited {
        let turn = self.turn(slot, route, costs);
        let shut = Shut { reason, until: Some(turn), budget: None, truly_secs: None };
        self.by_bucket(slot, &shut, turn)
    }

    /// Plays through what all who wait will do.
    fn foresee(&mut self) {
        let mut forecast = std::mem::take(&mut self.forecast);
        forecast.clear();
        if let Some(terms) = self.terms() {
            self.line_up(&mut forecast);
            while let Some((head, goes)) = forecast.next_to_go(&terms) {
                if forecast.goes.len() == PLAYED_MAX {
                    forecast.more += self.waiting(head.slot, head.nth);
                    continue;
                }
                forecast.goes.push(goes);
                let delay = head.delay(goes);
                match self.next(&head, delay) {
                    Some(next) => forecast.heads.push(Reverse(next)),
                    None => drop(forecast.tails.insert(head.slot, delay)),
                }
            }
            forecast.gaps.push(Gap { from: forecast.place(&terms), until: Moment::MAX });
        }
        forecast.is_true = true;
        self.forecast = forecast;
    }

    /// The first of each line that the limit on all requests counts.
    fn line_up(&self, forecast: &mut Forecast) {
        for slot in self.queues.lines() {
            let Some(bucket) = self.buckets.at(slot) else { continue };
            let first = bucket.first().and_then(|first| self.queues.counted(first));
            let Some((waiter, number)) = first else { continue };
            // A window that has begun ends when it was said to.
            let begins = bucket.is_untouched(self.now) && self.has_windows();
            let next = (!begins).then_some(Nanos::ZERO);
            let delay = Delay { this: Nanos::ZERO, next };
            let opens = self.opens_for(slot, 0);
            forecast.heads.push(Reverse(Head { opens, slot, waiter, number, nth: 0, delay }));
        }
    }

    /// Who is next in line after somebody.
    fn next(&self, head: &Head, delay: Delay) -> Option<Head> {
        let (waiter, number) = self.queues.next_counted(head.waiter)?;
        let next = Head { waiter, number, nth: head.nth + 1, delay, ..*head };
        let opens = self.opens_for(head.slot, next.nth);
        if opens <= self.opens_for(head.slot, head.nth) {
            return Some(next);
        }
        let this = delay.next.unwrap_or(Nanos::ZERO);
        let next_delay = (!self.has_windows()).then_some(Nanos::ZERO);
        Some(Head { opens: opens.after(this), delay: Delay { this, next: next_delay }, ..next })
    }

    /// Or what is spent comes back all the time, however late somebody goes.
    fn has_windows(&self) -> bool {
        self.profile.refill != Refill::Continuously
    }

    /// How many wait for a bucket from the `nth` on.
    fn waiting(&self, slot: Slot, nth: u64) -> usize {
        let waiting = self.buckets.at(slot).map_or(0, |bucket| bucket.waiting(Unit::Requests));
        usize::try_from(waiting.saturating_sub(nth)).unwrap_or(usize::MAX)
    }

    /// When the `nth` in line may go by its bucket alone.
    fn opens_for(&self, slot: Slot, nth: u64) -> Moment {
        let (now, trip) = (self.now, self.credit.trip());
        let opens = self.buckets.at(slot).and_then(|bucket| bucket.predict_nth(nth, now, trip));
        opens.unwrap_or_else(|| now.after(trip.usual))
    }

    fn terms(&self) -> Option<Terms<'_>> {
        let blocks = [self.block_all, self.block_paced].into_iter().flatten();
        let from = blocks.map(|block| block.until).fold(self.now, Moment::max);
        let places = self.places.as_ref()?;
        Some(Terms { places, now: self.now, from, trip: self.credit.trip() })
    }
}
