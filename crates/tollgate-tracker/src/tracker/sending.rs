//! What those need who send requests some time after they were allowed.

use std::sync::Arc;

use tollgate::Moment;

#[cfg(feature = "sharing")]
use super::InFlight;
use super::{Tracker, WAITERS_MAX};
#[cfg(feature = "sharing")]
use crate::request::Request;
use crate::verdict::{Limited, Permit, Reason, Ticket};

impl Tracker {
    /// Says that the request of a permit is sent only now, and not when it was allowed. Without
    /// it a wait in between is taken for a part of the round trip, and round trips that seem long
    /// let others go too early.
    pub fn sent(&mut self, permit: &Permit, now: Moment) {
        let now = self.at(now);
        if let Some(flight) = self.permits.at_mut(permit.slot()) {
            flight.sent = now;
        }
    }

    /// Whether the limit on all requests counts the request of a permit.
    pub fn is_counted(&self, permit: &Permit) -> bool {
        self.permits.at(permit.slot()).is_none_or(|flight| !flight.route.exempt)
    }

    /// Whether the limit on all requests counts a request.
    #[cfg(feature = "sharing")]
    pub(crate) fn counts(&self, request: &Request<'_>, now: Moment) -> bool {
        !self.profile.route(request, now).exempt
    }

    /// Whether the request of a permit, which was not sent yet, may still be: what was heard since
    /// it was allowed may have shut its bucket, or left less in it than is held.
    pub fn may_go(&mut self, permit: &Permit, now: Moment) -> bool {
        let now = self.at(now);
        let Some(&flight) = self.permits.at(permit.slot()) else { return false };
        let blocks = [self.block_all, self.block_paced.filter(|_| !flight.route.exempt)];
        if blocks.iter().flatten().any(|block| block.until > now) {
            return false;
        }
        // It holds its own part already.
        let others = self.permits.len().saturating_sub(1);
        if self.invalid.as_mut().is_some_and(|invalid| invalid.left(others, now) == 0) {
            return false;
        }
        let credit = self.credit.given();
        let bucket = flight.bucket.and_then(|slot| self.buckets.at_mut(slot));
        let Some(bucket) = bucket else { return true };
        bucket.in_flight.remove(&flight.costs);
        let is_open = bucket.is_open(&flight.costs, now, credit);
        bucket.in_flight.add(&flight.costs);
        is_open
    }

    /// A number for who was allowed at once, as tickets have one.
    #[cfg(feature = "sharing")]
    pub(crate) fn number(&mut self) -> u64 {
        self.queues.number()
    }

    /// Puts a request that was allowed and not sent back into the line of its bucket, to where it
    /// stood by its number. Nothing if there is no such line; then it is given back.
    #[cfg(feature = "sharing")]
    pub(crate) fn stand_back(
        &mut self,
        permit: Permit,
        number: u64,
        now: Moment,
    ) -> Option<Ticket> {
        let now = self.at(now);
        let flight = self.permits.at(permit.slot()).copied();
        self.give_back(permit, now);
        let InFlight { route, bucket, costs, .. } = flight?;
        self.stand(number, route, costs, bucket?, now)
    }

    /// The bucket that a permit belongs to, as people know it.
    pub fn bucket(&self, permit: &Permit) -> Option<&Arc<str>> {
        let slot = self.permits.at(permit.slot())?.bucket?;
        Some(&self.buckets.at(slot)?.name)
    }

    /// Lets at most `max` wait for each bucket from now on. Who waits already may stay.
    pub fn set_queue(&mut self, max: usize) {
        self.queues.max = max.min(WAITERS_MAX);
    }

    /// Leaves the line because it took too long, and says when it would be the turn of one who
    /// joined now. Nothing if the ticket's turn had come already.
    pub fn expire(&mut self, ticket: Ticket, now: Moment) -> Option<Limited> {
        let now = self.at(now);
        let (slot, route, costs) = self.queues.whose(ticket)?;
        self.remove(ticket.slot, now);
        Some(self.behind(slot, &route, &costs, Reason::Deadline))
    }

    /// How much sooner something may be sent than the clock says, because it has a way to go.
    #[cfg(feature = "sharing")]
    pub(crate) fn head_start(&self) -> tollgate::Nanos {
        self.credit.given().into()
    }
}
