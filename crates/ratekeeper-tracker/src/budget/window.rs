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

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use super::untold::Untold;
use super::whole_seconds::{Point, Which, WholeSeconds};
use super::{Heard, Open, Trip};
use crate::dialect::Dialect;
use crate::headers::{Rounded, Told, WAIT_MAX, Wait};
use crate::length::Length;

const SECOND: Length = Length::from_nanos(1_000_000_000);
/// How exactly a moment is told by servers of which nothing is known: whole seconds.
const PRECISION_UNKNOWN: Length = SECOND;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    /// How exactly the end is told, where it is known not to move.
    fixed: Option<Length>,
    left: u64,
    /// How much of it is sure, until an answer tells.
    sure: u64,
    end: Option<End>,
    /// From when on requests were sent into this window.
    began: Moment,
    /// When it was last known to be full.
    full_at: Moment,
    /// The bounds of the end of the window before.
    ended_from: Moment,
    ended: Moment,
    untold: Untold,
    /// How long a window lasts, as far as it was seen.
    length: Option<Length>,
    /// Where its end is told as a whole second, and the profile does not say how exact that is.
    whole: Option<Box<WholeSeconds>>,
}

/// Bounds of the moment at which the window ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    from: Moment,
    by: Moment,
    /// When all is there again: later where only more is there by the end, or where the end is
    /// further away than anybody waits.
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
            full_at: Moment::EPOCH,
            ended_from: Moment::EPOCH,
            ended: Moment::EPOCH,
            untold: Untold::new(),
            length: None,
            whole: None,
        }
    }

    pub(super) fn learn(
        &mut self,
        told: &Told<'_>,
        limit: Option<u64>,
        cost: u64,
        heard: &Heard,
        dialect: &mut Dialect,
    ) {
        self.renew(limit, heard.now, heard.credit);
        self.measure(told, heard.longest);
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
        let is_first = limit.is_some_and(|limit| limit - left.min(limit) == cost);
        let left = left.saturating_sub(self.untold.cost());
        let is_believed = told.reset_in.is_none_or(|wait| wait.length <= heard.longest.into());
        let is_point = is_believed && self.is_finer_than_told();
        if let Some(Rounded::Point(reset)) = told.rounded.filter(|_| is_point) {
            let point = Point { reset, is_first };
            return self.learn_point(told, point, (left, limit), heard, dialect);
        }
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
                if heard.now >= known.from {
                    self.full_at = heard.now;
                }
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

    /// Learns from a response that tells the end as a whole second.
    fn learn_point(
        &mut self,
        told: &Told<'_>,
        point: Point,
        (left, limit): (u64, Option<u64>),
        heard: &Heard,
        dialect: &mut Dialect,
    ) {
        let new = || Box::new(WholeSeconds::new(point, limit, heard, dialect));
        let whole = self.whole.get_or_insert_with(new);
        let which = whole.hear(point, heard, dialect);
        let (from, by) = whole.bounds(dialect);
        // A window that is over for us may still be that of requests that were sent before.
        let is_late = which == Which::This && self.end.is_none() && heard.sent < self.began;
        if which == Which::Before || is_late {
            return;
        }
        let is_new = which == Which::Next && self.end.is_some();
        if is_new {
            (self.ended_from, self.ended) = self.end.map_or((from, by), |end| (end.from, end.by));
            self.began = heard.now;
        }
        self.left = if is_new { left } else { self.left.min(left) };
        self.sure = u64::MAX;
        // It is not over before it is told to be, and whoever is refused does not ask at once.
        let told_in = told.reset_in.unwrap_or(Wait { length: Nanos::ZERO, truly_secs: None });
        let latest = heard.now.after(told_in.length).after(SECOND.into());
        let by = by.min(latest).min(heard.now.after(WAIT_MAX));
        let by = if by <= heard.now && left == 0 { latest } else { by };
        let from = from.min(by);
        let truly_secs = told_in.truly_secs;
        self.end = Some(End { from, by, full_by: by, is_told: true, truly_secs });
    }

    /// Whether ends are taken to be more exact than whole seconds, or nothing is known of it.
    fn is_finer_than_told(&self) -> bool {
        self.fixed.is_none_or(|precision| precision < SECOND)
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

    /// More is there by then, whatever was said. All of it is there when it was said to be.
    pub(super) fn end_by(&mut self, latest: Moment) {
        if let Some(end) = &mut self.end {
            (end.from, end.by) = (end.from.min(latest), end.by.min(latest));
        }
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
                Some(limit) if fits(cost, in_flight, left.min(limit), limit) => {
                    let is_kept = self.is_last(cost, in_flight)
                        && self.whole.as_ref().is_some_and(|whole| whole.keeps_last());
                    if is_kept { self.answered(now) } else { Open::Now }
                }
                // Of a window of which nothing is known one request finds out.
                Some(_) => self.answered(now),
                None => Open::Probing,
            };
        };
        let most = limit.unwrap_or(u64::MAX);
        if fits(cost, in_flight, left, most) {
            return match self.kept_until(cost, in_flight, now) {
                None => Open::Now,
                Some(until) => Open::At(until, None),
            };
        }
        if let Some(whole) = &mut self.whole {
            whole.want();
        }
        let then = if end.is_full() { most } else { left.saturating_add(1).min(most) };
        let renewed = limit.is_some_and(|limit| fits(cost, in_flight, then, limit));
        if renewed || in_flight == 0 {
            Open::At(end.by.before(credit.into()), end.truly_secs)
        } else {
            self.answered(end.by)
        }
    }

    /// An answer is waited for: whatever has none by then was counted before, and not in the next
    /// window.
    fn answered(&self, from: Moment) -> Open {
        Open::Answered { window: self.length.unwrap_or(SECOND), from }
    }

    /// Until when a request would be kept that takes the last of the window, where that is to be.
    #[inline]
    fn kept_until(&self, cost: u64, in_flight: u64, now: Moment) -> Option<Moment> {
        let until = self.whole.as_ref()?.kept_until().filter(|&until| until > now)?;
        (self.is_last(cost, in_flight) && until < self.end?.by).then_some(until)
    }

    /// Whether a request takes the last of the window.
    fn is_last(&self, cost: u64, in_flight: u64) -> bool {
        in_flight.saturating_add(cost) >= self.left
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

    /// When it was last known to be full.
    pub(super) const fn full_at(&self) -> Moment {
        self.full_at
    }

    /// Whether a response surely speaks of this window.
    pub(super) fn is_current(&self, told: &Told<'_>, heard: &Heard) -> bool {
        let ended = self.ended.after(self.precision().into());
        heard.sent >= self.began || self.bounds(told, heard).from > ended
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
        if is_full {
            self.full_at = self.began;
        }
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

    fn measure(&mut self, told: &Told<'_>, longest: Length) {
        let seen = self.length.max(told.reset_in.map(|wait| wait.length.into()));
        self.length = told.window.map(Length::from).or(seen).map(|length| length.min(longest));
    }

    fn bounds(&self, told: &Told<'_>, heard: &Heard) -> End {
        let unsaid = || self.length.unwrap_or(heard.unsaid).into();
        let wait = told.reset_in.unwrap_or_else(|| Wait { length: unsaid(), truly_secs: None });
        let (length, longest) = (wait.length, Nanos::from(heard.longest));
        let rounding = match told.rounded {
            Some(Rounded::Length) if self.rounding() > Length::ZERO => SECOND,
            _ => self.rounding(),
        };
        let said = heard.now.after(length).after(rounding.into());
        // Whoever knows that it is full at one moment need not ask.
        let full_by = if told.only_more && self.fixed.is_none() {
            told.window.map_or(Moment::MAX, |window| heard.now.after(window)).max(said)
        } else {
            said
        };
        let by = if length <= longest { said } else { heard.now.after(longest) };
        let truly_secs = wait.truly_secs_beyond(longest);
        let (from, is_told) = (heard.sent.after(length.min(longest)), told.reset_in.is_some());
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
        let full_by = if self.fixed.is_some() { met.full_by } else { latest };
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
