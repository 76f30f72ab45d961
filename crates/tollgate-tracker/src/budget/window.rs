//! A budget that is full again at one moment.
//!
//! The server counts a request between its sending and its answer, and says how long it is from
//! then to the reset. So each response bounds the moment of the reset from both sides, on the
//! caller's own clock: after the sending, and before the receipt, each plus that length. Windows
//! that cannot be the same one are told apart by these bounds, however late a response is.
//!
//! Of one window the least that was left counts. Requests in flight are not in it: what may be
//! taken is what is left, less what is in flight. That is exact, because of all responses had the
//! one that was counted last says the least, and whatever is counted after it is still in flight.
//! It stays so over a reset, since what is in flight then is held back from the new window too.
//!
//! Some servers say only when there is more, and mean one more: theirs fills up little by little, or
//! it does not; nobody can see. There one more is taken, and its answer tells how much there is.

use tollgate::{Moment, Nanos};

use super::untold::Untold;
use super::{Heard, Open, Trip};
use crate::headers::{Told, Wait};
use crate::length::Length;

const SECOND: Length = Length::from_nanos(1_000_000_000);
/// How exactly a moment is told by servers of which nothing is known: whole seconds.
const PRECISION_UNKNOWN: Length = SECOND;

#[derive(Clone, Debug)]
pub(super) struct Window {
    /// How exactly the end is told, where it is known not to move.
    fixed: Option<Length>,
    left: u64,
    /// How much of it is sure, until an answer tells.
    sure: u64,
    end: Option<End>,
    /// From when on requests were sent into this window.
    began: Moment,
    /// The bounds of the end of the window before.
    ended_from: Moment,
    ended: Moment,
    untold: Untold,
    /// How long a window lasts, as far as it was seen.
    length: Option<Length>,
}

/// Bounds of the moment at which the window ends.
#[derive(Clone, Copy, Debug)]
struct End {
    from: Moment,
    by: Moment,
    /// When all is there again: later where only more is there by the end.
    full_by: Moment,
    /// Whether a response said so that is surely of this window; if not, the next that is says it.
    is_told: bool,
    truly_secs: Option<f64>,
}

impl Window {
    pub(super) const fn new(fixed: Option<Length>) -> Self {
        Self {
            fixed,
            left: u64::MAX,
            sure: u64::MAX,
            end: None,
            began: Moment::EPOCH,
            ended_from: Moment::EPOCH,
            ended: Moment::EPOCH,
            untold: Untold::new(),
            length: None,
        }
    }

    pub(super) fn learn(&mut self, told: &Told<'_>, limit: Option<u64>, cost: u64, heard: &Heard) {
        self.renew(limit, heard.now, heard.credit);
        self.measure(told);
        let Some(left) = told.remaining else {
            // Only how much there is, not what is left: it counts for itself.
            self.left = self.left.min(limit.unwrap_or(u64::MAX));
            if self.end.is_none() && told.reset_in.is_some() {
                self.end = Some(self.bounds(told, heard));
            }
            return self.spend(cost, limit, heard);
        };
        // Only one that was sent later surely tells of what no other did.
        self.untold.forget(heard.sent);
        let left = left.saturating_sub(self.untold.cost());
        let end = self.bounds(told, heard);
        let precision = self.precision().into();
        if heard.sent < self.began && end.from <= self.ended.after(precision) {
            return self.learn_late(left, &end, heard);
        }
        self.sure = u64::MAX;
        match self.end.filter(|known| known.is_told) {
            Some(known) if end.from > known.by.after(precision) => {
                // Nothing sent from now on can be counted in the window that was known.
                self.ended_from = known.from;
                self.ended = known.by;
                self.began = heard.now;
                self.left = left;
                self.end = Some(end);
            }
            Some(known) => {
                self.left = self.left.min(left);
                self.end = Some(self.meet(known, end, heard.now));
            }
            None => {
                self.left = self.left.min(left);
                self.end = Some(end);
            }
        }
    }

