//! The tracker: asked before every request, told of every response.

mod naming;
mod queue;
mod sending;
mod settle;
mod snapshot;
mod turn;

use std::num::NonZeroU64;
use std::sync::Arc;

use tollgate::{Moment, Nanos};

use crate::arena::{Arena, Slot};
use crate::bucket::{Block, Bucket, Shut};
use crate::credit::Credit;
use crate::headers::{Scope, Unit};
use crate::invalid::Invalid;
use crate::pace::Places;
use crate::profile::{Profile, Route};
use crate::recent::Recent;
use crate::request::{Costs, Request};
use crate::verdict::{Limited, Permit, Reason, Verdict};
use queue::Queues;
#[cfg(feature = "tokio")]
pub(crate) use queue::{ANYBODY, ONLY_EXEMPT};
pub use queue::{QUEUE_DEFAULT, WAITERS_MAX};
pub use settle::UNSAID_MAX;
pub use snapshot::{Snapshot, State};
use turn::Forecast;

/// How many buckets are kept; beyond it, those not used for long are forgotten.
pub const BUCKETS_MAX: usize = 10_000;
/// How many routes are kept of which it is known where they lead.
pub const ROUTES_MAX: usize = 10_000;
/// How many requests may be in flight.
pub const IN_FLIGHT_MAX: usize = 100_000;

/// Keeps account of what an API allows.
///
/// It has no clock, no lock and no task: each call says what time it is, and the same calls at the
/// same times get the same answers.
///
/// ```
/// use tollgate::Moment;
/// use tollgate_tracker::{Profile, Request, Response, Tracker, Verdict};
///
/// let mut tracker = Tracker::new(Profile::discord());
/// let request = Request::new("POST", "/channels/123/messages");
/// let now = Moment::from_nanos(0);
/// let Verdict::Clear(permit) = tracker.limited(&request, now) else { panic!("nothing is known") };
///
/// // Send it; some time later there is an answer.
/// let now = Moment::from_nanos(80_000_000);
/// let fields: [(&str, &[u8]); 4] = [
///     ("x-ratelimit-limit", b"5"),
///     ("x-ratelimit-remaining", b"0"),
///     ("x-ratelimit-reset-after", b"1.250"),
///     ("x-ratelimit-bucket", b"80c17d2f203122d936070c88c8d10f33"),
/// ];
/// tracker.track(permit, Response { status: 200, fields, body: None }, now);
///
/// let Verdict::Limited(limited) = tracker.limited(&request, now) else { panic!("it is spent") };
/// // A millisecond is for the rounding.
/// assert_eq!(limited.retry_in.to_string(), "1s251ms");
/// assert!(matches!(tracker.limited(&request, limited.retry_at), Verdict::Clear(_)));
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    profile: Profile,
    /// What people call all of it, and what they call nothing: to say either takes no memory.
    name: Arc<str>,
    nameless: Arc<str>,
    /// The latest moment that any call named: time does not step back.
    now: Moment,
    credit: Credit,
    places: Option<Places>,
    invalid: Option<Invalid>,
    /// For everybody, and for all but the exempt.
    block_all: Option<Block>,
    block_paced: Option<Block>,
    /// Refusals of everything, one after the other, that did not say for how long.
    strikes: u32,
    routes: Recent<Lead>,
    buckets: Recent<Bucket>,
    permits: Arena<InFlight>,
    queues: Queues,
    forecast: Forecast,
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
    costs: Costs,
}

