//! What the answers of an API show of how it means its numbers.
//!
//! The same names stand for different things: `retry_after` in a body counts seconds for some and
//! milliseconds for others, and the end of a window is told rounded up, down, or not at all. So what
//! is sure in one answer is kept for those that leave it open. All of it is learnt anew by each
//! tracker.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::arena::Slot;
use crate::profile::BodyUnit;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// For how long the server's clock is remembered, at least; at most twice as long. Clocks drift.
const CLOCK_MEMORY: Nanos = Nanos::from_secs(600);

/// Where waits that were taken for milliseconds are refused so often in a row, they were seconds.
const GUESSES_MAX: u32 = 3;
/// By how much two answers may differ that tell the same end of a wait, in seconds; one comes so much
/// later than the other that they do not tell it because they say the same number.
const SAME_END: Nanos = Nanos::new(1_500_000_000);
const LATER: Nanos = Nanos::from_secs(3);

/// What so many budgets have shown is expected of others.
const SHOWN: u32 = 2;

/// What is known of one API.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Dialect {
    /// What the number in the body of a refusal counts.
    pub(crate) body: Option<BodyUnit>,
    /// Whether `Retry-After` is in milliseconds.
    pub(crate) is_header_millis: bool,
    /// Whether a wait in milliseconds was seen to be one.
    pub(crate) is_unit_sure: bool,
    /// How many waits in a row were refused at their end that were likely milliseconds, and how many
    /// refusals in a row told the same end as the one before, if they count seconds.
    refused_guesses: u32,
    same_ends: u32,
    /// The latest wait that was divided by a thousand, until an answer shows whether that was right.
    #[serde(skip)]
    shortened: Option<ShortenedWait>,
    /// Another process has another clock.
    #[serde(skip)]
    pub(crate) clock: ServerClock,
    rounding: Option<Rounding>,
    /// How often a budget has shown it.
    shown: u32,
}

/// Where the end of a window is, as against the whole second that is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rounding {
    /// Nothing is known: up to a second later, as whole seconds mostly are what was cut.
    #[default]
    Unknown,
    /// Up to a second later.
    Down,
    /// Exactly there.
    Exact,
    /// Up to a second earlier.
    Up,
}

/// A wait that was taken for milliseconds.
#[derive(Clone, Copy, Debug)]
struct ShortenedWait {
    bucket: Option<Slot>,
    said_at: Moment,
    until: Moment,
    /// Until when it would last if it counted seconds.
    longer_until: Moment,
    /// Whether nothing but the number itself speaks for milliseconds.
    is_guess: bool,
    /// Whether a request that was sent after it was answered.
    is_answered: bool,
}

/// By how much the server's clock is ahead of the caller's.
///
/// `Date` is the server's time without what is left of a second, and that was between the sending
/// and the receipt. So each answer bounds the difference from both sides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    latest: Option<Ahead>,
    before: Option<Ahead>,
    since: Moment,
}

/// Bounds of a difference in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) least: i64,
    pub(crate) most: i64,
}

impl Dialect {
    /// A bucket waits for as many milliseconds, because of what the API has shown before, or as a
    /// guess.
    pub(crate) fn shorten(
        &mut self,
        bucket: Option<Slot>,
        now: Moment,
        wait: Nanos,
        is_guess: bool,
    ) {
        let longer = Nanos::new(wait.get().saturating_mul(1_000));
        let (until, longer_until) = (now.after(wait), now.after(longer));
        let (said_at, is_answered) = (now, false);
        self.shortened =
            Some(ShortenedWait { bucket, said_at, until, longer_until, is_guess, is_answered });
    }

    /// A request of a bucket was refused; `ends` is until when, if the number in the body counts
    /// seconds. If it was sent after a wait in milliseconds, they were perhaps seconds.
    pub(crate) fn hear_refused(
        &mut self,
        bucket: Option<Slot>,
        (sent, now): (Moment, Moment),
        ends: Option<Moment>,
    ) {
        let Some(wait) = self.shortened_before(bucket, sent) else { return };
        let is_first = !std::mem::replace(&mut wait.is_answered, true);
        let wait = *wait;
        if !wait.is_guess {
            if is_first && !self.is_unit_sure {
                self.forget_units();
            }
            return;
        }
        let off = ends.map(|ends| ends.since(wait.longer_until).max(wait.longer_until.since(ends)));
        let is_later = now.since(wait.said_at) >= LATER;
        let is_same = is_later && off.is_some_and(|off| off <= SAME_END);
        self.same_ends = if is_same { self.same_ends + 1 } else { 0 };
        self.refused_guesses += u32::from(is_first);
        // A request of the same bucket may also be served because it is of another kind.
        let is_wrong = if self.is_unit_sure {
            self.same_ends >= GUESSES_MAX
        } else {
            self.same_ends > 0 || self.refused_guesses >= GUESSES_MAX
        };
        if is_wrong {
            self.forget_units();
            self.body = Some(BodyUnit::Seconds);
        }
    }

