//! What requests take of a budget whose costs nobody said.
//!
//! Each answer says how much was left when its request was counted. So of two requests that were
//! counted one after the other, the second took what is missing between their answers, and what
//! came back meanwhile. In which order they were counted, the answers tell: the later one leaves
//! less. Answers come late and in any order, so one is only used when all requests are answered
//! that may have been counted before it. All that was taken together is seen exactly; where so many
//! requests are counted within the doubt about when each was that their order cannot be told, what
//! is seen is their mean.
//!
//! From that each route has a mean. Besides the means of all that is in flight something is kept
//! back for what they vary by: as much as one request took beyond its mean lately, but only a part
//! of the budget, and five mean deviations of all others together.

use ratekeeper_time::Moment;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::budget::Heard;

/// How many answers are kept until those before them have come.
const ANSWERS_MAX: usize = 256;
/// How many routes have a mean of their own in one budget, the first ones. Others share that of all.
const ROUTES_MAX: usize = 16;
/// A mean follows as quickly as if it were that of so many requests.
const MEAN_OF: u64 = 32;
/// And so does what they vary by.
const DEVIATION_OF: u64 = 16;
/// So many times what one varies by is kept back, and of several as many times the root of how many.
const DEVIATIONS: u64 = 5;
/// What one took beyond its mean is kept back for as many of them, up to twice that.
const KEPT_FOR: u64 = 256;
/// Of that, no more than one in so many of all there is.
const BEYOND_PART: u64 = 8;
/// And so much of it more.
const KEPT_MORE: u64 = 8;
/// A mean of few requests is in doubt: of one, by so many times what it is; of two, by half of
/// that, and so on. Of many that are in flight the more is kept back.
const DOUBT: u64 = 3;
const DOUBT_OF_MANY: u64 = 12;
/// Of so many requests it is not.
const SURE_FROM: u64 = 64;
/// In which parts of one means are kept, as a number of bits.
const FINE_BITS: u32 = 8;
/// More is not taken at once, as far as anybody can tell.
const TAKEN_MAX: u64 = 1 << 40;

/// What requests without a stated cost take of one budget.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CostEstimate {
    /// In the order in which the server counted them. What the first one took is known, or not to
    /// be known any more.
    answers: Vec<Answer>,
    /// How quickly it comes back: so much in so many nanoseconds.
    refill: Option<(u64, u64)>,
    /// When the window of these answers began.
    began: Moment,
    /// The least of what the first answer showed to be missing: before anything is known, no
    /// request is taken to cost much more.
    missing_at_first: Option<u64>,
    limit: Option<u64>,
    all: Mean,
    routes: SmallVec<[(u64, Mean); 1]>,
    /// By how much requests differ from the means of their routes.
    deviation: u64,
    /// The most that one took beyond it, of the latest [`KEPT_FOR`] and of those before.
    beyond: u64,
    beyond_before: u64,
}

/// An answer that said how much was left.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Answer {
    left: u64,
    sent: Moment,
    heard: Moment,
    /// How many requests may have been counted before it that are not answered yet.
    waits_for: u64,
    /// The route whose cost it tells, if that was not said before and it was served.
    route: Option<u64>,
    is_used: bool,
}

/// What requests took on average.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Mean {
    of: u64,
    /// In parts of one.
    fine: u64,
}

/// Whose answer told what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer {
    pub(crate) route: u64,
    /// Whether its cost was said before.
    pub(crate) is_stated: bool,
    pub(crate) is_refused: bool,
    /// Whether it was refused, and by nothing else as far as the answer tells.
    pub(crate) may_lack: bool,
    /// How many requests are in flight beside it.
    pub(crate) in_flight: u64,
}

/// What a budget looks like when an answer is heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) left: u64,
    pub(crate) limit: Option<u64>,
    /// How quickly it comes back, where it does so little by little.
    pub(crate) refill: Option<(u64, u64)>,
    /// When the window began that the answer speaks of, if it is known to be full then.
    pub(crate) began: Moment,
}