impl Tracker {
    /// A tracker that knows no more than the profile.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            name: Arc::from(profile.name),
            nameless: Arc::from(""),
            now: Moment::EPOCH,
            credit: Credit::new(),
            places: profile.pace.map(Places::new),
            invalid: profile.invalid.map(Invalid::new),
            block_all: None,
            block_paced: None,
            strikes: 0,
            routes: Recent::new(ROUTES_MAX),
            buckets: Recent::new(BUCKETS_MAX),
            permits: Arena::new(),
            queues: Queues::new(),
            forecast: Forecast::default(),
        }
    }

    /// Whether a request may be sent now.
    ///
    /// Whoever waits in a queue goes first. A permit must be settled, or what it reserves stays
    /// reserved.
    pub fn limited(&mut self, request: &Request<'_>, now: Moment) -> Verdict {
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let Some(slot) = self.bucket_of(&mut route, request, now) else {
            return Verdict::Limited(self.full(now));
        };
        let credit = self.credit.given();
        let Some(bucket) = self.buckets.at_mut(slot) else {
            return Verdict::Limited(self.full(now));
        };
        if bucket.line.is_some() || self.queues.is_before(&route) {
            return Verdict::Limited(self.behind(slot, &route, &request.costs, Reason::Queued));
        }
        if bucket.is_open(&request.costs, now, credit) && self.is_open_to_all(route.exempt, now) {
            return match self.grant(route, Some(slot), request.costs, now) {
                Some(permit) => Verdict::Clear(permit),
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
        let by_bucket = bucket.and_then(|bucket| bucket.open(costs, now, credit).err());
        let by_all = self.open_to_all(route.exempt, now).err();
        let mut limited = self.strictest(slot, by_bucket, by_all, now);
        // Who is in flight may leave nothing, and who waits for another bucket may be before it.
        limited.retry_at = limited.retry_at.max(self.turn(slot, route, costs));
        limited.retry_in = limited.retry_at.since(now);
        limited
    }

    /// A permit for a request that is sent whatever the limits are. What it costs is counted, so
    /// that others wait for it. With `now` in the past it also serves for a response to a request
    /// that somebody else sent then.
    ///
    /// There is none when [`IN_FLIGHT_MAX`] requests are in flight.
    pub fn send_anyway(&mut self, request: &Request<'_>, now: Moment) -> Option<Permit> {
        let sent = now;
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let bucket = self.bucket_of(&mut route, request, now);
        if self.permits.len() >= IN_FLIGHT_MAX {
            return None;
        }
        self.grant(route, bucket, request.costs, sent)
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
        self.buckets.insert(key, bucket, |bucket| bucket.is_idle(now))
    }

    /// Lets a route lead somewhere.
    fn point(&mut self, key: u64, lead: Lead, now: Moment) -> Option<()> {
        if let Some(known) = self.routes.find(key).and_then(|route| self.routes.at_mut(route)) {
            *known = lead;
            return Some(());
        }
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
        costs: Costs,
        sent: Moment,
    ) -> Option<Permit> {
        let slot = self.permits.insert(InFlight { route, bucket, sent, costs })?;
        self.forecast.forget();
        if let Some(bucket) = bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.in_flight.add(&costs);
        }
        if let Some(places) = self.places.as_mut().filter(|_| !route.exempt) {
            places.take();
        }
        Some(Permit::new(slot))
    }

    /// Whether the limits on everything let a request pass; if not, why.
    fn open_to_all(&mut self, exempt: bool, now: Moment) -> Result<(), ShutToAll> {
        if self.is_open_to_all(exempt, now) { Ok(()) } else { Err(self.shut_to_all(exempt)) }
    }

    /// Whether the limits on everything let a request pass.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    fn is_open_to_all(&mut self, exempt: bool, now: Moment) -> bool {
        for block in [&mut self.block_all, &mut self.block_paced] {
            if block.as_ref().is_some_and(|block| block.until <= now) {
                *block = None;
            }
        }
        let (in_flight, credit) = (self.permits.len(), self.credit.given());
        self.blocked(exempt).is_none()
            && in_flight < IN_FLIGHT_MAX
            && self.invalid.as_mut().is_none_or(|invalid| invalid.left(in_flight, now) > 0)
            && (exempt || self.places.as_mut().is_none_or(|it| it.free(now, credit) > 0))
    }

    #[inline]
    fn blocked(&self, exempt: bool) -> Option<&Block> {
        self.block_all.as_ref().or(self.block_paced.as_ref().filter(|_| !exempt))
    }

    /// Why the limits on everything let nobody pass.
    #[cold]
    fn shut_to_all(&mut self, exempt: bool) -> ShutToAll {
        if let Some(&Block { until, truly_secs, .. }) = self.blocked(exempt) {
            return ShutToAll { until: Some(until), truly_secs, ..ShutToAll::new(Reason::Refused) };
        }
        let (in_flight, now) = (self.permits.len(), self.now);
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
        let (places, credit) = (self.places.as_ref(), self.credit.given());
        let limit = places.map(|places| u64::from(places.pace().count));
        let until = places.and_then(|places| places.opens_at(credit));
        ShutToAll { until, limit, ..ShutToAll::new(Reason::Paced) }
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
        limited.scope = bucket.block.map_or(Scope::User, |block| block.scope);
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
        Limited {
            scope: Scope::Global,
            bucket: Arc::clone(&self.name),
            policy: Arc::clone(&self.nameless),
            unit: Unit::Requests,
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
}

impl ShutToAll {
    const fn new(reason: Reason) -> Self {
        Self { reason, until: None, limit: None, truly_secs: None }
    }
}

/// How long a refusal lasts that does not say.
fn doubled(unsaid: Nanos, strikes: u32) -> Nanos {
    Nanos::new(unsaid.get() << strikes.min(32)).min(UNSAID_MAX)
}

#[cfg(test)]
mod tests;
