//! The account of one origin: asked before every request, told of every response.

mod naming;
mod origins;
mod queue;
mod room;
mod saved;
mod sending;
mod settle;
mod snapshot;
mod turn;

use std::num::NonZeroU64;
use std::sync::Arc;

use ratekeeper_time::Moment;

use crate::arena::{Arena, Slot};
use crate::block::Block;
use crate::bucket::{Bucket, Shut};
use crate::credit::Credit;
use crate::dialect::Dialect;
use crate::headers::{Scope, Unit};
use crate::invalid::Invalid;
use crate::paces::AllPlaces;
use crate::profile::{Profile, Route};
use crate::recent::Recent;
use crate::refused_limit::RefusedLimit;
use crate::request::{Costs, Hold, Request};
use crate::verdict::{Limited, Reason, Reservation, Verdict};
pub use origins::{ORIGINS_MAX, Tracker};
use queue::Queues;
#[cfg(feature = "tokio")]
pub(crate) use queue::{ANYBODY, ONLY_EXEMPT};
pub use queue::{QUEUE_DEFAULT, WAITERS_MAX};
pub(crate) use saved::text;
pub use saved::{LoadError, SAVED_BYTES_MAX};
pub use snapshot::{Snapshot, State};
use turn::Forecasts;

/// How many buckets are kept; beyond it, those not used for long are forgotten.
pub const BUCKETS_MAX: usize = 10_000;
/// How many routes are kept of which it is known where they lead.
pub const ROUTES_MAX: usize = 10_000;
/// How many requests may be in flight.
pub const IN_FLIGHT_MAX: usize = 100_000;

/// What is known of the limits of one origin.
#[derive(Clone, Debug)]
struct Account {
    profile: Profile,
    /// Where it is among the accounts of all origins.
    me: Slot,
    /// The origin, as people know it.
    origin: Arc<str>,
    /// What people call all of it, and what they call nothing: to say either takes no memory.
    name: Arc<str>,
    nameless: Arc<str>,
    /// The latest moment that any call named: time does not step back.
    now: Moment,
    credit: Credit,
    dialect: Dialect,
    places: AllPlaces,
    invalid: Option<Invalid>,
    /// What refusals show of everything, and of all but the exempt.
    refused_of_all: RefusedLimit,
    refused_of_paced: RefusedLimit,
    routes: Recent<Lead>,
    buckets: Recent<Bucket>,
    /// Whether there is hardly room for more routes or buckets.
    is_cramped: bool,
    reservations: Arena<InFlight>,
    queues: Queues,
    forecasts: Forecasts,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
struct Lead {
    bucket: Slot,
    /// The key of the named bucket that the server itself said it belongs to.
    confirmed: Option<NonZeroU64>,
}

/// A request that was allowed and not settled yet.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    route: Route,
    /// None where no room was left for another bucket.
    bucket: Option<Slot>,
    sent: Moment,
    hold: Hold,
}

impl Account {
    /// An account that knows no more than the profile.
    fn new(profile: Profile, me: Slot, origin: Arc<str>) -> Self {
        Self {
            profile,
            me,
            origin,
            name: Arc::from(profile.name),
            nameless: Arc::from(""),
            now: Moment::EPOCH,
            credit: Credit::new(),
            dialect: Dialect::default(),
            places: AllPlaces::new(&profile),
            invalid: profile.invalid.map(Invalid::new),
            refused_of_all: RefusedLimit::default(),
            refused_of_paced: RefusedLimit::default(),
            routes: Recent::new(ROUTES_MAX),
            buckets: Recent::new(BUCKETS_MAX),
            is_cramped: false,
            reservations: Arena::new(),
            queues: Queues::new(),
            forecasts: Forecasts::default(),
        }
    }

    /// Whether nobody has asked yet.
    fn is_new(&self) -> bool {
        self.routes.len() == 0 && self.reservations.len() == 0
    }

