//! Windows whose ends are told as whole seconds since 1970.
//!
//! Such a number names its window, but says when it ends only to within a second, and the server's
//! clock is not the caller's. Two things make it exact again. A window that begins with its first
//! request mostly lasts for a whole number of seconds: so it ends at the same part of a second at
//! which that request was counted. And whether the number was rounded down or up shows in the answer
//! to a request that was sent between the moments in question: it is of the window before, or of the
//! next.
//!
//! As long as that is open, nobody goes too early if it was rounded down; and the last request of a
//! window is kept until such a moment, if others had to wait in the window before. It costs nothing:
//! whatever it shows, it was there to be sent. What others have shown is expected of a budget of a
//! single request, which can show nothing.

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use super::Heard;
use crate::dialect::{Ahead, Dialect, Rounding, SECOND, signed};

/// A trial is not made where what it may show lies closer together than that: answers take a while.
const MARGIN: Nanos = Nanos::new(200_000_000);
/// How long after a moment a trial is sent.
const BEHIND: Nanos = Nanos::new(5_000_000);
/// The server's clock is known well enough if it is known to within that.
const CLOSE: u64 = 250_000_000;
/// So many trials are made of a budget: one that is of the next window leaves something in this.
const TRIALS_MAX: u8 = 12;
const ONE: Nanos = Nanos::from_secs(1);

/// What is known of the window that lasts, and of all.
#[expect(clippy::struct_excessive_bools, reason = "each may be so whatever the others are")]
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WholeSeconds {
    /// Its end as it was told.
    reset: u64,
    /// When the first of it that was answered was received: it began before.
    first_by: Moment,
    begin: Option<Begin>,
    /// A window lasts for at least so many seconds, by what was told and by what was counted in it.
    at_least: u64,
    /// It lasts for that many, by when it was over.
    lasts: Option<u64>,
    /// Windows were seen to begin without a request, as those of a calendar do: when the first
    /// request of a window was counted says nothing of its end.
    begins_alone: bool,
    rounding: Rounding,
    /// Whether the next trial is when the window was told to end, rather than a second before it
    /// would be over if that was rounded down.
    tries_told: bool,
    trials: u8,
    /// Whether anybody had to wait in this window, and in the one before.
    is_wanted: bool,
    was_wanted: bool,
    /// Whether something is still to be shown by keeping the last of a window.
    is_open: bool,
    /// Until when the last of it is kept.
    kept_until: Option<Moment>,
}

/// What the answer to the first request of a window says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Begin {
    /// It was counted after this.
    from: Moment,
    /// How many whole seconds later the end is, were it told rounded down: at least and at most.
    secs_min: u64,
    secs_max: u64,
}

/// What an answer says of its window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// When it ends.
    pub(super) reset: u64,
    /// Whether nothing but its own request was taken of it.
    pub(super) is_first: bool,
}

/// Which window an answer tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Before,
    This,
    Next,
}

impl WholeSeconds {
    /// Nothing is known but that.
    pub(super) fn new(point: Point, limit: Option<u64>, heard: &Heard, dialect: &Dialect) -> Self {
        // Where there is but one request, none can be kept to show anything.
        let expected = if limit == Some(1) { dialect.rounding() } else { Rounding::Unknown };
        Self {
            reset: point.reset,
            first_by: heard.now,
            begin: Begin::of(point, heard, dialect.clock.ahead()),
            at_least: 1,
            lasts: None,
            begins_alone: false,
            rounding: expected,
            trials: 0,
            tries_told: dialect.rounding() != Rounding::Up,
            is_wanted: false,
            was_wanted: false,
            is_open: false,
            kept_until: None,
        }
    }

