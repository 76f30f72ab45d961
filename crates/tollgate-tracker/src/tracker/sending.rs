//! What those need who send requests some time after they were allowed.

use std::sync::Arc;

use tollgate::Moment;

use super::{Tracker, WAITERS_MAX};
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
