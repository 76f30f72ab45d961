//! When it would be somebody's turn.
//!
//! Those who wait for a limit on all requests go by age, each as soon as its own bucket lets it and
//! a place is free. So the turn of who comes now is the first moment at which there is a place that
//! none of them can take. To find it, what they will do is played through, with round trips as long
//! as they usually are; and what is left over of the places is kept until something changes. Of
//! several limits each is played through for itself, as if there were no other; the latest turn of
//! them counts.
//!
//! It is as exact as round trips are. Whoever is off by one place, though, is off by a whole window
//! of the limit, for places that were taken together are free again together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use ratekeeper_time::{Moment, Nanos};

use super::{Account, ShutToAll};
use crate::arena::Slot;
use crate::block::Block;
use crate::bucket::Shut;
use crate::budget::{Refill, Trip};
use crate::headers::Unit;
use crate::pace::Places;
use crate::paces::{Class, NamedPlaces};
use crate::profile::Route;
use crate::request::Costs;
use crate::verdict::{Limited, Reason};

/// How many of those who wait are played through. The rest is taken to go as quickly as the limit
/// on all requests lets them.
const PLAYED_MAX: usize = 1_024;

/// What those who wait will leave over of the limits on all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecasts {
    /// Whether nothing has changed since they were made.
    are_true: bool,
    each: Vec<Forecast>,
}

/// What they will leave over of one of them.
#[derive(Clone, Debug, Default)]
struct Forecast {
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
    tails: HashMap<(Slot, Class), Delay>,
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
    class: Class,
    waiter: Slot,
    number: u64,
    /// How many places it takes.
    cost: usize,
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
    /// Of which limit.
    limit: usize,
    places: &'p Places,
    now: Moment,
    /// Nobody goes before.
    from: Moment,
    trip: Trip,
}

impl Forecasts {
    pub(super) const fn are_true(&self) -> bool {
        self.are_true
    }

    /// Something has changed.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.are_true = false;
    }
}

impl Forecast {
    fn clear(&mut self) {
        self.gaps.clear();
        self.goes.clear();
        self.more = 0;
        self.heads.clear();
        self.ready.clear();
        self.tails.clear();
    }

    /// When somebody goes who comes after all others, and may not go before `from`.
    fn turn(&self, from: Moment, cost: usize, terms: &Terms<'_>) -> Moment {
        let index = self.gaps.partition_point(|gap| gap.until <= from);
        let Some(gap) = self.gaps.get(index) else { return from };
        let is_last = index + 1 == self.gaps.len();
        let opens = if is_last && cost > 1 { self.place(cost, terms) } else { gap.from };
        opens.max(from)
    }

    /// Who is the next to go, and when.
    fn next_to_go(&mut self, terms: &Terms<'_>) -> Option<(Head, Moment)> {
        let mut place = self.place(1, terms);
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
        let Reverse((_, head)) = self.ready.pop()?;
        let all = if head.cost > 1 { self.place(head.cost, terms) } else { place };
        Some((head, place.max(all)))
    }

