//! What refusals show of one limit, be it of a bucket or of everything: until when nobody may pass,
//! and how far apart requests have to be where no answer tells it.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::block::{Block, RefusalTerms, Refusals, WaitBounds};
use crate::unstated_limit::{Reaction, UnstatedLimit};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RefusedLimit {
    refusals: Refusals,
    /// A limit that shows only in refusals. Seldom there is one.
    unstated: Option<Box<UnstatedLimit>>,
}

impl RefusedLimit {
    pub(crate) const fn block(&self) -> Option<&Block> {
        self.refusals.block()
    }

    /// Whether nobody may pass, not even to find out.
    pub(crate) fn covers(&self, now: Moment) -> bool {
        self.refusals.covers(now)
    }

    /// Whether it lets a request pass.
    #[inline]
    pub(crate) fn is_open(&self, now: Moment) -> bool {
        self.refusals.shut_until(now).is_none() && self.paced_until(now).is_none()
    }

    /// Until when the distance between requests lets nobody pass, if that is after `now`.
    #[inline]
    pub(crate) fn paced_until(&self, now: Moment) -> Option<Moment> {
        self.unstated.as_ref().map(|unstated| unstated.opens_at(now)).filter(|&at| at > now)
    }

    /// When a request may pass that lets so many others go first.
    pub(crate) fn predict(&self, before: u64, now: Moment) -> Moment {
        let at = self.refusals.shut_until(now).unwrap_or(now);
        self.unstated.as_ref().map_or(at, |unstated| at.max(unstated.predict(before, at)))
    }

    /// A request is let pass, and its answer is waited for as long as `patience`.
    #[inline]
    pub(crate) fn let_pass(&mut self, in_flight: u64, now: Moment, patience: Nanos) {
        // Seldom anything was ever refused.
        if self.refusals.block().is_some() {
            self.refusals.let_pass(now, patience);
        } else if let Some(unstated) = &mut self.unstated {
            unstated.take(in_flight, now);
        }
    }

    /// A request that was let pass then was not sent.
    pub(crate) fn give_back(&mut self, let_pass: Moment) {
        self.refusals.lose(let_pass);
        if let Some(unstated) = &mut self.unstated {
            unstated.give_back(let_pass);
        }
    }

    /// A request that was sent then will not be answered, or its answer says nothing of the limit.
    pub(crate) fn lose(&mut self, sent: Moment) {
        self.refusals.lose(sent);
    }

    /// A request that was sent then was answered and not refused.
    #[inline]
    pub(crate) fn serve(&mut self, sent: Moment, now: Moment) {
        let went_first = self.refusals.end(sent);
        if let Some(unstated) = &mut self.unstated {
            unstated.serve(sent, went_first, now);
        }
    }

    /// A request was refused, while so many are in flight; `learns` if the limit may be one that
    /// shows in nothing else.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        refused: RefusalTerms,
        learns: bool,
        (sent, now): (Moment, Moment),
        in_flight: u64,
        bounds: WaitBounds,
    ) {
        let is_known = self.refusals.block().is_some_and(|block| sent < block.until);
        let reaction = match &mut self.unstated {
            _ if is_known => Reaction::Nothing,
            Some(unstated) if learns => unstated.refuse(sent, in_flight, now),
            None if learns => {
                self.unstated = Some(Box::new(UnstatedLimit::new(bounds.longest, now)));
                Reaction::Unknown
            }
            _ => Reaction::Unknown,
        };
        let pause = match reaction {
            Reaction::Slower | Reaction::Nothing if refused.wait.is_none() => return,
            Reaction::Pause(until) => Some(until),
            _ => None,
        };
        self.refusals.refuse((sent, now), refused, bounds, pause);
    }

    /// Nobody may pass until then, because the server said so without refusing anything.
    pub(crate) fn shut(&mut self, now: Moment, until: Moment, truly_secs: Option<f64>) {
        self.refusals.shut(now, until, truly_secs);
    }

    /// Whatever was said or learnt, one more request may go after the longest wait from now on.
    pub(crate) fn wait_at_most(&mut self, longest: Nanos, now: Moment) {
        self.refusals.end_by(now.after(longest));
        if let Some(unstated) = &mut self.unstated {
            unstated.wait_at_most(longest, now);
        }
    }
}
