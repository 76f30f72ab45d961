//! What happens to a permit in the end.

use tollgate::{Moment, Nanos};

use super::naming::{Name, Subject};
use super::{InFlight, Tracker, doubled};
use crate::bucket::Block;
use crate::budget::Heard;
use crate::headers::{self, Said, Scope};
use crate::refusal::{Refusal, Whom, refusal};
use crate::request::Response;
use crate::verdict::Permit;

/// The longest wait after refusals that do not say how long.
pub const UNSAID_MAX: Nanos = Nanos::from_secs(900);

impl Tracker {
    /// Settles a permit with the response to its request, and learns what that says.
    pub fn track<'h, H>(&mut self, permit: Permit, response: Response<'_, H>, now: Moment)
    where
        H: IntoIterator<Item = (&'h str, &'h [u8])>,
    {
        let mut said = Said::default();
        headers::read_into(&mut said, response.fields.into_iter(), now);
        self.learn(permit, response.status, &said, response.body, now);
    }

    /// Settles a permit with what its response says, where that was read already.
    pub fn learn(
        &mut self,
        permit: Permit,
        status: u16,
        said: &Said<'_>,
        body: Option<&[u8]>,
        now: Moment,
    ) {
        let now = self.at(now);
        let Some(mut settled) = self.permits.remove(permit.into_slot()) else { return };
        self.credit.learn(settled.sent, now);
        self.land(&settled, Some(now));
        let refusal = refusal(&self.profile, status, said, body);
        self.count_invalid(status, said, now);

        let name = Name::of(said);
        let subject = name.map_or(Subject::This, |name| self.follow(&mut settled, name, now));
        let heard = self.heard(&settled, now);
        let refill = self.profile.refill;
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            match subject {
                Subject::This if !said.global => {
                    bucket.learn(&said.budgets, &settled.costs, refill, &heard);
                }
                Subject::Unsure => bucket.doubt(&said.budgets, &settled.costs, &heard),
                Subject::This | Subject::Another => {}
            }
            // A server that failed had perhaps no time to speak of limits.
            if status < 500 && refusal.is_none() {
                if subject == Subject::This && !said.cached {
                    bucket.is_free();
                }
                bucket.strikes = 0;
            }
        }
        match refusal {
            Some(refusal) => self.refuse(&settled, &refusal, now),
            None => self.strikes = 0,
        }
        self.restand(settled.bucket, now);
    }

    /// Settles a permit whose request was never sent: what it reserved may be reserved again.
    pub fn give_back(&mut self, permit: Permit, now: Moment) {
        let now = self.at(now);
        let Some(settled) = self.permits.remove(permit.into_slot()) else { return };
        self.land(&settled, None);
        self.restand(settled.bucket, now);
    }

    /// Settles a permit whose request may have been sent, and whose answer will not come: it
    /// counts as spent.
    pub fn lost(&mut self, permit: Permit, now: Moment) {
        let now = self.at(now);
        let Some(settled) = self.permits.remove(permit.into_slot()) else { return };
        self.land(&settled, Some(now));
        let heard = self.heard(&settled, now);
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.lose(&settled.costs, &heard);
        }
        self.restand(settled.bucket, now);
    }

    /// The request is no longer in flight; if it was sent, its place is held for a while.
    fn land(&mut self, settled: &InFlight, sent: Option<Moment>) {
        if let Some(bucket) = settled.bucket.and_then(|slot| self.buckets.at_mut(slot)) {
            bucket.in_flight.remove(&settled.costs);
        }
        if let Some(places) = self.places.as_mut().filter(|_| !settled.route.exempt) {
            match sent {
                Some(now) => places.answer(now),
                None => places.give_back(),
            }
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
        let (credit, unsaid) = (self.credit.given(), self.profile.unsaid.into());
        Heard { sent: settled.sent, now, credit, unsaid }
    }

    fn refuse(&mut self, settled: &InFlight, refusal: &Refusal, now: Moment) {
        let bucket = settled.bucket.and_then(|slot| self.buckets.at_mut(slot));
        let strikes = match (refusal.whom, bucket.as_ref()) {
            (Whom::Bucket, Some(bucket)) => bucket.strikes,
            _ => self.strikes,
        };
        let length = refusal.wait.map(|wait| wait.length);
        let block = Block {
            until: now.after(length.unwrap_or_else(|| doubled(self.profile.unsaid, strikes))),
            truly_secs: refusal.wait.and_then(|wait| wait.truly_secs),
            scope: refusal.scope,
        };
        let strikes = if length.is_none() { strikes.saturating_add(1) } else { 0 };
        match (refusal.whom, bucket) {
            (Whom::Bucket, Some(bucket)) => {
                bucket.strikes = strikes;
                bucket.block(block);
            }
            (Whom::Paced, _) => {
                self.strikes = strikes;
                self.block_paced = Some(block.or_longer(self.block_paced));
            }
            (Whom::All | Whom::Bucket, _) => {
                self.strikes = strikes;
                self.block_all = Some(block.or_longer(self.block_all));
            }
        }
    }
}