    /// A request of a bucket was served.
    #[inline]
    pub(crate) fn hear_served(&mut self, bucket: Option<Slot>, sent: Moment) {
        if self.shortened.is_some()
            && let Some(wait) = self.shortened_before(bucket, sent)
            && !std::mem::replace(&mut wait.is_answered, true)
        {
            self.is_unit_sure |= sent < wait.longer_until;
            self.refused_guesses = 0;
        }
    }

    /// Nothing is known any more of what waits count.
    pub(crate) fn forget_units(&mut self) {
        (self.body, self.shortened) = (None, None);
        (self.is_header_millis, self.is_unit_sure) = (false, false);
        (self.refused_guesses, self.same_ends) = (0, 0);
    }

    /// The wait after which a request of its bucket was sent.
    fn shortened_before(
        &mut self,
        bucket: Option<Slot>,
        sent: Moment,
    ) -> Option<&mut ShortenedWait> {
        self.shortened.as_mut().filter(|wait| wait.bucket == bucket && sent >= wait.until)
    }

    /// What is expected of a budget of which nothing is known.
    pub(crate) fn rounding(&self) -> Rounding {
        self.rounding.filter(|_| self.shown >= SHOWN).unwrap_or_default()
    }

    /// One budget has shown how ends are told.
    pub(crate) fn hear_rounding(&mut self, shown: Rounding) {
        // Where they differ, what is never too early is expected.
        let is_other = self.rounding.is_some_and(|known| known != shown);
        self.rounding = Some(if is_other { Rounding::Down } else { shown });
        self.shown = self.shown.saturating_add(1);
    }
}

impl ServerClock {
    /// Learns from the `Date` of an answer.
    pub(crate) fn learn(&mut self, date_secs: u64, sent: Moment, now: Moment) {
        let date = signed(date_secs.saturating_mul(SECOND));
        let least = date.saturating_sub(signed(now.as_nanos()));
        let second = signed(SECOND);
        let most = date.saturating_add(second).saturating_sub(signed(sent.as_nanos()));
        if now >= self.since.after(CLOCK_MEMORY) {
            self.before = self.latest.take();
            self.since = now;
        }
        self.narrow(Ahead { least, most });
    }

    /// Learns that it is between these.
    pub(crate) fn narrow(&mut self, ahead: Ahead) {
        let known = self.ahead();
        if self.is_unknown() || ahead.least > known.most || ahead.most < known.least {
            // One of them has stepped, or there are several servers.
            *self = Self { latest: Some(ahead), before: None, since: self.since };
        } else {
            self.latest = Some(self.latest.map_or(ahead, |latest| latest.meet(ahead)));
        }
    }

    /// Where no answer had a date, both are taken to be right.
    pub(crate) fn ahead(&self) -> Ahead {
        match (self.latest, self.before) {
            (Some(latest), Some(before)) => latest.meet(before),
            (one, other) => one.or(other).unwrap_or(Ahead { least: 0, most: 0 }),
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.latest.is_none() && self.before.is_none()
    }
}

impl Ahead {
    fn meet(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), most: self.most.min(other.most) }
    }

    /// When it is surely that second on the server's clock, on the caller's.
    pub(crate) fn surely_at(self, secs: u64) -> Moment {
        on_our_clock(secs, self.least)
    }

    /// Until when it is surely not that second yet.
    pub(crate) fn surely_before(self, secs: u64) -> Moment {
        on_our_clock(secs, self.most)
    }

    /// In the middle of both.
    pub(crate) fn perhaps_at(self, secs: u64) -> Moment {
        on_our_clock(secs, self.least.midpoint(self.most))
    }

    /// In which second the server's clock may be by now.
    pub(crate) fn latest_secs(self, now: Moment) -> u64 {
        signed(now.as_nanos()).saturating_add(self.most).max(0).unsigned_abs() / SECOND
    }

    pub(crate) fn width(self) -> u64 {
        self.most.saturating_sub(self.least).unsigned_abs()
    }
}

fn on_our_clock(secs: u64, ahead: i64) -> Moment {
    let theirs = signed(secs.saturating_mul(SECOND));
    Moment::from_nanos(theirs.saturating_sub(ahead).max(0).unsigned_abs())
}

pub(crate) fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
