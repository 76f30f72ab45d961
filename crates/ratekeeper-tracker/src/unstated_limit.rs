//! A limit that the server does not tell: it only refuses.
//!
//! Whatever way a server counts, requests that go one after the other at the right distance are all
//! served. So that distance is learnt: from two times at which the server served again after it had
//! refused, and how many it served in between. From then on it is corrected as it goes. A refusal
//! makes it longer by a small part, and several in a row by more; where nothing is refused for a
//! while it becomes shorter, first by little, and then by more and more, for the limit may have been
//! raised. So in the long run few requests are refused, and rarely more than a few per cent of the
//! limit are left unused.
//!
//! Some refusals have nothing to do with the distance: those of one user, or of an account without
//! money. They come one at a time, and as often at a much greater distance as before. Then the
//! distance is what it was before them, and they are no longer heeded until there are many more.
//!
//! A first time of refusing that is longer than the time before it may be a window of which all was
//! used at once, or the API was down. Only a second one that is like it shows a window.
//!
//! Who sends less than that need not keep the distance: after some time without requests as many as
//! once fitted between two refusals may go at once. Only then they have to wait as long as so many
//! take.

mod climb;
mod refused_share;

use ratekeeper_time::{Moment, Nanos};
use serde::{Deserialize, Serialize};

use crate::block::UNSAID_MAX;
use climb::Climb;
use refused_share::RefusedShare;

const SECOND: u64 = 1_000_000_000;
/// A refusal makes the distance longer by at least a 32nd of it (as a shift). Another one that comes
/// before the distance was made shorter again adds twice as much, and so on up to a quarter.
const GROWTH: u32 = 5;
const GROWTH_MAX: u32 = 2;
/// A step without refusals makes it shorter by a part between a 128th and an eighth (as shifts).
const STEP_MIN: u32 = 7;
const STEP_MAX: u32 = 3;
/// After refusals that lasted longer than a window, and than this, steps are at least so large:
/// perhaps the server was down, and its limit is what it was.
const OUTAGE_MIN: u64 = 20 * SECOND;
const STEP_AFTER_OUTAGE: u32 = 4;
/// After so many steps without a refusal steps become larger. Four of the smallest lead back from
/// where a refusal has led.
const CALM: u32 = 8;
/// Between two steps as many requests go as fit into a window; but at least as many as in four
/// seconds, and at most as many as in a minute.
const APART_MIN: u64 = 4 * SECOND;
const APART_MAX: u64 = 60 * SECOND;
/// Where steps have become small and something is refused nevertheless, they become rarer: up to as
/// many requests as fit into a window, or go in this time, or this many. For where few fit into a
/// window, each refusal costs a large part of it.
const APART_LATER: u64 = 20 * SECOND;
const REQUESTS_APART_LATER: u64 = 8;
/// The very first steps are quicker, for what was seen first is mostly too long; but at least this
/// many requests go in between.
const REQUESTS_APART_FIRST: u64 = 4;
/// From then on steps are larger, until they lead to refusals.
const STEP_UNRELATED: u32 = 2;
/// A limit so many times as high as where something was refused is none.
const GONE: u64 = 16;
/// Timers are no finer than this: somebody who is late by less may make up for it.
const LATE: u64 = 10_000_000;
/// How often a pause doubles at the most.
const DOUBLINGS_MAX: u32 = 32;

/// What is known of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct UnstatedLimit {
    /// When the server served again after it had refused, and how many it has served since.
    served_since: Option<Moment>,
    served: u64,
    last_answer: Moment,
    /// Refusals of requests that were sent before say nothing new.
    heard_at: Moment,
    /// Refusals in a row, and when the first of them was heard.
    strikes: u32,
    struck_at: Moment,
    refused_lately: RefusedShare,
    /// The share that is refused whatever the distance is, if that was seen.
    unrelated: Option<RefusedShare>,
    /// What the time before showed, if that may have been an outage.
    doubtful: Option<ServedPeriod>,
    pace: Option<LearntPace>,
    /// Nobody waits for longer than that.
    longest: u64,
}

/// From one time at which the server served again to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ServedPeriod {
    nanos: u64,
    served: u64,
}