    /// Whether forgetting it lets nobody send more than is allowed.
    fn is_idle(&self, now: Moment) -> bool {
        let refused = [&self.refused_of_all, &self.refused_of_paced];
        self.reservations.len() == 0
            && self.queues.len() == 0
            && refused.into_iter().all(|it| it.is_open(now))
            && self.places.all().iter().all(|limit| limit.places.is_idle(now))
            && self.invalid.iter().all(|invalid| invalid.is_idle(now))
            && self.buckets.iter().all(|bucket| bucket.is_idle(now))
    }

    /// Whether a request may be sent now.
    ///
    /// Whoever waits in a queue goes first. A reservation must be settled, or what it reserves stays
    /// reserved.
    fn reserve(&mut self, request: &Request<'_>, now: Moment) -> Verdict {
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let Some(slot) = self.bucket_of(&mut route, request, now) else {
            return Verdict::Limited(self.full(now));
        };
        let credit = self.credit.given();
        if self.queues.len() > 0 && self.is_behind(slot, &route, now) {
            return Verdict::Limited(self.behind(slot, &route, &request.costs, Reason::Queued));
        }
        let Some(bucket) = self.buckets.at_mut(slot) else {
            return Verdict::Limited(self.full(now));
        };
        let hold = bucket.hold(&request.costs, route.key);
        if bucket.is_open(&hold, now, credit) && self.is_open_to_all(&route, now) {
            return match self.grant(route, Some(slot), hold, now) {
                Some(reservation) => Verdict::Clear(reservation),
                None => Verdict::Limited(self.full(now)),
            };
        }
        Verdict::Limited(self.shut(slot, &route, &request.costs, now))
    }

    /// Why a request may not be sent now.
    #[cold]
    fn shut(&mut self, slot: Slot, route: &Route, costs: &Costs, now: Moment) -> Limited {
        let credit = self.credit.given();
        let bucket = self.buckets.at_mut(slot);
        let by_bucket = bucket.and_then(|bucket| {
            let hold = bucket.hold(costs, route.key);
            bucket.open(&hold, now, credit).err()
        });
        let by_all = self.open_to_all(route, now).err();
        let mut limited = self.strictest(slot, by_bucket, by_all, now);
        // Who is in flight may leave nothing, and who waits for another bucket may be before it.
        limited.retry_at = limited.retry_at.max(self.turn(slot, route, costs));
        limited.retry_in = limited.retry_at.since(now);
        limited
    }

    /// A reservation for a request that is sent whatever the limits are. What it costs is counted, so
    /// that others wait for it. With `now` in the past it also serves for a response to a request
    /// that somebody else sent then.
    ///
    /// There is none when [`IN_FLIGHT_MAX`] requests are in flight.
    fn send_anyway(&mut self, request: &Request<'_>, now: Moment) -> Option<Reservation> {
        let sent = now;
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let bucket = self.bucket_of(&mut route, request, now);
        if self.reservations.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let known = bucket.and_then(|slot| self.buckets.at(slot));
        let hold = known.map(|bucket| bucket.hold(&request.costs, route.key));
        self.grant(route, bucket, hold.unwrap_or(Hold::new(request.costs)), sent)
    }

    /// Time does not step back, whatever callers say.
    fn at(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    /// The bucket that a route leads to, made if need be. There is none if there is no room.
    #[inline]
    fn bucket_of(&mut self, route: &mut Route, request: &Request<'_>, now: Moment) -> Option<Slot> {
        if let Some((lead, slot)) = self.lead(route.key) {
            route.lead = Some(lead);
            return Some(slot);
        }
        self.home_of(route, request, now)
    }

    fn home_of(&mut self, route: &Route, request: &Request<'_>, now: Moment) -> Option<Slot> {
        if route.home != route.key
            && let Some((_, slot)) = self.lead(route.home)
        {
            return Some(slot);
        }
        let slot = if let Some(slot) = self.buckets.find(route.home) {
            slot
        } else {
            let name = self.profile.describe(request, now);
            self.add_bucket(route.home, Bucket::new(Arc::from(name)), now)?
        };
        self.point(route.home, Lead { bucket: slot, confirmed: None }, now)?;
        Some(slot)
    }

    /// Where a route is known to lead, and the bucket that it leads to.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    fn lead(&mut self, key: u64) -> Option<(Slot, Slot)> {
        let lead = self.routes.find(key)?;
        let bucket = self.routes.touch(lead)?.bucket;
        self.buckets.touch(bucket)?;
        Some((lead, bucket))
    }