impl CostEstimate {
    /// How much to keep back for a request of a route: at least one.
    pub(crate) fn of(&self, route: u64) -> u64 {
        let own = self.routes.iter().find(|(key, _)| *key == route).map(|(_, mean)| *mean);
        // Of a route that was not seen yet it is that of the most expensive one, if it will be seen.
        let dearest = || self.routes.iter().map(|(_, mean)| *mean).max_by_key(|mean| mean.fine);
        let other = if self.has_all_routes() { None } else { dearest() };
        let mean = own.or(other).unwrap_or(self.all);
        if mean.of == 0 {
            return self.unknown();
        }
        whole(mean.fine.saturating_add(mean.doubt(DOUBT))).max(1)
    }

    /// How much to keep back besides for what they vary by, if so many are in flight.
    pub(crate) fn margin(&self, guessed: u64) -> u64 {
        let Some(others) = guessed.checked_sub(1) else { return 0 };
        let together =
            self.deviation.saturating_mul(others.saturating_mul(DEVIATIONS * DEVIATIONS).isqrt());
        let doubt = self.all.doubt(DOUBT_OF_MANY).saturating_mul(others);
        let beyond = self.beyond.max(self.beyond_before);
        let most = (self.limit.unwrap_or(TAKEN_MAX) / BEYOND_PART).min(TAKEN_MAX) << FINE_BITS;
        let beyond = beyond.saturating_add(beyond / KEPT_MORE).min(most);
        whole(beyond.saturating_add(together).saturating_add(doubt))
    }

    /// A request that was sent then is no longer in flight.
    pub(crate) fn land(&mut self, sent: Moment) {
        for answer in &mut self.answers {
            if sent <= answer.heard {
                answer.waits_for = answer.waits_for.saturating_sub(1);
            }
        }
    }

    /// Learns from an answer.
    pub(crate) fn learn(&mut self, payer: Payer, told: &Standing, heard: &Heard) {
        self.limit = told.limit;
        self.note_refill(told.refill);
        if told.began != self.began {
            self.begin(told);
        }
        let missing = told.limit.map(|limit| limit.saturating_sub(told.left));
        self.missing_at_first = self.missing_at_first.or(missing.filter(|_| !payer.is_refused));
        let is_asked = !payer.is_stated && !payer.is_refused;
        let answer = Answer {
            left: told.left,
            sent: heard.sent,
            heard: heard.now,
            waits_for: payer.in_flight,
            route: is_asked.then_some(payer.route),
            is_used: false,
        };
        if payer.may_lack && !payer.is_stated {
            self.miss(payer.route, told.left);
        }
        let place = self.answers.partition_point(|other| self.was_before(other, &answer));
        if place > 0 || self.answers.first().is_none_or(|first| !first.is_used) {
            self.answers.insert(place, answer);
        }
        self.use_answers();
    }

    /// A request was refused while so much was left: perhaps it would have taken more.
    fn miss(&mut self, route: u64, left: u64) {
        let expected = self.of(route);
        let reserved = expected.saturating_add(self.margin(1));
        // If much more was left, something else refused it.
        if self.all.of > 0 && left <= reserved.saturating_mul(2) {
            self.beyond = self.beyond.max(left.min(TAKEN_MAX) << FINE_BITS);
        }
    }

    /// Before anything is known: a part of all there is, if the first request did not take less.
    fn unknown(&self) -> u64 {
        let most = self.limit.unwrap_or(u64::MAX) / 4;
        self.missing_at_first
            .map_or(most, |missing| missing.saturating_mul(DOUBT_OF_MANY).min(most))
            .max(1)
    }

    /// A window has begun in which all was there.
    fn begin(&mut self, told: &Standing) {
        self.began = told.began;
        self.answers.clear();
        if let Some(left) = told.limit {
            let (sent, heard) = (told.began, told.began);
            self.answers.push(Answer {
                left,
                sent,
                heard,
                waits_for: 0,
                route: None,
                is_used: true,
            });
        }
    }

    /// It is known best where much is missing, as moments are rounded.
    fn note_refill(&mut self, refill: Option<(u64, u64)>) {
        let is_better =
            |(much, _): (u64, u64)| self.refill.is_none_or(|(known, _)| much >= known / 2);
        self.refill = match refill {
            Some(refill) if is_better(refill) => Some(refill),
            Some(_) => self.refill,
            None => None,
        };
    }