/// How far apart requests are sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LearntPace {
    distance: u64,
    /// How many fit between two refusals, and so may go at once if none has gone for long.
    count: u64,
    /// When the next may go, but for those that go at once.
    next: Moment,
    burst: Option<Burst>,
    /// The distance that was kept when something was last refused.
    refused_at: u64,
    climb: Climb,
    /// The part by which it shrinks, as a shift.
    step: u32,
    /// Refusals since it last shrank, and how often it has shrunk since the last refusal.
    refusals: u32,
    calm: u32,
    /// How many have kept the distance since it shrank, and after how many it shrinks again.
    kept: u64,
    apart: u64,
}

/// Those that go at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Burst {
    began: Moment,
    left: u64,
}

/// What to do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing: it was refused for the same reason as one before.
    Nothing,
    /// Nothing more: those that follow go at a greater distance.
    Slower,
    /// Nobody may go until then.
    Pause(Moment),
    /// Nobody may go for a while; it is not known for how long.
    Unknown,
}

impl UnstatedLimit {
    /// A request was refused, heard at `now`.
    pub(crate) fn new(longest: Nanos, now: Moment) -> Self {
        let longest = nanos(longest);
        Self { heard_at: now, struck_at: now, strikes: 1, longest, ..Self::default() }
    }

    /// However great the distance, one more request may go after the longest wait from now on.
    pub(crate) fn wait_at_most(&mut self, longest: Nanos, now: Moment) {
        self.longest = nanos(longest);
        self.bound_next(now);
    }

    fn bound_next(&mut self, now: Moment) {
        if let Some(pace) = &mut self.pace {
            pace.next = pace.next.min(now.after(length(self.longest)));
        }
    }

    /// When the next request may go.
    pub(crate) fn opens_at(&self, now: Moment) -> Moment {
        self.pace.as_ref().map_or(now, |pace| pace.opens_at(now))
    }

    /// When a request may go that lets so many others go first.
    pub(crate) fn predict(&self, before: u64, now: Moment) -> Moment {
        let Some(pace) = &self.pace else { return now };
        let at_once = pace.at_once(now);
        if before < at_once {
            return now;
        }
        let wait = u128::from(pace.distance) * u128::from(before - at_once);
        pace.next.max(now).after(Nanos::new(wait))
    }

    /// A request goes, while so many others are in flight.
    pub(crate) fn take(&mut self, in_flight: u64, now: Moment) {
        if let Some(pace) = &mut self.pace {
            pace.take(now);
            if pace.distance < pace.refused_at / GONE {
                self.pace = None;
                self.served_since = None;
            }
            self.bound_next(now);
        } else if in_flight == 0 && now >= self.last_answer.after(length(SECOND)) {
            // For a while nobody wanted to send anything: what was served says nothing of a limit.
            self.served_since = self.served_since.map(|_| now);
            self.served = 0;
        }
    }

    /// A request that was let pass then was not sent after all.
    pub(crate) fn give_back(&mut self, let_pass: Moment) {
        // The distance has been counted anew since, or the request went first and took no part in it.
        if let_pass < self.heard_at {
            return;
        }
        match &mut self.pace {
            Some(LearntPace { burst: Some(burst), .. }) => burst.left += 1,
            Some(pace) => pace.next = pace.next.before(length(pace.distance)),
            None => {}
        }
    }

    /// A request was served, `first` if nobody could go before it.
    pub(crate) fn serve(&mut self, sent: Moment, first: bool, now: Moment) {
        self.last_answer = now;
        self.refused_lately.serve();
        if sent >= self.heard_at {
            self.strikes = 0;
        }
        if first {
            self.recover(sent);
            self.heard_at = now;
        }
        if self.served_since.is_some_and(|since| sent >= since) {
            self.served += 1;
        }
        if let Some(pace) = &mut self.pace {
            pace.climb.serve(pace.distance);
        }
    }

