//! What happens to a reservation in the end.

use ratekeeper_time::Moment;

use super::naming::{Name, Subject};
use super::{Account, InFlight};
use crate::block::{RefusalTerms, WaitBounds};
use crate::bucket::{Bucket, Paid};
use crate::budget::Heard;
use crate::headers::{self, Said, Scope, Told, Unit};
use crate::profile::Profile;
use crate::refusal::{Answered, Refusal, Whom, refusal};
use crate::refused_limit::RefusedLimit;
use crate::request::{Request, Response};
use crate::verdict::Reservation;

impl Account {
    /// Settles a reservation with the response to its request, and learns what that says. Whether
    /// the API refused the request because of a limit.
    pub(super) fn track<'h, H>(
        &mut self,
        reservation: Reservation,
        response: Response<'_, H>,
        now: Moment,
    ) -> bool
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        let mut said = Said::default();
        headers::read_into(&mut said, response.fields.into_iter(), now);
        self.learn(reservation, response.status, &said, response.body, now)
    }

    /// Settles a reservation with what its response says, where that was read already.
    pub(super) fn learn(
        &mut self,
        reservation: Reservation,
        status: u16,
        said: &Said<'_>,
        body: Option<&[u8]>,
        now: Moment,
    ) -> bool {
        let now = self.at(now);
        let Some(mut settled) = self.reservations.remove(reservation.into_slot()) else {
            return false;
        };
        self.credit.learn(settled.sent, now);
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.land(&settled.hold, settled.sent);
        }
        self.leave_place(&settled, Some(now));
        if let Some(date_secs) = said.date_secs {
            self.dialect.clock.learn(date_secs, settled.sent, now);
        }
        let InFlight { route, bucket, sent, .. } = settled;
        let answered = Answered { bucket, sent, now, is_bodiless: route.is_bodiless };
        let refusal = refusal(&self.profile, status, said, body, answered, &mut self.dialect);
        self.count_invalid(status, said, now);

        let name = Name::of(said);
        let subject = name.map_or(Subject::This, |name| self.follow(&mut settled, name, now));
        let heard = Heard { date_secs: said.date_secs, ..self.heard(&settled, now) };
        let refill = self.profile.refill;
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            match subject {
                Subject::This if !said.global => {
                    let (hold, route) = (settled.hold, settled.route.key);
                    let paid = Paid { hold, route, is_refused: refusal.is_some() };
                    bucket.learn(&said.budgets, &paid, refill, &heard, &mut self.dialect);
                }
                Subject::Unsure => bucket.doubt(&said.budgets, &settled.hold, &heard),
                Subject::This | Subject::Another => {}
            }
            // A server that failed had perhaps no time to speak of limits.
            if status < 500 && refusal.is_none() && subject == Subject::This && !said.cached {
                bucket.is_free();
            }
        }
        match &refusal {
            Some(refusal) => self.refuse(&settled, refusal, (status, said), &heard),
            // Whether the limit lets requests pass a server that failed does not say.
            None if status >= 500 => {
                if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
                    bucket.refused.lose(settled.sent);
                }
                self.lose_scout(&settled);
            }
            None => self.serve(&settled, &heard),
        }
        self.restand(settled.bucket, now);
        // A server that is overloaded says so for other reasons, too.
        refusal.is_some() && status != 503
    }

    /// Settles a reservation whose request was never sent: what it reserved may be reserved again.
    pub(super) fn give_back(&mut self, reservation: Reservation, now: Moment) {
        let now = self.at(now);
        let Some(settled) = self.reservations.remove(reservation.into_slot()) else { return };
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.give_back(&settled.hold, settled.sent);
        }
        self.leave_place(&settled, None);
        self.refused_of_all.give_back(settled.sent);
        if !settled.route.exempt {
            self.refused_of_paced.give_back(settled.sent);
        }
        self.restand(settled.bucket, now);
    }

    /// Settles a reservation whose request may have been sent, and whose answer will not come: it
    /// counts as spent.
    pub(super) fn lost(&mut self, reservation: Reservation, now: Moment) {
        let now = self.at(now);
        let Some(settled) = self.reservations.remove(reservation.into_slot()) else { return };
        self.leave_place(&settled, Some(now));
        self.lose_scout(&settled);
        let heard = self.heard(&settled, now);
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.lose(&settled.hold, &heard);
        }
        self.restand(settled.bucket, now);
    }

    /// Forgets all that was heard of the limits of a request's bucket, and its refusals: one request
    /// finds out anew. For what a server said that was wrong.
    pub(super) fn forget(&mut self, request: &Request<'_>, now: Moment) {
        let now = self.at(now);
        let mut route = self.profile.route(request, now);
        let slot = self.bucket_of(&mut route, request, now);
        if let Some(bucket) = slot.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.forget();
        }
        self.restand(slot, now);
    }

    /// Forgets all that was heard of all limits, and all refusals. What was sent still counts
    /// against the limits of the profile.
    pub(super) fn forget_all(&mut self, now: Moment) {
        let now = self.at(now);
        self.refused_of_all = RefusedLimit::default();
        self.refused_of_paced = RefusedLimit::default();
        self.dialect.forget_units();
        self.buckets.iter_mut().for_each(Bucket::forget);
        self.forecasts.forget();
        for slot in self.queues.lines().collect::<Vec<_>>() {
            self.restand(Some(slot), now);
        }
    }

    /// The request is no longer in flight; if it was sent, its place is held for a while.
    fn leave_place(&mut self, settled: &InFlight, sent: Option<Moment>) {
        match sent {
            Some(now) => self.places.answer(&settled.route.costs, now),
            None => self.places.give_back(&settled.route.costs),
        }
    }

    /// A request was perhaps one that went first after everything was refused.
    fn lose_scout(&mut self, settled: &InFlight) {
        self.refused_of_all.lose(settled.sent);
        if !settled.route.exempt {
            self.refused_of_paced.lose(settled.sent);
        }
    }

    fn count_invalid(&mut self, status: u16, said: &Said<'_>, now: Moment) {
        let is_counted = match status {
            401 | 403 => true,
            429 => said.scope != Some(Scope::Shared),
            _ => false,
        };
        if let Some(invalid) = self.invalid.as_mut().filter(|_| is_counted) {
            invalid.add(now);
        }
    }

    fn heard(&self, settled: &InFlight, now: Moment) -> Heard {
        let Profile { unsaid, longest_wait, .. } = self.profile;
        let (unsaid, longest) = (unsaid.into(), longest_wait.into());
        let (sent, credit) = (settled.sent, self.credit.given());
        Heard { sent, now, credit, unsaid, longest, date_secs: None }
    }

    /// A request was answered and not refused.
    fn serve(&mut self, settled: &InFlight, heard: &Heard) {
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.refused.serve(heard.sent, heard.now);
        }
        self.refused_of_all.serve(heard.sent, heard.now);
        if !settled.route.exempt {
            self.refused_of_paced.serve(heard.sent, heard.now);
        }
    }

    fn refuse(
        &mut self,
        settled: &InFlight,
        refusal: &Refusal,
        (status, said): (u16, &Said<'_>),
        heard: &Heard,
    ) {
        let is_told = is_told(said);
        let refused = RefusalTerms { wait: refusal.wait, scope: refusal.scope, is_told };
        // An overload is no limit, and one that others share is not learnt from one's own requests.
        let learns = !is_told && status != 503 && refusal.scope != Scope::Shared;
        let Profile { unsaid, longest_wait: longest, .. } = self.profile;
        let bounds = WaitBounds { unsaid, longest };
        let bucket = settled.bucket.and_then(|slot| self.buckets.at_mut(slot));
        let everything = match (refusal.whom, bucket) {
            (Whom::Bucket, Some(bucket)) => {
                return bucket.refuse(refused, learns, heard, bounds);
            }
            (Whom::Paced, _) => &mut self.refused_of_paced,
            (Whom::All | Whom::Bucket, _) => &mut self.refused_of_all,
        };
        let (at, in_flight) = ((heard.sent, heard.now), self.reservations.len() as u64);
        everything.refuse(refused, learns, at, in_flight, bounds);
    }
}

/// Whether a refusal tells of the limit that was hit. If not, then by all that it tells there was
/// enough for one request.
fn is_told(said: &Said<'_>) -> bool {
    let is_left = |told: &Told<'_>| told.unit == Unit::Requests && told.remaining > Some(0);
    !said.budgets.iter().all(is_left)
}
