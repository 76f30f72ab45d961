//! What those need who send requests some time after they were allowed.

use std::sync::Arc;

use ratekeeper_time::Moment;

use super::Account;
#[cfg(feature = "sharing")]
use super::InFlight;
use crate::verdict::{Limited, Reason, Reservation, WaiterId};

impl Account {
    /// Says that the request of a reservation is sent only now, and not when it was allowed. Without
    /// it a wait in between is taken for a part of the round trip, and round trips that seem long
    /// let others go too early.
    pub(super) fn sent(&mut self, reservation: &Reservation, now: Moment) {
        let now = self.at(now);
        if let Some(flight) = self.reservations.at_mut(reservation.slot()) {
            flight.sent = now;
        }
    }

    /// Whether the limits on all requests count the request of a reservation.
    pub(super) fn is_counted(&self, reservation: &Reservation) -> bool {
        self.reservations.at(reservation.slot()).is_none_or(|flight| !flight.route.exempt)
    }

    /// Whether the request of a reservation, which was not sent yet, may still be: what was heard since
    /// it was allowed may have shut its bucket, or left less in it than is held.
    pub(super) fn may_go(&mut self, reservation: &Reservation, now: Moment) -> bool {
        let now = self.at(now);
        let Some(&flight) = self.reservations.at(reservation.slot()) else { return false };
        let of_paced = (!flight.route.exempt).then_some(&self.refused_of_paced);
        let refused = [Some(&self.refused_of_all), of_paced];
        if refused.into_iter().flatten().any(|it| it.covers(now)) {
            return false;
        }
        // It holds its own part already.
        let others = self.reservations.len().saturating_sub(1);
        if self.invalid.as_mut().is_some_and(|invalid| invalid.left(others, now) == 0) {
            return false;
        }
        let credit = self.credit.given();
        let bucket = flight.bucket.and_then(|slot| self.buckets.at_mut(slot));
        let Some(bucket) = bucket else { return true };
        bucket.in_flight.remove(&flight.hold);
        let is_open = !bucket.refused.covers(now) && bucket.has_room(&flight.hold, now, credit);
        bucket.in_flight.add(&flight.hold);
        is_open
    }

    /// Puts a request that was allowed and not sent back into the line of its bucket, to where it
    /// stood by its number. Nothing if there is no such line; then it is given back.
    #[cfg(feature = "sharing")]
    pub(crate) fn stand_back(
        &mut self,
        reservation: Reservation,
        number: u64,
        now: Moment,
    ) -> Option<WaiterId> {
        let now = self.at(now);
        let flight = self.reservations.at(reservation.slot()).copied();
        self.give_back(reservation, now);
        let InFlight { route, bucket, hold, .. } = flight?;
        self.stand(number, route, hold.said(), bucket?, now)
    }

    /// The bucket that a reservation belongs to, as people know it.
    pub(super) fn bucket(&self, reservation: &Reservation) -> Option<&Arc<str>> {
        let slot = self.reservations.at(reservation.slot())?.bucket?;
        Some(&self.buckets.at(slot)?.name)
    }

    /// Lets at most `max` wait for each bucket from now on. Who waits already may stay.
    pub(super) fn set_queue(&mut self, max: usize) {
        self.queues.max = max;
    }

    /// Leaves the line because it took too long, and says when it would be the turn of one who
    /// joined now. Nothing if the waiter's turn had come already.
    pub(super) fn expire(&mut self, waiter_id: WaiterId, now: Moment) -> Option<Limited> {
        let now = self.at(now);
        let (slot, route, costs) = self.queues.whose(waiter_id)?;
        self.remove(waiter_id.slot, now);
        Some(self.behind(slot, &route, &costs, Reason::Deadline))
    }

    /// How much sooner something may be sent than the clock says, because it has a way to go.
    #[cfg(feature = "sharing")]
    pub(crate) fn head_start(&self) -> ratekeeper_time::Nanos {
        self.credit.given().into()
    }
}