    /// A request was refused, while so many are in flight.
    pub(crate) fn refuse(&mut self, sent: Moment, in_flight: u64, now: Moment) -> Reaction {
        self.refused_lately.refuse();
        if let Some(unrelated) = self.unrelated {
            if self.refused_lately <= unrelated.more() {
                return Reaction::Nothing;
            }
            self.unrelated = None;
            self.served_since = None;
        }
        if sent < self.heard_at {
            return Reaction::Nothing;
        }
        self.heard_at = now;
        if self.strikes == 0 {
            self.struck_at = now;
        }
        self.strikes = self.strikes.saturating_add(1);
        let Some(pace) = &mut self.pace else { return Reaction::Unknown };
        if self.strikes == 1 {
            self.slow_down(in_flight, now);
            return Reaction::Slower;
        }
        pace.climb = Climb::new(pace.distance);
        let doublings = (self.strikes - 1).min(DOUBLINGS_MAX);
        let doubled = Nanos::new(u128::from(pace.distance) << doublings);
        Reaction::Pause(now.after(doubled.min(UNSAID_MAX.max(length(pace.distance)))))
    }

    /// A request that came alone was refused.
    fn slow_down(&mut self, in_flight: u64, now: Moment) {
        let Some(pace) = &mut self.pace else { return };
        if pace.climb.is_in_vain(pace.distance) {
            pace.shrink_back(now);
            self.unrelated = Some(self.refused_lately);
        } else {
            pace.refuse(in_flight, now);
            pace.climb.refuse(pace.distance);
        }
        self.bound_next(now);
    }

    /// The server serves again.
    fn recover(&mut self, sent: Moment) {
        let period = |since| ServedPeriod { nanos: nanos(sent.since(since)), served: self.served };
        let seen = self.served_since.map(period).filter(|seen| seen.served > 0);
        let refused_for = nanos(sent.since(self.struck_at));
        match (&mut self.pace, seen) {
            (None, _) if self.unrelated.is_some() => {}
            (pace @ None, Some(seen)) => {
                let before = self.doubtful.take().filter(|before| before.is_like(seen));
                if seen.may_be_outage(refused_for) && before.is_none() {
                    self.doubtful = Some(seen);
                } else {
                    let distance = before.map_or(u64::MAX, ServedPeriod::distance);
                    let distance = seen.distance().min(distance);
                    *pace = Some(LearntPace::new(distance, seen.served, sent));
                }
            }
            (None, None) => {}
            (Some(pace), Some(seen)) if seen.served >= pace.count / 4 => {
                let is_outage = refused_for > pace.window().max(OUTAGE_MIN);
                pace.recover(seen.distance(), seen.served, is_outage);
                pace.restart(sent);
            }
            (Some(pace), _) => {
                pace.restart(sent);
                return self.bound_next(sent);
            }
        }
        self.bound_next(sent);
        self.served_since = Some(sent);
        self.served = 0;
    }
}

impl ServedPeriod {
    const fn distance(self) -> u64 {
        self.nanos / self.served
    }

    /// Whether the server perhaps was down for so long at its end: most of it, and not only a moment.
    const fn may_be_outage(self, refused_for: u64) -> bool {
        refused_for > OUTAGE_MIN && refused_for > self.nanos / 2
    }

    /// Whether neither served more than twice as many, as in two windows. Their lengths say less: the
    /// end of a time of refusing is looked for ever more rarely, and so it is often found late.
    const fn is_like(self, other: Self) -> bool {
        self.served / 2 <= other.served && other.served / 2 <= self.served
    }
}

impl LearntPace {
    fn new(distance: u64, count: u64, went: Moment) -> Self {
        let distance = distance.max(1);
        let mut new = Self {
            distance,
            count,
            next: went.after(length(distance)),
            burst: None,
            refused_at: distance,
            climb: Climb::new(distance),
            step: STEP_MAX,
            refusals: 0,
            calm: 0,
            kept: 0,
            apart: 0,
        };
        new.apart = (new.apart_min() / 4).max(REQUESTS_APART_FIRST);
        new
    }

    /// How long it takes until as many may go at once again.
    fn window(&self) -> u64 {
        self.distance.saturating_mul(self.count)
    }

    fn apart_min(&self) -> u64 {
        self.count
            .min(APART_MAX / self.distance.max(1))
            .max(APART_MIN / self.distance.max(1))
            .max(1)
    }