    /// Learns from an answer, and says of which window it is.
    pub(super) fn hear(&mut self, point: Point, heard: &Heard, dialect: &mut Dialect) -> Which {
        // Servers that count from now may be off by one.
        let apart = point.reset.abs_diff(self.reset);
        let is_same = apart == 0 || apart == 1 && self.at_least > 3;
        if point.reset < self.reset && !is_same {
            return Which::Before;
        }
        let begin = Begin::of(point, heard, dialect.clock.ahead()).filter(|_| !self.begins_alone);
        if is_same {
            self.lasts_at(heard.sent, dialect);
            self.reset = self.reset.max(point.reset);
            self.first_by = self.first_by.min(heard.now);
            self.begin = begin.or(self.begin);
        } else {
            self.end_before(heard, begin, dialect);
            if apart.saturating_add(1) < self.at_least {
                // They have become shorter.
                (self.at_least, self.lasts) = (1, None);
            }
            (self.reset, self.first_by, self.begin) = (point.reset, heard.now, begin);
            self.tries_told ^= self.kept_until.is_some();
            self.trials += u8::from(self.kept_until.is_some());
            (self.was_wanted, self.is_wanted) = (self.is_wanted, false);
        }
        if let Some(begin) = begin {
            self.at_least = self.at_least.max(begin.secs_min.saturating_sub(1));
        }
        if self.lasts.is_some_and(|lasts| lasts < self.at_least) {
            // One window was shorter than another is: those were two ends of a calendar's window.
            (self.begins_alone, self.begin, self.lasts) = (true, None, None);
        }
        let ahead = dialect.clock.ahead();
        let is_unknown = match self.rounding {
            Rounding::Exact => ahead.width() > CLOSE,
            _ => self.lasts.is_none(),
        };
        self.is_open = is_unknown && self.trials < TRIALS_MAX;
        self.kept_until = self.trial(heard.now, ahead).filter(|_| self.is_open && self.was_wanted);
        if is_same { Which::This } else { Which::Next }
    }

    /// Somebody has to wait.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Until when the last of the window is kept, if it is.
    pub(super) fn kept_until(&self) -> Option<Moment> {
        self.kept_until
    }

    /// Whether the last of a window of which no answer was had yet is kept until there is one.
    pub(super) fn keeps_last(&self) -> bool {
        self.is_open && self.is_wanted
    }

    /// Until when the window surely lasts, and when it is over.
    pub(super) fn bounds(&self, dialect: &Dialect) -> (Moment, Moment) {
        let ahead = dialect.clock.ahead();
        let from = ahead.surely_before(self.reset).before(ONE);
        let told = ahead.surely_at(self.reset);
        let secs = self.begin.map(|begin| begin.secs_max);
        let by = match (self.rounding, self.lasts) {
            (Rounding::Unknown | Rounding::Down, None) => self.after(secs).min(told.after(ONE)),
            (Rounding::Up, None) => self.after(secs.map(|secs| secs.saturating_sub(1))).min(told),
            (Rounding::Exact, _) => self.after(secs).min(told),
            (_, lasts @ Some(_)) => self.after(lasts).min(told.after(ONE)),
        };
        // However it is rounded, it is told at most a second too late.
        (from, by.max(from))
    }

    /// When it is over that lasts for so many seconds.
    fn after(&self, secs: Option<u64>) -> Moment {
        let secs = secs.map_or(u64::MAX, |secs| secs.max(self.at_least));
        self.first_by.after(Nanos::from_secs(secs))
    }

    /// The window lasted when a request was counted that was sent then.
    fn lasts_at(&mut self, sent: Moment, dialect: &mut Dialect) {
        let ahead = dialect.clock.ahead();
        if sent > self.first_by {
            let lasted = u64::try_from(sent.since(self.first_by).get()).unwrap_or(u64::MAX);
            self.at_least = self.at_least.max(lasted / SECOND + 1);
        }
        if sent >= ahead.surely_at(self.reset) {
            self.show(Rounding::Down, self.begin.and_then(Begin::secs), dialect);
        } else if self.rounding == Rounding::Exact {
            narrow(i64::MIN, self.told_after(sent), dialect);
        } else if self.rounding == Rounding::Up
            && self.begin.is_some_and(|begin| self.at_least >= begin.secs_max)
        {
            // It was only what other budgets do.
            (self.rounding, self.lasts) = (Rounding::Unknown, None);
        }
    }