    /// Learns what a response says that may speak of this window or of another: the stricter counts,
    /// until one that surely speaks of this one says otherwise.
    pub(super) fn doubt(&mut self, told: &Told<'_>, limit: Option<u64>, cost: u64, heard: &Heard) {
        let Some(left) = told.remaining else { return self.spend(cost, limit, heard) };
        self.renew(limit, heard.now, heard.credit);
        self.left = self.left.min(left);
        let end = self.bounds(told, heard);
        let known = self.end.unwrap_or(end);
        let (from, by) = (known.from.min(end.from), known.by.max(end.by));
        let full_by = known.full_by.max(end.full_by);
        self.end = Some(End { from, by, full_by, is_told: false, truly_secs: end.truly_secs });
    }

    pub(super) fn spend(&mut self, cost: u64, limit: Option<u64>, heard: &Heard) {
        self.renew(limit, heard.now, heard.credit);
        self.left = self.left.saturating_sub(cost);
        self.sure = self.sure.saturating_sub(cost);
        self.untold.add(cost, self.length.unwrap_or(heard.unsaid), heard.now);
        if self.end.is_none() {
            // Or it would stay spent for ever.
            self.end = self.untold_end(heard.sent);
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "on the way of every request, and short")]
    pub(super) fn open(
        &mut self,
        limit: Option<u64>,
        cost: u64,
        in_flight: u64,
        now: Moment,
        credit: Length,
    ) -> Open {
        self.renew(limit, now, credit);
        let left = self.room();
        let Some(end) = self.end else {
            return match limit {
                _ if in_flight == 0 => Open::Now,
                Some(limit) if fits(cost, in_flight, left.min(limit), limit) => Open::Now,
                // Of a window of which nothing is known one request finds out.
                _ => Open::Answered,
            };
        };
        let most = limit.unwrap_or(u64::MAX);
        if fits(cost, in_flight, left, most) {
            return Open::Now;
        }
        let then = if end.is_full() { most } else { left.saturating_add(1).min(most) };
        let renewed = limit.is_some_and(|limit| fits(cost, in_flight, then, limit));
        if renewed || in_flight == 0 {
            Open::At(end.by.before(credit.into()), end.truly_secs)
        } else {
            Open::Answered
        }
    }

    pub(super) fn predict(
        &self,
        limit: Option<u64>,
        cost: u64,
        ahead: u64,
        now: Moment,
        trip: Trip,
    ) -> Option<Moment> {
        let (limit, credit) = (limit?, trip.credit);
        let left = self.left(Some(limit), now, credit).unwrap_or(limit);
        let wanted = ahead.saturating_add(cost.min(limit));
        if wanted <= left {
            return Some(now);
        }
        let missing = wanted - left;
        let first = match self.end.filter(|end| end.by.before(credit.into()) > now) {
            Some(end) => end.by.before(credit.into()),
            None => now.after(self.length?.into()),
        };
        // A window begins when its first request is counted, and it is heard of when that is answered.
        let lag = trip.usual.get().saturating_sub(Nanos::from(credit).get());
        let lag = lag.saturating_add(Nanos::from(self.rounding()).get());
        let length = self.length.map(|length| Nanos::from(length).get());
        let more = if self.end.is_none_or(|end| end.is_full()) {
            let each = length.map_or(0, |length| length.saturating_add(lag));
            each.saturating_mul(u128::from(missing.div_ceil(limit) - 1))
        } else {
            // One by one, as far as anybody knows; who is the next need not fit to find out.
            let before = (missing - 1).min(ahead);
            length.unwrap_or(0).saturating_mul(u128::from(before)) / u128::from(limit)
        };
        Some(first.after(Nanos::new(more)))
    }

    pub(super) fn left(&self, limit: Option<u64>, now: Moment, credit: Length) -> Option<u64> {
        let has_come = |at: Moment| at.before(credit.into()) <= now;
        let (left, most) = (self.room(), limit.unwrap_or(u64::MAX));
        match self.end {
            Some(end) if !has_come(end.by) => Some(left.min(most)),
            Some(end) if !has_come(end.full_by) => limit.map(|_| left.saturating_add(1).min(most)),
            Some(_) => limit,
            None => limit.map(|_| self.sure.min(most)),
        }
    }

    pub(super) fn reset_at(&self) -> Option<Moment> {
        self.end.map(|end| end.by)
    }