    fn apart_max(&self) -> u64 {
        self.count.max(APART_LATER / self.distance.max(1)).max(REQUESTS_APART_LATER)
    }

    /// How many may go at once.
    fn at_once(&self, now: Moment) -> u64 {
        let window = length(self.window());
        match self.burst {
            Some(burst) if now < burst.began.after(window) => burst.left,
            _ if now >= self.next.after(window) => self.count,
            _ => 0,
        }
    }

    fn opens_at(&self, now: Moment) -> Moment {
        if self.at_once(now) > 0 { now } else { self.next }
    }

    fn take(&mut self, now: Moment) {
        let window = length(self.window());
        self.burst = self.burst.filter(|burst| now < burst.began.after(window));
        if self.burst.is_none() && now >= self.next.after(window) {
            self.burst = Some(Burst { began: now, left: self.count });
        }
        if let Some(burst) = &mut self.burst {
            burst.left = burst.left.saturating_sub(1);
            self.next = burst.began.after(window);
            return;
        }
        if now < self.next.after(length(self.distance.max(LATE))) {
            self.keep();
        }
        self.next = self.next.max(now.before(length(LATE))).after(length(self.distance));
    }

    /// One has waited for its turn: the API is used as much as it is known to permit.
    fn keep(&mut self) {
        self.kept += 1;
        if self.kept < self.apart {
            return;
        }
        self.kept = 0;
        self.refusals = 0;
        self.calm += 1;
        if self.calm >= CALM {
            self.step = self.step.saturating_sub(1).max(STEP_MAX.min(self.step));
            self.apart = (self.apart / 2).max(self.apart_min().min(self.apart));
        }
        self.distance = (self.distance - (self.distance >> self.step)).max(1);
        if self.distance < self.climb.from {
            self.climb = Climb::new(self.distance);
        }
    }

    /// What made it greater had nothing to do with it.
    fn shrink_back(&mut self, now: Moment) {
        self.distance = self.climb.from;
        self.refused_at = self.distance;
        self.next = now;
        (self.step, self.apart) = (STEP_UNRELATED, self.apart_min());
        (self.refusals, self.kept, self.calm) = (0, 0, 0);
    }

    fn refuse(&mut self, in_flight: u64, now: Moment) {
        if let Some(burst) = self.burst.take() {
            // As many do not fit, but the distance may be right.
            self.count = self.count.saturating_sub(burst.left + in_flight).max(1);
            self.next = burst.began.after(length(self.window()));
            return;
        }
        if self.step >= STEP_MIN {
            self.apart = self.apart.saturating_mul(2).min(self.apart_max());
        }
        self.apart = self.apart.max(self.apart_min());
        let growth = GROWTH.saturating_sub(self.refusals).max(GROWTH_MAX).min(self.step);
        self.distance = self.distance.saturating_add((self.distance >> growth).max(1));
        self.step = (self.step + 1).min(STEP_MIN);
        self.refusals += 1;
        self.calm = 0;
        self.kept = 0;
        self.refused_at = self.distance.max(self.refused_at / 2);
        self.next = self.next.max(now.after(length(self.distance)));
    }

    /// One went that was served, after nobody could.
    fn restart(&mut self, went: Moment) {
        self.burst = None;
        self.next = went.after(length(self.distance));
    }

    /// The server serves again; what was seen of the distance since the last time it did.
    fn recover(&mut self, seen: u64, served: u64, is_outage: bool) {
        self.count = self.count.min(served).max(self.count / 2).max(1);
        // Not at once, for it may also have been down.
        let most = self.distance.max(self.refused_at);
        self.distance = seen.max(self.distance).min(most.saturating_add(most / 2));
        self.refused_at = self.distance;
        self.climb = Climb::new(self.distance);
        if is_outage {
            self.step = self.step.min(STEP_AFTER_OUTAGE);
            self.apart = self.apart_min();
        }
    }
}

const fn length(nanos: u64) -> Nanos {
    Nanos::new(nanos as u128)
}

fn nanos(length: Nanos) -> u64 {
    u64::try_from(length.get()).unwrap_or(u64::MAX)
}