    /// The window was over when an answer was had.
    fn end_before(&mut self, heard: &Heard, next: Option<Begin>, dialect: &mut Dialect) {
        let ahead = dialect.clock.ahead();
        let is_dated_before = heard.date_secs.is_some_and(|date_secs| date_secs < self.reset);
        let secs = self.begin.and_then(Begin::secs);
        if is_dated_before || heard.now < ahead.surely_before(self.reset) {
            // Where it is not sure how many there are, the next window may show it.
            if let Some(secs) = secs {
                self.show(Rounding::Up, Some(secs.saturating_sub(1)), dialect);
            }
            return;
        }
        if self.rounding == Rounding::Exact {
            return narrow(self.told_after(heard.now), i64::MAX, dialect);
        }
        if self.rounding != Rounding::Unknown {
            return;
        }
        if let Some(next) = next {
            self.at_least = self.at_least.max(next.secs_min.saturating_sub(1));
        }
        // It lasted for less than they last, or is told to have: so they do not begin with a request.
        let is_shorter = |begin: Begin| {
            let shortest = begin.from.after(Nanos::from_secs(self.at_least));
            heard.now < shortest || begin.secs_max < self.at_least
        };
        if self.begin.is_some_and(is_shorter) {
            self.show(Rounding::Exact, None, dialect);
        }
    }

    /// By how much the server's clock is ahead if a window that ends as told ended at that moment.
    fn told_after(&self, moment: Moment) -> i64 {
        signed(self.reset.saturating_mul(SECOND)).saturating_sub(signed(moment.as_nanos()))
    }

    fn show(&mut self, rounding: Rounding, lasts: Option<u64>, dialect: &mut Dialect) {
        if self.rounding != rounding {
            self.rounding = rounding;
            dialect.hear_rounding(rounding);
        }
        self.lasts = lasts.or(self.lasts);
    }

    /// When the last request of the window should be sent so that its answer shows something.
    fn trial(&self, now: Moment, ahead: Ahead) -> Option<Moment> {
        let told = ahead.surely_at(self.reset);
        match (self.rounding, self.begin) {
            (Rounding::Exact, _) => Some(ahead.perhaps_at(self.reset)),
            (_, Some(begin)) => {
                // Whether it is over when it was told to end, or, if it may be, a second before it
                // would be if that was rounded down.
                let rounded_down = begin.from.after(Nanos::from_secs(begin.secs_min));
                let rounded_up = self.first_by.after(less_one(begin.secs_max)).after(BEHIND);
                let told = (told.after(BEHIND), rounded_down.since(told));
                let earlier = (rounded_up, told.0.since(rounded_up));
                let both = if self.tries_told { [told, earlier] } else { [earlier, told] };
                let shows =
                    both.into_iter().find(|(_, margin)| *margin >= MARGIN).map(|(at, _)| at);
                // Or else the server's clock must be known better: a second begins then.
                let ticks = || ahead.perhaps_at(ahead.latest_secs(now).saturating_add(1));
                shows.or_else(|| (ahead.width() > CLOSE).then(ticks))
            }
            (_, None) => None,
        }
    }
}

impl Begin {
    fn of(point: Point, heard: &Heard, ahead: Ahead) -> Option<Self> {
        if !point.is_first {
            return None;
        }
        let end = signed(point.reset.saturating_add(1).saturating_mul(SECOND)).saturating_sub(1);
        let secs = |began: Moment, ahead: i64| {
            let began = signed(began.as_nanos()).saturating_add(ahead);
            end.saturating_sub(began).max(0).unsigned_abs() / SECOND
        };
        let (secs_min, secs_max) = (secs(heard.now, ahead.most), secs(heard.sent, ahead.least));
        Some(Self { from: heard.sent, secs_min, secs_max })
    }

    /// How many they are, if that is sure.
    fn secs(self) -> Option<u64> {
        (self.secs_min == self.secs_max).then_some(self.secs_min)
    }
}

fn less_one(secs: u64) -> Nanos {
    Nanos::from_secs(secs.saturating_sub(1))
}

/// The server's clock is ahead by something between these, if that can be.
fn narrow(least: i64, most: i64, dialect: &mut Dialect) {
    let known = dialect.clock.ahead();
    if !dialect.clock.is_unknown() && least <= known.most && most >= known.least {
        dialect.clock.narrow(Ahead { least, most });
    }
}
