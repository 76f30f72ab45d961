//! Routes that turn out to belong to another bucket.
//!
//! A server names the bucket of a route in its responses, and may change its mind at any time.
//! When it first names one, the route leads there from then on. When it gives another name to a
//! route that it had named itself, then it has most likely renamed the bucket, and all routes that
//! share it come along, with all that is in flight and all who wait: the server counts them under
//! the new name. A route that does not belong there says so in its next response and then leaves
//! alone.
//!
//! The name of a resource is for ever. A route that is answered with another one leaves alone, and
//! what is known of the one before stays with whoever else uses it.

use std::num::NonZeroU64;
use std::sync::Arc;

use ratekeeper_time::Moment;

use super::{Account, InFlight, Lead};
use crate::arena::Slot;
use crate::bucket::Bucket;
use crate::headers::Said;
use crate::profile::Route;

/// What a server calls the bucket of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'h> {
    text: &'h str,
    /// Whether the server may call the same bucket otherwise some day.
    changes: bool,
}

/// What a response speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The bucket that the request belongs to now.
    This,
    /// One that it belonged to.
    Another,
    /// One that nobody knows: of before, or the one that this will turn out to be.
    Unsure,
}

impl<'h> Name<'h> {
    /// The name in a response, if there is one.
    pub(super) fn of(said: &Said<'h>) -> Option<Self> {
        let resource = || said.resource.map(|text| Self { text, changes: false });
        said.bucket.map(|text| Self { text, changes: true }).or_else(resource)
    }
}

impl Account {
    /// Follows the server's name for the bucket of a settled request.
    pub(super) fn follow(
        &mut self,
        settled: &mut InFlight,
        name: Name<'_>,
        now: Moment,
    ) -> Subject {
        let Some(from) = settled.bucket else { return Subject::Another };
        let Some(bucket) = self.buckets.at(from) else { return Subject::Another };
        let route = settled.route;
        let key = route.named(name.text);
        if bucket.named == Some(key) {
            self.confirm(&route, key);
            return Subject::This;
        }
        let target = self.buckets.find(key.get());
        if name.changes && bucket.named.is_some() && settled.sent < bucket.named_at {
            // It was perhaps counted before the bucket had the name it has now.
            match target.and_then(|slot| self.buckets.at(slot)) {
                Some(other) if other.named_at > bucket.named_at => {}
                None if bucket.was_named != Some(key) => return Subject::Unsure,
                _ => return Subject::Another,
            }
        }
        let lead = self.routes.find(route.key).and_then(|slot| self.routes.at(slot)).copied();
        // A route that has no bucket of its own yet leaves the one that all share alone.
        let all = lead.is_some_and(|lead| lead.confirmed == bucket.named)
            && (name.changes || bucket.named.is_none());
        match target {
            None if all => self.rename(from, key, name.text, now),
            // It was found where the profile expects the name.
            Some(slot) if slot == from => self.baptize(from, key, now),
            _ => {
                let label = label(name.text, &bucket.name);
                let to = target.or_else(|| self.add_bucket(key.get(), Bucket::new(label), now));
                let Some(to) = to else { return Subject::Unsure };
                self.baptize(to, key, now);
                self.move_to(route.key, all, from, to, now);
                settled.bucket = Some(to);
                self.restand(Some(from), now);
            }
        }
        self.confirm(&route, key);
        Subject::This
    }

    fn confirm(&mut self, route: &Route, key: NonZeroU64) {
        let known = route.lead.filter(|&lead| self.routes.at(lead).is_some());
        let lead = known.or_else(|| self.routes.find(route.key));
        let Some(lead) = lead.and_then(|lead| self.routes.at_mut(lead)) else { return };
        // Mostly it says so again; memory that is only read is cheaper.
        if lead.confirmed != Some(key) {
            lead.confirmed = Some(key);
        }
    }

    fn baptize(&mut self, slot: Slot, key: NonZeroU64, now: Moment) {
        if let Some(bucket) = self.buckets.at_mut(slot).filter(|bucket| bucket.named.is_none()) {
            bucket.named = Some(key);
            bucket.named_at = now;
        }
    }

    fn rename(&mut self, slot: Slot, key: NonZeroU64, name: &str, now: Moment) {
        let Some(bucket) = self.buckets.at_mut(slot) else { return };
        if bucket.named.is_some() {
            bucket.begin_anew();
        }
        bucket.was_named = bucket.named.replace(key);
        bucket.named_at = now;
        bucket.name = label(name, &bucket.name);
        self.buckets.rename(slot, key.get());
    }

    /// Moves a route, or all that lead to a bucket, with what is in flight and who waits.
    fn move_to(&mut self, key: u64, all: bool, from: Slot, to: Slot, now: Moment) {
        if all {
            for lead in self.routes.iter_mut().filter(|lead| lead.bucket == from) {
                lead.bucket = to;
            }
        } else {
            self.point(key, Lead { bucket: to, confirmed: None }, now);
        }
        let moves = |route: u64| all || route == key;
        for flight in self.reservations.iter_mut() {
            if flight.bucket == Some(from) && moves(flight.route.key) {
                flight.bucket = Some(to);
                if let Some(bucket) = self.buckets.at_mut(from) {
                    bucket.in_flight.remove(&flight.hold);
                }
                if let Some(bucket) = self.buckets.at_mut(to) {
                    bucket.in_flight.add(&flight.hold);
                }
            }
        }
        self.move_waiters(from, to, moves, now);
    }
}

/// What people call a bucket that a server has named: that name, and the route it was known by.
fn label(name: &str, known: &str) -> Arc<str> {
    const SERVERS_NAME_CHARS: usize = 40;
    let route = known.split_once(" = ").map_or(known, |(_, route)| route);
    let name: String = name.chars().take(SERVERS_NAME_CHARS).collect();
    Arc::from(format!("{name} = {route}"))
}