    fn add_bucket(&mut self, key: u64, bucket: Bucket, now: Moment) -> Option<Slot> {
        self.count_room();
        self.buckets.insert(key, bucket, |bucket| bucket.is_idle(now))
    }

    /// Lets a route lead somewhere.
    fn point(&mut self, key: u64, lead: Lead, now: Moment) -> Option<()> {
        if let Some(known) = self.routes.find(key).and_then(|route| self.routes.at_mut(route)) {
            *known = lead;
            return Some(());
        }
        self.count_room();
        let buckets = &self.buckets;
        let is_idle = |lead: &Lead| buckets.at(lead.bucket).is_none_or(|b| b.is_idle(now));
        self.routes.insert(key, lead, is_idle).map(drop)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    fn grant(
        &mut self,
        route: Route,
        bucket: Option<Slot>,
        hold: Hold,
        sent: Moment,
    ) -> Option<Reservation> {
        let in_flight = self.reservations.len() as u64;
        let slot = self.reservations.insert(InFlight { route, bucket, sent, hold })?;
        self.forecasts.forget();
        if let Some(bucket) = bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.let_pass(&hold, sent, &self.credit);
        }
        let patience = self.credit.patience();
        self.refused_of_all.let_pass(in_flight, sent, patience);
        if !route.exempt {
            self.refused_of_paced.let_pass(in_flight, sent, patience);
        }
        self.places.take(&route.costs);
        Some(Reservation::new(self.me, slot))
    }

    /// Whether the limits on everything let a request pass; if not, why.
    fn open_to_all(&mut self, route: &Route, now: Moment) -> Result<(), ShutToAll> {
        if self.is_open_to_all(route, now) { Ok(()) } else { Err(self.shut_to_all(route)) }
    }