    /// When there are so many places for the next.
    fn place(&self, cost: usize, terms: &Terms<'_>) -> Moment {
        let nth = self.goes.len() + self.more + cost.saturating_sub(1);
        let count = terms.places.pace().count as usize;
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
    fn add(&mut self, from: Moment, cost: usize, terms: &Terms<'_>) -> bool {
        let is_last = self.gaps.len() < 2 || self.gaps[self.gaps.len() - 2].until <= from;
        if !is_last || self.more > 0 || self.goes.len() >= PLAYED_MAX {
            return false;
        }
        let Some(last) = self.gaps.pop() else { return false };
        if last.from < from {
            self.gaps.push(Gap { from: last.from, until: from });
        }
        let opens = if cost > 1 { self.place(cost, terms) } else { last.from };
        self.goes.extend(std::iter::repeat_n(opens.max(from), cost));
        self.gaps.push(Gap { from: self.place(1, terms), until: Moment::MAX });
        true
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

impl Account {
    /// When it would be the turn of a request that joined now.
    pub(super) fn turn(&mut self, slot: Slot, route: &Route, costs: &Costs) -> Moment {
        if !self.forecasts.are_true {
            self.foresee();
        }
        let from = self.turn_in_bucket(slot, route, costs);
        let limits = self.limits(route).zip(&self.forecasts.each);
        let limits = limits.filter(|((_, cost), _)| *cost > 0);
        limits
            .map(|((terms, cost), forecast)| forecast.turn(from, cost, &terms))
            .fold(from, Ord::max)
    }

    /// Takes note of one that has joined, and does not go before `turn` by its bucket alone.
    pub(super) fn foresee_one_more(&mut self, route: &Route, turn: Moment) {
        let mut forecasts = std::mem::take(&mut self.forecasts);
        forecasts.are_true = true;
        for ((terms, cost), forecast) in self.limits(route).zip(&mut forecasts.each) {
            forecasts.are_true &= cost == 0 || forecast.add(turn, cost, &terms);
        }
        self.forecasts = forecasts;
    }

    /// The turn by its bucket, by what stops everybody, and by a forecast if there is one.
    pub(super) fn turn_in_bucket(&mut self, slot: Slot, route: &Route, costs: &Costs) -> Moment {
        let (now, trip) = (self.now, self.credit.trip());
        let predicted = self
            .buckets
            .at(slot)
            .and_then(|bucket| bucket.predict(&bucket.hold(costs, route.key), now, trip));
        let mut turn = predicted.unwrap_or(now.after(trip.usual));
        let line = (slot, route.class());
        let each = self.forecasts.each.iter().filter(|_| self.forecasts.are_true);
        let delays = each.filter_map(|forecast| forecast.tails.get(&line));
        if let Some(delay) = delays.max() {
            let last = self.buckets.at(slot).map_or(0, |bucket| bucket.waiting(Unit::Requests));
            let is_next_window = turn > self.opens_for(slot, last.saturating_sub(1));
            turn = turn.after(delay.next.filter(|_| is_next_window).unwrap_or(delay.this));
        }
        let before = self.queues.len() as u64;
        let by_refusals = self.refused(route.exempt).map(|refused| refused.predict(before, now));
        let turn = by_refusals.fold(turn, Ord::max);
        match self.open_to_all(route, now) {
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
        let shut =
            Shut { reason, until: Some(turn), late_at: None, budget: None, truly_secs: None };
        self.by_bucket(slot, &shut, turn)
    }

    /// Plays through what all who wait will do.
    fn foresee(&mut self) {
        let mut forecasts = std::mem::take(&mut self.forecasts);
        forecasts.each.resize_with(self.places.all().len(), Forecast::default);
        for (forecast, (terms, _)) in forecasts.each.iter_mut().zip(self.limits(&Route::default()))
        {
            self.play(forecast, &terms);
        }
        forecasts.are_true = true;
        self.forecasts = forecasts;
    }

    /// Plays through what they will do to one limit.
    fn play(&self, forecast: &mut Forecast, terms: &Terms<'_>) {
        forecast.clear();
        self.line_up(forecast, terms);
        while let Some((head, goes)) = forecast.next_to_go(terms) {
            if forecast.goes.len() >= PLAYED_MAX {
                forecast.more += self.waiting(&head).saturating_mul(head.cost);
                continue;
            }
            forecast.goes.extend(std::iter::repeat_n(goes, head.cost));
            let delay = head.delay(goes);
            match self.next(&head, delay, terms) {
                Some(next) => forecast.heads.push(Reverse(next)),
                None => drop(forecast.tails.insert((head.slot, head.class), delay)),
            }
        }
        forecast.gaps.push(Gap { from: forecast.place(1, terms), until: Moment::MAX });
    }

    /// The first of each line that a limit counts.
    fn line_up(&self, forecast: &mut Forecast, terms: &Terms<'_>) {
        for slot in self.queues.lines() {
            let Some(bucket) = self.buckets.at(slot) else { continue };
            // A window that has begun ends when it was said to.
            let begins = bucket.is_untouched(self.now) && self.has_windows();
            let next = (!begins).then_some(Nanos::ZERO);
            let delay = Delay { this: Nanos::ZERO, next };
            let opens = self.opens_for(slot, 0);
            let lines = bucket.lines.iter().flat_map(|lines| &lines.all);
            for line in lines.filter(|line| line.class.limits & 1 << terms.limit != 0) {
                let Some(waiter) = line.first else { continue };
                let Some((number, cost)) = self.queues.counted(waiter, terms.limit) else {
                    continue;
                };
                let (class, cost) = (line.class, terms.places.needs(cost));
                let head = Head { opens, slot, class, waiter, number, cost, nth: 0, delay };
                forecast.heads.push(Reverse(head));
            }
        }
    }

    /// Who is next in line after somebody.
    fn next(&self, head: &Head, delay: Delay, terms: &Terms<'_>) -> Option<Head> {
        let waiter = self.queues.next(head.waiter)?;
        let (number, cost) = self.queues.counted(waiter, terms.limit)?;
        let (nth, cost) = (head.nth + 1, terms.places.needs(cost));
        let next = Head { waiter, number, cost, nth, delay, ..*head };
        let opens = self.opens_for_head(&next);
        if opens <= self.opens_for_head(head) {
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

    /// How many wait in a line from somebody on.
    fn waiting(&self, head: &Head) -> usize {
        let waiting = self.in_line(head.slot, head.class);
        usize::try_from(waiting.saturating_sub(head.nth)).unwrap_or(usize::MAX)
    }

    fn in_line(&self, slot: Slot, class: Class) -> u64 {
        let lines = self.buckets.at(slot).and_then(|bucket| bucket.lines.as_ref());
        let line = lines.and_then(|lines| lines.of(class));
        line.map_or(0, |line| line.waiting.of(Unit::Requests))
    }

    /// When somebody in line may go by its bucket alone. Where a bucket has several lines, they are
    /// taken to move as quickly as they are long.
    fn opens_for_head(&self, head: &Head) -> Moment {
        let all = self.buckets.at(head.slot).map_or(0, |it| it.waiting(Unit::Requests));
        let line = self.in_line(head.slot, head.class);
        let nth = if all > line { head.nth.saturating_mul(all) / line.max(1) } else { head.nth };
        self.opens_for(head.slot, nth)
    }

    /// When the `nth` of those who wait may go by its bucket alone.
    fn opens_for(&self, slot: Slot, nth: u64) -> Moment {
        let (now, trip) = (self.now, self.credit.trip());
        let opens = self.buckets.at(slot).and_then(|bucket| bucket.predict_nth(nth, now, trip));
        opens.unwrap_or_else(|| now.after(trip.usual))
    }

    /// All limits on everything, and how many places of each a route takes.
    fn limits<'t>(&'t self, route: &'t Route) -> impl Iterator<Item = (Terms<'t>, usize)> {
        let from = self.blocked(false, self.now).map_or(self.now, Block::opens_at);
        let (now, trip) = (self.now, self.credit.trip());
        self.places.all().iter().enumerate().map(move |(limit, NamedPlaces { places, .. })| {
            (Terms { limit, places, now, from, trip }, places.needs(route.costs.at(limit)))
        })
    }
}