    /// Begins the next window when this one has ended for whatever is sent now.
    #[inline]
    fn renew(&mut self, limit: Option<u64>, now: Moment, credit: Length) {
        let Some(end) = self.end.filter(|end| end.by.before(credit.into()) <= now) else { return };
        self.began = end.by.before(credit.into());
        self.ended_from = end.from;
        self.ended = end.by;
        let is_full = end.full_by.before(credit.into()) <= now;
        self.sure = if is_full { u64::MAX } else { self.room().saturating_add(1) };
        self.left = limit.unwrap_or(u64::MAX);
        if end.is_told {
            self.untold.forget(end.from);
        }
        self.untold.forget_old(now.after(credit.into()));
        // What is left was perhaps counted after the reset, and then in this window.
        self.left = self.left.saturating_sub(self.untold.cost());
        self.end = self.untold_end(end.from);
    }

    /// The end of the window in which something was counted that no response told of, if anything.
    fn untold_end(&self, from: Moment) -> Option<End> {
        let by = self.untold.until()?;
        Some(End { from, by, full_by: by, is_told: false, truly_secs: None })
    }

    /// How much of what is left may be taken before an answer tells that it is there.
    #[inline]
    fn room(&self) -> u64 {
        self.left.min(self.sure)
    }

    /// A response to a request that was sent before this window and seems to be of one that is
    /// over. If it took so long that it may be of this one after all, then the least counts, but
    /// it says nothing of the end.
    fn learn_late(&mut self, left: u64, end: &End, heard: &Heard) {
        let length = self.length.unwrap_or(heard.unsaid).into();
        if end.by < self.ended_from.after(length) {
            return;
        }
        self.left = self.left.min(left);
        match &mut self.end {
            Some(known) if known.is_told => {}
            Some(known) => {
                known.by = known.by.max(end.by);
                known.full_by = known.full_by.max(end.full_by);
            }
            None => {
                let (from, by) = (self.ended, end.by.max(heard.now.after(length)));
                let full_by = end.full_by.max(by);
                self.end = Some(End { from, by, full_by, is_told: false, truly_secs: None });
            }
        }
    }

    fn measure(&mut self, told: &Told<'_>) {
        let seen = self.length.max(told.reset_in.map(|wait| wait.length.into()));
        self.length = told.window.map(Length::from).or(seen);
    }

    fn bounds(&self, told: &Told<'_>, heard: &Heard) -> End {
        let (length, truly_secs) = match told.reset_in {
            Some(Wait { length, truly_secs }) => (length, truly_secs),
            None => (self.length.unwrap_or(heard.unsaid).into(), None),
        };
        let by = heard.now.after(length).after(self.rounding().into());
        // Whoever knows that it is full at one moment need not ask.
        let full_by = if told.only_more && self.fixed.is_none() {
            told.window.map_or(Moment::MAX, |window| heard.now.after(window)).max(by)
        } else {
            by
        };
        let (from, is_told) = (heard.sent.after(length), told.reset_in.is_some());
        End { from, by, full_by, is_told, truly_secs }
    }

    /// What a response says together with what is known. One that was received before the window
    /// can have ended is of the same window, so both bounds hold, where the end is fixed. One that
    /// came later may be of the next; then the earlier lower bound and the later upper one are right
    /// for either.
    fn meet(&self, known: End, end: End, now: Moment) -> End {
        let is_same = self.fixed.is_some() && now < known.from && end.by >= known.from;
        let from = if is_same { known.from.max(end.from) } else { known.from.min(end.from) };
        let earlier = end.by < known.by;
        let met = if is_same == earlier { end } else { known };
        let latest = known.full_by.max(end.full_by);
        let full_by = if self.fixed.is_some() { met.by } else { latest };
        End { from, full_by, ..met }
    }

    /// By how much an end may be told too early. Whole seconds are points that are counted from the
    /// second of the response, which is never too early; what is finer may be rounded down.
    fn rounding(&self) -> Length {
        self.fixed.filter(|precision| *precision < SECOND).unwrap_or(Length::ZERO)
    }

    fn precision(&self) -> Length {
        self.fixed.unwrap_or(PRECISION_UNKNOWN)
    }
}

impl End {
    /// Whether all is there by then.
    fn is_full(&self) -> bool {
        self.full_by <= self.by
    }
}

/// Whether `cost` fits beside what is in flight. Who asks for more than there ever is waits until
/// all of it is there, and then hears from the server.
fn fits(cost: u64, in_flight: u64, left: u64, limit: u64) -> bool {
    in_flight.saturating_add(cost.min(limit)) <= left
}