    /// What was there when the request of `answer` was counted, if it came right after the other.
    fn left_for(&self, before: &Answer, answer: &Answer) -> u64 {
        let nanos = answer.sent.as_nanos().saturating_sub(before.sent.as_nanos());
        let back = self.come_back(nanos);
        before.left.saturating_add(back).min(self.limit.unwrap_or(u64::MAX))
    }

    fn come_back(&self, nanos: u64) -> u64 {
        let Some((much, fill)) = self.refill else { return 0 };
        let back = u128::from(much) * u128::from(nanos) / u128::from(fill.max(1));
        u64::try_from(back).unwrap_or(u64::MAX)
    }

    /// Whether the request of one answer was counted before that of another: the later one leaves
    /// less, but for what came back.
    fn was_before(&self, one: &Answer, other: &Answer) -> bool {
        let (one_at, other_at) = (one.sent.as_nanos(), other.sent.as_nanos());
        let one_left = one.left.saturating_add(self.come_back(other_at.saturating_sub(one_at)));
        let left = other.left.saturating_add(self.come_back(one_at.saturating_sub(other_at)));
        // Who was refused took nothing.
        (one_left, other_at) >= (left, one_at)
    }

    /// Learns from all answers that no other can come before any more.
    fn use_answers(&mut self) {
        let mut place = 0;
        while place < self.answers.len() {
            let is_late = place == 1 && self.answers.len() > ANSWERS_MAX;
            let answer = self.answers[place];
            if !answer.is_used && (answer.waits_for == 0 || is_late) {
                self.answers[place].is_used = true;
                let before = place.checked_sub(1).and_then(|place| self.answers.get(place));
                if let (Some(before), Some(route)) = (before, answer.route) {
                    let taken = self.left_for(before, &answer).saturating_sub(answer.left);
                    self.take(route, taken.min(TAKEN_MAX));
                }
            }
            if place == 1 && answer.waits_for == 0 || is_late {
                // Nobody comes before the second any more.
                self.answers.remove(0);
            } else {
                place += 1;
            }
        }
    }

    /// A request took so much.
    fn take(&mut self, route: u64, taken: u64) {
        let taken = taken << FINE_BITS;
        let of_all = self.all;
        let known = self.own_mean(route).map_or(of_all, |own| {
            let known = *own;
            own.add(taken);
            known
        });
        let expected = if known.of == 0 { taken } else { known.fine };
        self.all.add(taken);
        if self.all.of.is_multiple_of(KEPT_FOR) {
            self.beyond_before = std::mem::take(&mut self.beyond);
        }
        self.beyond = self.beyond.max(taken.saturating_sub(expected));
        let steps = self.all.of.min(DEVIATION_OF);
        self.deviation =
            self.deviation - self.deviation.div_ceil(steps) + taken.abs_diff(expected) / steps;
    }

    /// The mean of one route, if it is among those that have one.
    fn own_mean(&mut self, route: u64) -> Option<&mut Mean> {
        let place = self.routes.iter().position(|(key, _)| *key == route);
        if place.is_none() && self.has_all_routes() {
            return None;
        }
        let place = place.unwrap_or_else(|| {
            self.routes.push((route, Mean::default()));
            self.routes.len() - 1
        });
        self.routes.get_mut(place).map(|(_, mean)| mean)
    }

    fn has_all_routes(&self) -> bool {
        self.routes.len() >= ROUTES_MAX
    }
}

impl Mean {
    fn doubt(&self, times: u64) -> u64 {
        if self.of < SURE_FROM { self.fine.saturating_mul(times) / self.of.max(1) } else { 0 }
    }

    fn add(&mut self, fine: u64) {
        self.of = self.of.saturating_add(1);
        let steps = self.of.min(MEAN_OF);
        self.fine = if fine > self.fine {
            self.fine + (fine - self.fine).div_ceil(steps)
        } else {
            self.fine - (self.fine - fine) / steps
        };
    }
}

fn whole(fine: u64) -> u64 {
    fine.div_ceil(1 << FINE_BITS)
}

#[cfg(test)]
mod tests;
