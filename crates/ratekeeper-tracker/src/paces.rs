//! All limits that are kept in advance: paces, and how many requests may be in flight at once.
//!
//! The latter is a pace whose window has no length, so there is one way to keep them.

use std::sync::Arc;

use ratekeeper_time::{Moment, Nanos};
use smallvec::SmallVec;

use crate::budget::Trip;
use crate::headers::Unit;
use crate::length::Length;
use crate::pace::{Pace, Places};
use crate::profile::Profile;
use crate::request::Request;

/// How many paces a profile has at most.
pub const PACES_MAX: usize = 7;
/// The same with how many may be in flight at once.
const LIMITS_MAX: usize = PACES_MAX + 1;
/// The policy of the limit on those in flight.
const AT_ONCE: &str = "at once";

/// The paces of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Paces {
    paces: &'static [Pace],
    /// More of them: those behind one that was left out.
    others: &'static [Pace],
}

/// What a request counts for in each of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PaceCosts([u16; LIMITS_MAX]);

/// Requests that the same limits on everything apply to. They wait in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) exempt: bool,
    /// The limits kept in advance that apply, a bit for each.
    pub(crate) limits: u8,
}

/// The places of all limits.
#[derive(Clone, Debug)]
pub(crate) struct AllPlaces(SmallVec<[NamedPlaces; 1]>);

/// The places of one limit.
#[derive(Clone, Debug)]
pub(crate) struct NamedPlaces {
    pub(crate) name: Arc<str>,
    pub(crate) unit: Unit,
    pub(crate) places: Places,
}

impl Paces {
    /// No pace.
    pub const NONE: Self = Self::new(&[]);

    /// These paces: a request must fit into all that count it.
    ///
    /// # Panics
    /// If they are more than [`PACES_MAX`]: at compile time in a constant.
    pub const fn new(paces: &'static [Pace]) -> Self {
        assert!(paces.len() <= PACES_MAX, "so many paces cannot be kept");
        Self { paces, others: &[] }
    }

    /// All of them.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'static Pace> + use<> {
        self.paces.iter().chain(self.others)
    }

    /// The first that counts each request for one, which processes can share.
    pub(crate) fn of_all(&self) -> Option<Pace> {
        self.iter().copied().find(|pace| pace.cost.is_none())
    }

    /// All others.
    #[cfg(feature = "sharing")]
    pub(crate) fn without_shared(self) -> Self {
        let place = self.paces.iter().position(|pace| pace.cost.is_none());
        place.map_or(self, |place| {
            let (paces, others) = self.paces.split_at(place);
            Self { paces, others: &others[1..] }
        })
    }
}

impl PaceCosts {
    /// What a request counts for that the limits on everything count.
    pub(crate) fn of(profile: &Profile, request: &Request<'_>) -> Self {
        let mut costs = Self::default();
        let at_once = profile.at_once.map(|_| 1);
        let paces = profile.paces.iter().map(|pace| pace.cost.map_or(1, |cost| cost(request)));
        for (cost, counted) in costs.0.iter_mut().zip(paces.chain(at_once)) {
            *cost = counted;
        }
        costs
    }

    /// What it counts for in one of them.
    pub(crate) const fn at(&self, limit: usize) -> u16 {
        self.0[limit]
    }

    /// The limits that apply, a bit for each.
    pub(crate) fn limits(&self) -> u8 {
        self.0.iter().rev().fold(0, |bits, cost| bits << 1 | u8::from(*cost > 0))
    }
}

impl AllPlaces {
    pub(crate) fn new(profile: &Profile) -> Self {
        let named = |name, unit, pace| NamedPlaces {
            name: Arc::from(name),
            unit,
            places: Places::new(pace),
        };
        let paces = profile.paces.iter().copied();
        let paces = paces.map(|pace| named(pace.name, Unit::Requests, pace));
        let at_once = profile.at_once.map(|count| Pace::new(count, Nanos::ZERO));
        Self(paces.chain(at_once.map(|pace| named(AT_ONCE, Unit::Concurrent, pace))).collect())
    }

    pub(crate) fn all(&self) -> &[NamedPlaces] {
        &self.0
    }

    pub(crate) fn all_mut(&mut self) -> &mut [NamedPlaces] {
        &mut self.0
    }

    /// Whether there is room for a request in all of them.
    #[inline]
    pub(crate) fn is_free(&mut self, costs: &PaceCosts, now: Moment, credit: Length) -> bool {
        self.0.iter_mut().zip(costs.0).all(|(limit, cost)| {
            cost == 0 || limit.places.free(now, credit) >= limit.places.needs(cost)
        })
    }

    /// Those in which there is no room, a bit for each.
    pub(crate) fn full(&mut self, costs: &PaceCosts, now: Moment, credit: Length) -> u8 {
        let limits = self.0.iter_mut().zip(costs.0).enumerate();
        limits.fold(0, |bits, (index, (NamedPlaces { places, .. }, cost))| {
            let is_full = cost > 0 && places.free(now, credit) < places.needs(cost);
            bits | u8::from(is_full) << index
        })
    }

    /// Those of the full ones that others must leave to a request that waits, a bit for each: a place
    /// that is taken now is not back when the last of them has room.
    pub(crate) fn claims(&mut self, costs: &PaceCosts, now: Moment, trip: Trip) -> u8 {
        let full = self.full(costs, now, trip.credit);
        match self.strictest(costs, now, trip.credit) {
            Some((last, Some(opens))) => (0..self.0.len()).fold(0, |bits, index| {
                let is_back = now.after(self.0[index].places.cycle(trip)) <= opens;
                bits | (full & 1 << index & u8::from(index == last || !is_back) << index)
            }),
            _ => full,
        }
    }

    /// Which of them has no room for longest, and when it has; `None` if only an answer can tell.
    pub(crate) fn strictest(
        &mut self,
        costs: &PaceCosts,
        now: Moment,
        credit: Length,
    ) -> Option<(usize, Option<Moment>)> {
        let full = self.full(costs, now, credit);
        let full = (0..self.0.len()).filter(|index| full & 1 << index != 0);
        let opens = |index: usize| self.0[index].places.opens_at(costs.at(index), credit);
        let all = full.map(|index| (index, opens(index)));
        all.max_by_key(|(_, at)| at.unwrap_or(Moment::MAX))
    }

    #[inline]
    pub(crate) fn take(&mut self, costs: &PaceCosts) {
        self.each(costs, Places::take);
    }

    /// The answer came.
    #[inline]
    pub(crate) fn answer(&mut self, costs: &PaceCosts, now: Moment) {
        self.each(costs, |places, cost| places.answer(cost, now));
    }

    /// It was never sent.
    pub(crate) fn give_back(&mut self, costs: &PaceCosts) {
        self.each(costs, Places::give_back);
    }

    #[inline]
    fn each(&mut self, costs: &PaceCosts, change: impl Fn(&mut Places, u16)) {
        for (limit, cost) in self.0.iter_mut().zip(costs.0).filter(|(_, cost)| *cost > 0) {
            change(&mut limit.places, cost);
        }
    }
}