    /// Whether the limits on everything let a request pass.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    fn is_open_to_all(&mut self, route: &Route, now: Moment) -> bool {
        let credit = self.credit.given();
        self.is_open_but_for_places(route.exempt, now)
            && self.places.is_free(&route.costs, now, credit)
    }

    /// The same, whatever is kept in advance.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    fn is_open_but_for_places(&mut self, exempt: bool, now: Moment) -> bool {
        let in_flight = self.reservations.len();
        self.refused_of_all.is_open(now)
            && (exempt || self.refused_of_paced.is_open(now))
            && in_flight < IN_FLIGHT_MAX
            && self.invalid.as_mut().is_none_or(|invalid| invalid.left(in_flight, now) > 0)
    }

    fn blocked(&self, exempt: bool, now: Moment) -> Option<&Block> {
        let blocks = self.refused(exempt).filter_map(RefusedLimit::block);
        blocks.into_iter().find(|block| block.opens_at() > now)
    }

    /// Until when what was learnt from refusals of everything lets nobody pass.
    fn paced_until(&self, exempt: bool, now: Moment) -> Option<Moment> {
        self.refused(exempt).filter_map(|refused| refused.paced_until(now)).max()
    }

    fn refused(&self, exempt: bool) -> impl Iterator<Item = &RefusedLimit> {
        let of_paced = (!exempt).then_some(&self.refused_of_paced);
        [Some(&self.refused_of_all), of_paced].into_iter().flatten()
    }

    /// Why the limits on everything let nobody pass.
    #[cold]
    fn shut_to_all(&mut self, route: &Route) -> ShutToAll {
        if let Some(block) = self.blocked(route.exempt, self.now) {
            let (until, truly_secs) = (Some(block.opens_at()), block.truly_secs);
            return ShutToAll { until, truly_secs, ..ShutToAll::new(Reason::Refused) };
        }
        let (in_flight, now) = (self.reservations.len(), self.now);
        if let Some(until) = self.paced_until(route.exempt, now) {
            return ShutToAll { until: Some(until), ..ShutToAll::new(Reason::Spent) };
        }
        if in_flight >= IN_FLIGHT_MAX {
            return ShutToAll::new(Reason::Full);
        }
        if let Some(invalid) = &mut self.invalid
            && invalid.left(in_flight, now) == 0
        {
            let limit = self.profile.invalid.map(|max| u64::from(max.count));
            let until = invalid.frees_at();
            return ShutToAll { until, limit, ..ShutToAll::new(Reason::Invalid) };
        }
        let credit = self.credit.given();
        let (place, until) = self.places.strictest(&route.costs, now, credit).unzip();
        let known = place.and_then(|place| self.places.all().get(place));
        let limit = known.map(|limit| u64::from(limit.places.pace().count));
        ShutToAll { until: until.flatten(), limit, place, ..ShutToAll::new(Reason::Paced) }
    }

    /// Of a bucket and the limits on everything, what keeps a request waiting for longer.
    fn strictest(
        &self,
        slot: Slot,
        by_bucket: Option<Shut>,
        by_all: Option<ShutToAll>,
        now: Moment,
    ) -> Limited {
        let until = |until: Option<Moment>| until.unwrap_or(now.after(self.credit.usual()));
        match (by_bucket, by_all) {
            (Some(shut), Some(all)) if until(all.until) <= until(shut.until) => {
                self.by_bucket(slot, &shut, until(shut.until))
            }
            (Some(shut), None) => self.by_bucket(slot, &shut, until(shut.until)),
            (_, Some(all)) => self.by_all(&all, until(all.until)),
            (None, None) => self.by_all(&ShutToAll::new(Reason::Full), until(None)),
        }
    }

    fn by_bucket(&self, slot: Slot, shut: &Shut, retry_at: Moment) -> Limited {
        let mut limited = self.by_all(&ShutToAll::new(shut.reason), retry_at);
        let Some(bucket) = self.buckets.at(slot) else { return limited };
        limited.scope = bucket.refused.block().map_or(Scope::User, |block| block.scope);
        limited.bucket = Arc::clone(&bucket.name);
        limited.truly_secs = shut.truly_secs;
        let budget = shut.budget.map_or(bucket.budgets.first(), |index| bucket.budgets.get(index));
        if let Some(budget) = budget {
            limited.policy = Arc::clone(&budget.name);
            limited.unit = budget.unit;
            limited.limit = budget.limit;
            limited.remaining = budget.left(self.now, self.credit.given());
        }
        limited
    }

    fn by_all(&self, shut: &ShutToAll, retry_at: Moment) -> Limited {
        let place = shut.place.and_then(|place| self.places.all().get(place));
        Limited {
            scope: Scope::Global,
            origin: Arc::clone(&self.origin),
            bucket: Arc::clone(&self.name),
            policy: Arc::clone(place.map_or(&self.nameless, |place| &place.name)),
            unit: place.map_or(Unit::Requests, |place| place.unit),
            reason: shut.reason,
            limit: shut.limit,
            remaining: shut.limit.map(|_| 0),
            retry_at,
            retry_in: retry_at.since(self.now),
            truly_secs: shut.truly_secs,
        }
    }

    fn full(&self, now: Moment) -> Limited {
        self.by_all(&ShutToAll::new(Reason::Full), now.after(self.credit.usual()))
    }
}

/// Why the limits on everything let nobody pass.
#[derive(Clone, Copy, Debug)]
struct ShutToAll {
    reason: Reason,
    /// `None` if only an answer can open it.
    until: Option<Moment>,
    limit: Option<u64>,
    truly_secs: Option<f64>,
    /// Which of the limits kept in advance it is.
    place: Option<usize>,
}

impl ShutToAll {
    const fn new(reason: Reason) -> Self {
        Self { reason, until: None, limit: None, truly_secs: None, place: None }
    }
}

#[cfg(test)]
mod tests;
